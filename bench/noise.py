"""Sound without words, made by code: silence, coloured and moving noise, and simple music.

Everything is float32 mono at :data:`RATE`, follows from a seed, and holds no speech.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Random = np.random.Generator

RATE: Final = 16_000
SEED: Final = 20_261_120
_QUIET: Final = 10 ** (-80 / 20)
"""The level of dither in a digital silence: −80 dBFS."""


def silences(seconds: float) -> dict[str, Floats]:
    """Ten silences that add up to ``seconds``: digital, dithered, and rooms at night at −70 to −50 dBFS."""
    count = round(seconds * RATE / 10)
    found = {"digital silence": np.zeros(2 * count, np.float32)}
    random = np.random.default_rng(SEED)
    found["dithered silence"] = _level(random.standard_normal(2 * count), -90)
    for i, level in enumerate((-70, -65, -60, -57, -53, -50)):
        tone = _coloured(count, random, 1.0 + 0.2 * i)
        found[f"room tone, {level} dBFS"] = _level(tone, level)
    return found


def noises(seconds: float) -> dict[str, Floats]:
    """Twelve kinds of noise at everyday levels that add up to ``seconds``."""
    makers: dict[str, tuple[Callable[[int, Random], Doubles], float]] = {
        "white noise": (lambda n, r: r.standard_normal(n), -35),
        "loud white noise": (lambda n, r: r.standard_normal(n), -15),
        "pink noise": (lambda n, r: _coloured(n, r, 1.0), -25),
        "brown noise": (lambda n, r: _coloured(n, r, 2.0), -20),
        "mains hum": (_hum, -30),
        "fan": (_fan, -30),
        "wind": (_wind, -22),
        "rain": (_rain, -28),
        "crowd-like modulated noise": (_crowd, -24),
        "clicks": (_clicks, -30),
        "knocks": (_knocks, -25),
        "beeps": (_beeps, -25),
    }
    count = round(seconds * RATE / len(makers))
    random = np.random.default_rng(SEED + 1)
    return {name: _level(make(count, random), level) for name, (make, level) in makers.items()}


def melodies(seconds: float) -> dict[str, Floats]:
    """Four pieces of generated music that add up to ``seconds``: chords, a melody, drums, and all of them."""
    count = round(seconds * RATE / 4)
    random = np.random.default_rng(SEED + 2)
    chords, melody, drums = _chords(count, random), _melody(count, random), _drums(count, random)
    whole = chords / np.abs(chords).max() + melody / np.abs(melody).max() + drums / np.abs(drums).max()
    parts = {"chords": chords, "melody": melody, "drums": drums, "all three": whole}
    return {f"generated {name}": _level(part, -20) for name, part in parts.items()}


def _level(wave: npt.NDArray[Any], dbfs: float) -> Floats:
    """``wave`` at a level (RMS), clipped at full scale."""
    rms = float(np.sqrt(np.mean(np.square(wave)))) or 1.0
    return np.clip(wave * (10 ** (dbfs / 20) / rms), -1, 1).astype(np.float32)


def _coloured(count: int, random: Random, slope: float, low: float = 20.0, high: float = 8000.0) -> Doubles:
    """Noise whose power falls with frequency to the ``slope``, between ``low`` and ``high`` Hz."""
    spectrum = np.fft.rfft(random.standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / RATE)
    gain = np.where((hertz >= low) & (hertz <= high), np.maximum(hertz, 1.0) ** (-slope / 2), 0.0)
    return np.fft.irfft(spectrum * gain, count)


def _slow(count: int, random: Random, hertz: float) -> Doubles:
    """A random curve 0…1 that changes about ``hertz`` times a second."""
    points = random.random(int(count / RATE * hertz) + 3)
    return np.interp(np.arange(count) * hertz / RATE, np.arange(len(points)), points)


def _clock(count: int) -> Doubles:
    return np.arange(count) / RATE


def _hum(count: int, random: Random) -> Doubles:
    waves = [np.sin(2 * np.pi * 50 * k * _clock(count) + random.uniform(0, 6)) / k for k in range(1, 12)]
    return np.sum(waves, axis=0) + 0.02 * random.standard_normal(count)


def _fan(count: int, random: Random) -> Doubles:
    blades = 1 + 0.3 * np.sin(2 * np.pi * 23 * _clock(count))
    return _coloured(count, random, 1.5, 40, 5000) * blades


def _wind(count: int, random: Random) -> Doubles:
    return _coloured(count, random, 2.0, 30, 1500) * _slow(count, random, 0.7) ** 2


def _rain(count: int, random: Random) -> Doubles:
    drops = random.standard_normal(count) * (random.random(count) < 0.01) * 8
    return drops + _coloured(count, random, 0.5, 500, 8000) * 3


def _crowd(count: int, random: Random) -> Doubles:
    """Noise in the frequency bands of vowels, each of which swells a few times a second: it has the rhythm of a crowd,
    and no voice."""
    bands = [(200, 900), (500, 1500), (900, 2500), (1500, 4000)]
    parts = list[Doubles]()
    for low, high in bands:
        band = _coloured(count, random, 1.0, low, high)
        parts.append(band / np.abs(band).max() * _slow(count, random, random.uniform(3, 7)) ** 2)
    return np.sum(parts, axis=0) + 0.02 * random.standard_normal(count)


def _bursts(count: int, random: Random, a_second: float, length: float, make: Callable[[int], Doubles]) -> Doubles:
    wave = np.zeros(count)
    size = int(length * RATE)
    for start in np.sort(random.integers(0, count - size, int(count / RATE * a_second))):
        wave[start : start + size] += make(size) * random.uniform(0.3, 1)
    return wave


def _clicks(count: int, random: Random) -> Doubles:
    decay = np.exp(-np.arange(int(0.012 * RATE)) / (0.002 * RATE))
    return _bursts(count, random, 6, 0.012, lambda n: random.standard_normal(n) * decay) + _floor(count, random)


def _knocks(count: int, random: Random) -> Doubles:
    time = np.arange(int(0.12 * RATE)) / RATE
    ring = np.exp(-time / 0.02)
    return _bursts(
        count, random, 1.5, 0.12, lambda n: np.sin(2 * np.pi * random.uniform(90, 400) * time) * ring
    ) + _floor(count, random)


def _beeps(count: int, random: Random) -> Doubles:
    time = np.arange(int(0.2 * RATE)) / RATE
    shape = np.minimum(1, np.minimum(time, time[::-1]) / 0.01)
    return _bursts(
        count, random, 0.7, 0.2, lambda n: np.sin(2 * np.pi * random.choice([440, 880, 1000, 2000]) * time) * shape
    ) + _floor(count, random)


def _floor(count: int, random: Random) -> Doubles:
    return _QUIET * 10 * random.standard_normal(count)


def _note(hertz: float, seconds: float, partials: int = 6) -> Doubles:
    time = np.arange(int(seconds * RATE)) / RATE
    wave = np.sum([np.sin(2 * np.pi * hertz * k * time) / k**1.5 for k in range(1, partials + 1)], axis=0)
    return wave * np.minimum(1, time / 0.01) * np.exp(-time / (seconds * 0.6))


def _pitch(step: int) -> float:
    """A note of the major scale on 220 Hz: step 0 is its root, 7 the octave."""
    octave, degree = divmod(step, 7)
    return 220.0 * 2 ** (octave + (0, 2, 4, 5, 7, 9, 11)[degree] / 12)


def _chords(count: int, random: Random) -> Doubles:
    wave = np.zeros(count + 4 * RATE)
    for start in range(0, count, 2 * RATE):
        root = int(random.choice([0, 3, 4, 5, 1]))
        for step in (root - 7, root, root + 2, root + 4):
            note = _note(_pitch(step), 2.5)
            wave[start : start + len(note)] += note
    return wave[:count]


def _melody(count: int, random: Random) -> Doubles:
    wave, at, step = np.zeros(count + 4 * RATE), 0, 7
    while at < count:
        step = int(np.clip(step + random.integers(-3, 4), 0, 16))
        length = float(random.choice([0.25, 0.25, 0.5, 0.75]))
        note = _note(_pitch(step), length + 0.2)
        wave[at : at + len(note)] += note
        at += int(length * RATE)
    return wave[:count]


def _drums(count: int, random: Random) -> Doubles:
    wave = np.zeros(count + RATE)
    time = np.arange(RATE // 4) / RATE
    kick = np.sin(2 * np.pi * 55 * time) * np.exp(-time / 0.08)
    for beat, start in enumerate(range(0, count, RATE // 4)):
        hat = random.standard_normal(len(time)) * np.exp(-time / 0.02) * 0.3
        snare = random.standard_normal(len(time)) * np.exp(-time / 0.06)
        wave[start : start + len(time)] += hat + (kick if beat % 4 == 0 else snare if beat % 4 == 2 else 0)
    return wave[:count]
