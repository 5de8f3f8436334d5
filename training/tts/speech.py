"""Speech as training reads it: 24 kHz utterances of whole codec frames, their text, and phone labels at 50 Hz or codes.

A file is `NAME.npz` (uncompressed): the arrays, and a JSON list of utterances.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.tts.config import FRAME

LEVEL = 0.07  # root mean square of every utterance, full scale 1


@dataclass(frozen=True)
class Utterance:
    """text: as the talker reads it (`text.speakable`), "" where it cannot; frames: length in codec frames; held_out:
    never trained on."""

    text: str
    speaker: str
    frames: int
    held_out: bool


@dataclass(frozen=True)
class Speech:
    """Utterances one after another in arrays that have as many rows for every frame: wave int16 [samples] and labels
    uint8 [samples / 480] of a shard; codes int16 [frames, K] of what a codec made of shards.
    """

    utterances: list[Utterance]
    arrays: Mapping[str, NDArray[Any]]

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum([u.frames for u in self.utterances])

    def of(self, name: str, i: int) -> NDArray[Any]:
        """What an array holds of utterance i."""
        array, end = self.arrays[name], self._ends[i]
        rows = len(array) // int(self._ends[-1])
        return array[(end - self.utterances[i].frames) * rows : end * rows]

    def pieces(self) -> Iterator[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]]:
        """Every utterance of a shard with its samples and labels."""
        for i, utterance in enumerate(self.utterances):
            yield utterance, self.of("wave", i), self.of("labels", i)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part.npz")
        np.savez(temporary, meta=np.array(json.dumps([asdict(u) for u in self.utterances])), **self.arrays)
        temporary.rename(path)


def load(path: Path) -> Speech:
    with path.open("rb") as file, np.load(file) as z:  # np.load leaves a broken one open
        made = [Utterance(**row) for row in json.loads(str(z["meta"]))]
        return Speech(made, {name: z[name] for name in z.files if name != "meta"})


def join(pieces: Iterable[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]]) -> Speech:
    """One shard of `pieces` as `Speech.pieces` gives them."""
    made, waves, labels = zip(*pieces, strict=True)
    return Speech(list(made), {"wave": np.concatenate(waves), "labels": np.concatenate(labels)})


def concatenate(parts: list[Speech]) -> Speech:
    """All utterances of files with the same arrays."""
    arrays = {name: np.concatenate([part.arrays[name] for part in parts]) for name in parts[0].arrays}
    return Speech([u for part in parts for u in part.utterances], arrays)


def shards(folders: Iterable[Path]) -> list[Path]:
    """Finished shards in the order of their names."""
    found = (path for folder in folders for path in folder.glob("*.npz") if ".part" not in path.name)
    return sorted(found, key=lambda path: path.name)


def levelled(wave: NDArray[np.float32]) -> NDArray[np.int16]:
    """float32 in any scale -> int16 at LEVEL, padded with silence to whole frames; clipped where peaks go beyond
    full scale.
    """
    scale = LEVEL / max(float(np.sqrt(np.mean(np.square(wave)))), 1e-9)
    padded = np.pad(wave * scale, (0, -len(wave) % FRAME))
    return (np.clip(padded, -1.0, 1.0) * 32767).astype(np.int16)
