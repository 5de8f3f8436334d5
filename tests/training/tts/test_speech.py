"""Shards of speech."""

from pathlib import Path

import numpy as np

from tests.training.tts.shapes import tone_shard
from training.tts.speech import LEVEL, join, levelled, load_shard, read_ahead, shards


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


def test_read_ahead_keeps_the_order(tmp_path: Path) -> None:
    for i in range(7):
        tone_shard("ada", count=1, frames=10 + i).save(tmp_path / f"ada-{i}.npz")
    (tmp_path / "ada-9.part.npz").write_bytes(b"half written")
    read = read_ahead(shards([tmp_path]), depth=2)
    assert [shard.utterances[0].frames for shard in read] == list(range(10, 17))
