"""Recordings for tests: what was said, at 16 kHz mono."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

DATA = Path(__file__).parent / "data"
RATE = 16_000


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording with what was said."""

    name: str
    samples: npt.NDArray[np.float32]
    """Mono at 16 kHz."""
    text: str
    corpus: str

    @property
    def seconds(self) -> float:
        """Length."""
        return len(self.samples) / RATE


def read_clip(path: Path, text: str = "", corpus: str = "") -> Clip:
    """Decode a sound file to 16 kHz mono."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = np.ascontiguousarray(samples.mean(axis=1))
    if rate != RATE:
        mono = soxr.resample(mono, rate, RATE)
    return Clip(path.name, mono.astype(np.float32), text, corpus)


def dialogue() -> npt.NDArray[np.float32]:
    """Two people in turns of a few seconds, at last one right behind the other: float32 at 16 kHz."""
    rows = [json.loads(line) for line in (DATA / "index.jsonl").read_text().splitlines()]
    parts: list[npt.NDArray[np.float32]] = []
    for number in range(3):
        for name in ("ls777", "LJ"):
            mine = [row for row in rows if row["speaker"] == name and row["seconds"] > 2.5]
            parts += [read_clip(DATA / mine[number]["file"]).samples]
            parts += [np.zeros(RATE * 9 // 10, np.float32)] if (number, name) != (2, "ls777") else []
    return np.concatenate(parts)
