"""Conversations made from clips of single speakers: who speaks when is known to the sample.

Two to five people take turns, with pauses between them or an overlap; everyone sits in the same room, at another place
and loudness, over the same quiet noise. Everything follows from a seed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from audio.pcm import Samples
from bench.clips import Clip
from bench.conditions import room
from bench.material import samples

RATE: Final = 16_000
SECONDS: Final = 75.0
"""About how long a conversation is."""
CLIP_SECONDS: Final = (1.2, 12.0)
"""The shortest and the longest clip that is a turn of its own."""
LEAST_CLIPS: Final = 4
"""Clips that a speaker must have."""
OVERLAP: Final = (0.0, 0.15)
"""The least and the greatest share of a conversation's speech in which two speak at once."""
PAUSE: Final = (0.1, 1.2)
"""Seconds between two turns that do not overlap."""
ROOM: Final = 0.6
"""The share of conversations in a room with an echo."""
INNER: Final = 0.5
"""Seconds of silence within a clip that part what is said."""


@dataclass(frozen=True, slots=True)
class Said:
    """What ``speaker`` says from ``start`` to ``end``, in seconds."""

    start: float
    end: float
    speaker: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A recording, who says what when, and how many there are."""

    wave: Samples
    said: tuple[Said, ...]
    overlap: float
    """The share of the speech in which two speak at once."""

    @property
    def speakers(self) -> int:
        """How many people speak."""
        return len({one.speaker for one in self.said})


def by_speaker(clips: Sequence[Clip]) -> dict[str, list[Clip]]:
    """The clips of each speaker who is known and has enough of a turn's length."""
    found: dict[str, list[Clip]] = {}
    for clip in clips:
        if clip.speaker not in ("", "None") and CLIP_SECONDS[0] <= clip.seconds <= CLIP_SECONDS[1]:
            found.setdefault(clip.speaker, []).append(clip)
    return {name: some for name, some in sorted(found.items()) if len(some) >= LEAST_CLIPS}


def conversation(people: dict[str, list[Clip]], seed: object, count: int, seconds: float = SECONDS) -> Conversation:
    """A conversation of ``count`` of ``people``, drawn by ``seed``."""
    draw = random.Random(f"{seed}")
    names = draw.sample(sorted(people), count)
    left = {name: draw.sample(people[name], len(people[name])) for name in names}
    loud = {name: 10 ** (draw.uniform(-4, 4) / 20) for name in names}
    wanted, noise = draw.uniform(*OVERLAP), np.random.default_rng(draw.getrandbits(32))
    echo = draw.random() < ROOM
    parts = list[tuple[int, Samples]]()
    said = list[Said]()
    at = round(0.5 * RATE)
    both = spoken = 0.0
    last = ""
    while at < seconds * RATE and any(left[name] for name in names if name != last):
        silent = [name for name in names if all(one.speaker != name for one in said)]
        name = draw.choice([one for one in (silent or names) if one != last and left[one]] or [last])
        if name == last:
            break
        wave = _level(samples(left[name].pop().mended())) * np.float32(loud[name])
        if echo:
            wave = room(wave, noise, ())
        runs = spoken_runs(wave)
        if not runs:
            continue
        # An overlap begins at the last word of the one before, not in the silence behind it.
        over = draw.uniform(0.4, 1.6) if said and both < wanted * spoken else 0.0
        over = min(over, (runs[0][1] - runs[0][0]) / RATE / 2, (said[-1].end - said[-1].start) / 2 if said else 0.0)
        begin = round(said[-1].end * RATE - over * RATE) - runs[0][0] if over > 0 else at
        begin = max(begin, 0)
        parts.append((begin, wave))
        said += [Said((begin + a) / RATE, (begin + b) / RATE, name) for a, b in runs]
        both, spoken = both + over, spoken + sum(b - a for a, b in runs) / RATE
        at = begin + len(wave) + round(draw.uniform(*PAUSE) * RATE)
        last = name
    whole = np.zeros(max(begin + len(wave) for begin, wave in parts) + RATE, np.float32)
    for begin, wave in parts:
        whole[begin : begin + len(wave)] += wave
    whole += noise.normal(0, 10 ** (-draw.uniform(50, 65) / 20), len(whole)).astype(np.float32)
    return Conversation(whole / max(1.0, float(np.abs(whole).max())), tuple(said), both / max(spoken, 1e-9))


def spoken_runs(wave: Samples) -> list[tuple[int, int]]:
    """The samples between which there is speech in a clean clip: frames of 20 ms less than 35 dB below its loudest,
    joined across silences shorter than ``INNER``."""
    size = RATE // 50
    frames = wave[: len(wave) // size * size].reshape(-1, size)
    energy = np.square(frames, dtype=np.float64).mean(axis=1)
    loud = np.flatnonzero(energy > np.quantile(energy, 0.98) * 10**-3.5) if len(energy) else np.zeros(0, np.intp)
    runs = list[tuple[int, int]]()
    for frame in loud.tolist():
        begin, end = frame * size, (frame + 1) * size
        if runs and begin - runs[-1][1] < INNER * RATE:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((begin, end))
    return [(a, b) for a, b in runs if b - a >= 0.1 * RATE]


def _level(wave: Samples) -> Samples:
    """``wave`` at a loudness of −26 dB."""
    loud = float(np.sqrt(np.quantile(np.square(wave, dtype=np.float64), 0.9))) if len(wave) else 0.0
    return (wave * (0.1 / max(loud, 1e-4))).astype(np.float32)
