"""Shards of speech."""

from pathlib import Path

import numpy as np

from tests.training.tts.shapes import tone_shard
from training.tts.phones import UNKNOWN
from training.tts.speech import LEVEL, Arrivals, join, levelled, load_shard, read_ahead, shards


def test_a_shard_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    shard = tone_shard("ada")
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


def test_shards_are_read_as_they_come(tmp_path: Path) -> None:
    """Those that are there, then those that come; plain samples too, brought to 24 kHz; none twice, no half-written."""
    tone_shard("ada", frames=20).save(tmp_path / "ada-0.npz")
    (tmp_path / "ada-9.part.npz").write_bytes(b"half written")
    (tmp_path / "broken.npz").write_bytes(b"no shard")
    (np.sin(np.arange(16000) / 9) * 9000).astype(np.int16).tofile(tmp_path / "others.pcm")
    arrivals = Arrivals([tmp_path, tmp_path / "not there yet"])
    assert arrivals.caught_up.wait(60)
    first, second = arrivals.take(), arrivals.take()
    assert first and second and arrivals.take() is None and arrivals.empty
    assert first.utterances[0].speaker == "ada" and len(second.wave) == 13 * 1920
    assert np.all(second.labels == UNKNOWN)


def test_read_ahead_keeps_the_order(tmp_path: Path) -> None:
    for i in range(7):
        tone_shard("ada", count=1, frames=10 + i).save(tmp_path / f"ada-{i}.npz")
    read = read_ahead(shards([tmp_path]), depth=2)
    assert [shard.utterances[0].frames for shard in read] == list(range(10, 17))
