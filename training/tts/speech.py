"""Speech as training reads it: 24 kHz utterances of whole codec frames, their text, and phone labels at 50 Hz or codes.

A file is `NAME.npz` (uncompressed), with the arrays and a JSON list of utterances.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.tts.config import FRAME, RATE

# LUFS of every utterance, so that all voices are as loud. The runtime plays at this level too.
LOUDNESS = -20.0
# The root mean square of such speech, about.
LEVEL = 0.09
# Seconds of a block; what is so many LU softer than the mean does not count; LUFS of what is nothing (BS.1770's gates,
# but for the block's length).
_BLOCK, _GATE, _NOTHING = 0.1, -10.0, -70.0


@dataclass(frozen=True)
class Utterance:
    """text: as the talker reads it; frames: the length in codec frames; held_out: it is never trained on."""

    text: str
    speaker: str
    frames: int
    held_out: bool


@dataclass(frozen=True)
class Speech:
    """Utterances one after another, in arrays that have the same number of rows for every frame: wave int16 [samples]
    and labels uint8 [samples / 480] of a shard, or codes int16 [frames, K] of what a codec made of shards."""

    utterances: list[Utterance]
    arrays: Mapping[str, NDArray[Any]]

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum([u.frames for u in self.utterances])

    def of(self, name: str, i: int) -> NDArray[Any]:
        """Give what an array holds of utterance i."""
        array, end = self.arrays[name], self._ends[i]
        rows = len(array) // int(self._ends[-1])
        return array[(end - self.utterances[i].frames) * rows : end * rows]

    def pieces(self) -> Iterator[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]]:
        """Give every utterance of a shard with its samples and labels."""
        for i, utterance in enumerate(self.utterances):
            yield utterance, self.of("wave", i), self.of("labels", i)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part.npz")
        np.savez(temporary, meta=np.array(json.dumps([asdict(u) for u in self.utterances])), **self.arrays)
        temporary.rename(path)


def load(path: Path) -> Speech:
    # np.load alone would leave a broken file open.
    with path.open("rb") as file, np.load(file) as z:
        made = [Utterance(**row) for row in json.loads(str(z["meta"]))]
        return Speech(made, {name: z[name] for name in z.files if name != "meta"})


def join(pieces: Iterable[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]]) -> Speech:
    """Make one shard of `pieces` as `Speech.pieces` gives them."""
    made, waves, labels = zip(*pieces, strict=True)
    return Speech(list(made), {"wave": np.concatenate(waves), "labels": np.concatenate(labels)})


def concatenate(parts: list[Speech]) -> Speech:
    """Give all utterances of files with the same arrays."""
    arrays = {name: np.concatenate([part.arrays[name] for part in parts]) for name in parts[0].arrays}
    return Speech([u for part in parts for u in part.utterances], arrays)


def shards(folders: Iterable[Path]) -> list[Path]:
    """Give the finished shards in the order of their names."""
    found = (path for folder in folders for path in folder.glob("*.npz") if ".part" not in path.name)
    return sorted(found, key=lambda path: path.name)


@cache
def _weights(size: int) -> NDArray[np.float64]:
    """Tell how loud each frequency of a spectrum of `size` samples is heard, by the two filters of ITU-R BS.1770-4 at
    RATE."""
    z = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    k = np.tan(np.pi * 1681.974450955533 / RATE)
    q, high, between = 0.7071752369554196, 1.584864701130855, 1.258720930232562
    shelf = (high + between * k / q + k * k) + 2 * (k * k - high) * z + (high - between * k / q + k * k) * z * z
    shelf /= (1 + k / q + k * k) + 2 * (k * k - 1) * z + (1 - k / q + k * k) * z * z
    k, q = np.tan(np.pi * 38.13547087602444 / RATE), 0.5003270373238773
    a0 = 1 + k / q + k * k
    low = (1 - 2 * z + z * z) / (1 + 2 * (k * k - 1) / a0 * z + (1 - k / q + k * k) / a0 * z * z)
    return np.abs(shelf * low)


def loudness(wave: NDArray[np.float32]) -> float:
    """Give the gated loudness of mono samples at RATE in LUFS (ITU-R BS.1770-4, in blocks of 100 ms that do not
    overlap)."""
    block = int(_BLOCK * RATE)
    spectra = np.fft.rfft(np.pad(wave, (0, -len(wave) % block)).reshape(-1, block))
    power = 2 * np.square(np.abs(spectra) * _weights(block)).sum(1) / block**2 + 1e-12
    level = -0.691 + 10 * np.log10(power)
    kept = power[level > _NOTHING]
    if len(kept):
        kept = kept[-0.691 + 10 * np.log10(kept) > -0.691 + 10 * np.log10(kept.mean()) + _GATE]
    return float(-0.691 + 10 * np.log10(kept.mean())) if len(kept) else _NOTHING


def levelled(wave: NDArray[np.float32]) -> NDArray[np.int16]:
    """Bring float32 samples of any scale to LOUDNESS, int16, padded with silence to whole frames. Peaks that go beyond
    full scale are clipped."""
    scale = 10 ** ((LOUDNESS - loudness(wave)) / 20)
    padded = np.pad(wave * scale, (0, -len(wave) % FRAME))
    return (np.clip(padded, -1.0, 1.0) * 32767).astype(np.int16)
