"""Shards of speech come back as they were written, and all are equally loud."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

from tests.training.tts.shapes import tone_shard
from training.tts.speech import LOUDNESS, join, levelled, load, loudness, shards


def test_a_shard_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    shard = tone_shard("ada")
    shard.save(tmp_path / "a.npz")
    again = load(tmp_path / "a.npz")
    assert again.utterances == shard.utterances
    assert all(np.array_equal(again.arrays[name], shard.arrays[name]) for name in ("wave", "labels"))
    assert np.array_equal(join(again.pieces()).arrays["wave"], shard.arrays["wave"])


def tone(pitch: float, seconds: float, peak: float) -> NDArray[np.float32]:
    return (peak * np.sin(2 * np.pi * pitch * np.arange(int(24_000 * seconds)) / 24_000)).astype(np.float32)


def test_utterances_are_whole_frames_as_loud_as_each_other() -> None:
    made = [levelled(tone(pitch, 0.75, peak)) for pitch, peak in ((200, 0.3), (2000, 0.01))]
    for wave in made:
        assert len(wave) == 10 * 1920 and not wave[18_000:].any()
        assert loudness(wave[:16_800].astype(np.float32) / 32768) == pytest.approx(LOUDNESS, abs=0.3)
    assert np.abs(made[0]).max() > 1.2 * np.abs(made[1]).max()  # High tones are heard louder.


def test_loudness_is_that_of_the_standard_and_pauses_do_not_count() -> None:
    """By BS.1770 a tone of 997 Hz at full scale on one channel has -3.01 LUFS."""
    wave = tone(997, 2, 1.0)
    assert loudness(wave) == pytest.approx(-3.01, abs=0.05)
    assert loudness(np.concatenate([0.1 * wave, 0 * wave])) == pytest.approx(-23.01, abs=0.05)
    assert loudness(0 * wave) == -70


def test_shards_are_read_in_one_order_whatever_folders_they_lie_in(tmp_path: Path) -> None:
    for name in ("b/w-1", "a/w-0", "b/w-0", "a/w-2"):
        tone_shard("ada", count=1, frames=10).save(tmp_path / f"{name}.npz")
    (tmp_path / "a/w-9.part.npz").write_bytes(b"half written")
    found = [str(path.relative_to(tmp_path)) for path in shards([tmp_path / "a", tmp_path / "b"])]
    assert found == ["a/w-0.npz", "b/w-0.npz", "b/w-1.npz", "a/w-2.npz"]
