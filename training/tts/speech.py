"""Speech as training reads it: 24 kHz utterances of whole codec frames, their text, and phone labels at 50 Hz.

A shard is `NAME.npz` (uncompressed): wave int16 [samples], labels uint8 [samples / 480], and a JSON list of utterances.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.tts.config import FRAME, LABEL

LEVEL = 0.07  # root mean square of every utterance, full scale 1


@dataclass(frozen=True)
class Utterance:
    """text: as it is said, no digits; frames: length in codec frames; held_out: never trained on."""

    text: str
    speaker: str
    frames: int
    held_out: bool


@dataclass(frozen=True)
class Shard:
    """Utterances one after another in wave int16 [samples] and labels uint8 [samples / 480]."""

    wave: NDArray[np.int16]
    labels: NDArray[np.uint8]
    utterances: list[Utterance]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part.npz")
        meta = json.dumps([asdict(u) for u in self.utterances])
        np.savez(temporary, wave=self.wave, labels=self.labels, meta=np.array(meta))
        temporary.rename(path)

    def pieces(self) -> Iterable[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]]:
        """Every utterance with its samples and labels."""
        at = 0
        for u in self.utterances:
            end = at + u.frames
            ratio = FRAME // LABEL
            yield u, self.wave[at * FRAME : end * FRAME], self.labels[at * ratio : end * ratio]
            at = end


def load_shard(path: Path) -> Shard:
    with np.load(path) as z:
        made = [Utterance(**row) for row in json.loads(str(z["meta"]))]
        return Shard(z["wave"], z["labels"], made)


def join(pieces: Iterable[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]]) -> Shard:
    """One shard of `pieces` as `Shard.pieces` gives them."""
    rows = list(pieces)
    return Shard(
        np.concatenate([w for _, w, _ in rows]), np.concatenate([x for _, _, x in rows]), [u for u, _, _ in rows]
    )


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
