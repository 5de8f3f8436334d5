"""Shards of speech."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.training.tts.shapes import tone_shard
from training.tts.speech import LEVEL, join, levelled, load, shards


def test_a_shard_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    shard = tone_shard("ada")
    shard.save(tmp_path / "a.npz")
    again = load(tmp_path / "a.npz")
    assert again.utterances == shard.utterances
    assert all(np.array_equal(again.arrays[name], shard.arrays[name]) for name in ("wave", "labels"))
    assert np.array_equal(join(again.pieces()).arrays["wave"], shard.arrays["wave"])


def test_utterances_are_whole_frames_at_one_level() -> None:
    wave = 0.3 * np.sin(np.arange(5000, dtype=np.float32) / 9)
    made = levelled(wave)
    assert len(made) == 3 * 1920 and not made[5000:].any()
    assert np.isclose(np.sqrt(np.mean((made[:5000] / 32768.0) ** 2)), LEVEL, rtol=0.01)


def test_shards_are_read_in_one_order_whatever_folders_they_lie_in(tmp_path: Path) -> None:
    for name in ("b/w-1", "a/w-0", "b/w-0", "a/w-2"):
        tone_shard("ada", count=1, frames=10).save(tmp_path / f"{name}.npz")
    (tmp_path / "a/w-9.part.npz").write_bytes(b"half written")
    found = [str(path.relative_to(tmp_path)) for path in shards([tmp_path / "a", tmp_path / "b"])]
    assert found == ["a/w-0.npz", "b/w-0.npz", "b/w-1.npz", "a/w-2.npz"]
