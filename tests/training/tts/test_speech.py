"""Shards of speech."""

from pathlib import Path

import numpy as np

from tests.training.tts.shapes import tone_shard
from training.tts.speech import LEVEL, join, levelled, load_shard, shards


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


def test_the_first_shards_hold_every_voice(tmp_path: Path) -> None:
    for name in ("b-1", "a-0", "b-0", "a-1"):
        tone_shard("ada", count=1, frames=10).save(tmp_path / f"{name}.npz")
    (tmp_path / "ada-9.part.npz").write_bytes(b"half written")
    assert [path.stem for path in shards([tmp_path])] == ["a-0", "b-0", "a-1", "b-1"]
