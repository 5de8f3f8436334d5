"""Sounds without words: as long and as loud as they should be, the same every time; music has a way out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bench import music, noise

Maker = Callable[[float], dict[str, npt.NDArray[np.float32]]]


@pytest.mark.parametrize("make", [noise.silences, noise.noises, noise.melodies])
def test_sounds_add_up_and_repeat(make: Maker) -> None:
    first, again = make(24.0), make(24.0)
    assert sum(len(wave) for wave in first.values()) == pytest.approx(24 * noise.RATE, rel=0.01)
    for name, wave in first.items():
        assert wave.dtype == np.float32 and np.isfinite(wave).all() and np.abs(wave).max() <= 1, name
        np.testing.assert_array_equal(wave, again[name])


def test_silence_is_quiet_and_noise_is_not() -> None:
    loudest = {name: float(np.sqrt(np.mean(wave**2))) for name, wave in noise.silences(20.0).items()}
    assert loudest["digital silence"] == 0 and max(loudest.values()) == pytest.approx(10 ** (-50 / 20), rel=0.05)
    levels = [float(np.sqrt(np.mean(wave**2))) for wave in noise.noises(24.0).values()]
    assert min(levels) > 10 ** (-37 / 20)


def test_without_apt_there_is_no_music_and_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty PATH and cache, and packages that nobody has: nothing is found, nothing is fetched."""
    nobody = tuple(music.Package(p.name, f"no/such/{p.files}", p.author, p.licence) for p in music.PACKAGES)
    monkeypatch.setattr(music, "PACKAGES", nobody)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert music.tracks() == ({}, [])
    assert not list(tmp_path.iterdir())


def test_an_excerpt_takes_the_same_share_of_every_track() -> None:
    tracks = {"a": np.arange(16_000 * 30, dtype=np.float32), "b": np.arange(16_000 * 10, dtype=np.float32)}
    cut = music.excerpt(tracks, 20.0)
    assert {name: len(wave) for name, wave in cut.items()} == {"a": 240_000, "b": 80_000}
    assert cut["b"][0] == 40_000
    assert {name: len(wave) for name, wave in music.excerpt(tracks, 99.0).items()} == {"a": 480_000, "b": 160_000}
