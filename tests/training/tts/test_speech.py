"""Shards of speech and phone counts."""

from pathlib import Path

import numpy as np

from tests.training.tts.shapes import tone_shard
from training.tts.phones import SILENCE, errors, spoken
from training.tts.speech import LEVEL, join, levelled, load_shard, load_speech, read_ahead, shards, trim


def test_a_shard_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    shard = tone_shard("slt")
    shard.save(tmp_path / "a.npz")
    again = load_shard(tmp_path / "a.npz")
    assert again.utterances == shard.utterances
    assert np.array_equal(again.wave, shard.wave) and np.array_equal(again.labels, shard.labels)
    assert np.array_equal(join(again.pieces()).wave, shard.wave)


def test_utterances_are_whole_frames_at_one_level() -> None:
    wave = 0.3 * np.sin(np.arange(5000, dtype=np.float32) / 9)
    made = levelled(wave)
    assert len(made) == 3 * 1920 and not made[5000:].any()
    assert np.isclose(np.sqrt(np.mean((made[:5000] / 32768.0) ** 2)), LEVEL, rtol=0.01)


def test_silence_around_the_speech_is_cut_to_its_margins() -> None:
    wave = np.zeros(48000, np.float32)
    wave[20000:30000] = np.sin(np.arange(10000) / 5)
    first, last = trim(wave)
    assert abs(first - (20000 - 1920)) <= 480 and abs(last - (30000 + 3840)) <= 480


def test_phone_errors_are_counted_by_kind() -> None:
    assert spoken([SILENCE, 3, 3, SILENCE, 3, 4]) == [3, 3, 4]
    assert errors([1, 2, 3], [1, 2, 3]) == (0, 0, 0)
    assert errors([1, 9, 3], [1, 2, 3]) == (1, 0, 0)
    assert errors([1, 3], [1, 2, 3]) == (0, 1, 0)
    assert errors([1, 2, 2, 3], [1, 2, 3]) == (0, 0, 1)


def test_synthetic_speech_is_limited_in_hours_recordings_are_not(tmp_path: Path) -> None:
    for i in range(3):
        tone_shard("slt", frames=20).save(tmp_path / f"slt-{i}.npz")
        tone_shard("kathleen", frames=20).save(tmp_path / f"voice-{i}.npz")
    (tmp_path / "slt-9.part.npz").write_bytes(b"half written")
    made, recorded = load_speech([tmp_path], "slt", hours=1.5 * 4 * 20 / 12.5 / 3600)
    assert len(made) == 2 and len(recorded) == 3


def test_read_ahead_keeps_the_order(tmp_path: Path) -> None:
    for i in range(7):
        tone_shard("slt", count=1, frames=10 + i).save(tmp_path / f"slt-{i}.npz")
    read = read_ahead(shards([tmp_path]), depth=2)
    assert [shard.utterances[0].frames for shard in read] == list(range(10, 17))
