"""Random crops of all speech of a run, with phone labels or with codes. The speech lies on the device as int16."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.tts.config import FRAME, RATE
from training.tts.speech import load, shards


class Store:
    """Speech on the device and what stands beside it: labels uint8 [samples / 480], or codes int16 [V, frames, K] of
    V codings of the same speech. Crops begin where a label or a frame does, and they cross the borders of
    utterances."""

    def __init__(self, wave: NDArray[np.int16], beside: NDArray[Any], device: torch.device) -> None:
        beside = np.atleast_2d(beside)
        self.wave = torch.from_numpy(wave).to(device).view(beside.shape[1], -1)
        self.beside = torch.from_numpy(beside).to(device)
        self._rows = FRAME // self.wave.shape[1]  # A frame has so many rows.

    @property
    def hours(self) -> float:
        return self.wave.numel() / RATE / 3600

    def crop(self, count: int, frames: int, gain: float = 0.0) -> tuple[Tensor, Tensor]:
        """Draw crops: waves float32 [count, 1, 1920 · frames] in [-1, 1], each at a random gain within 1 ± gain, and
        int64 labels [count, 4 · frames], or codes [count, K, frames] of one of the codings."""
        rows, device = frames * self._rows, self.wave.device
        if rows >= len(self.wave):
            raise ValueError(f"crop: {frames} frames do not fit in {len(self.wave) / self._rows:g}")
        at = torch.randint(0, len(self.wave) - rows, (count, 1), device=device) + torch.arange(rows, device=device)
        coding = torch.randint(0, len(self.beside), (count, 1), device=device)
        factor = 1 + gain * (2 * torch.rand(count, 1, device=device) - 1)
        wave = (self.wave[at].flatten(1).float() / 32768 * factor).clamp(-1, 1)
        return wave[:, None], self.beside[coding, at].long().movedim(1, -1)


def stores(speech: tuple[Path, ...], device: torch.device, codes: Sequence[Path] = ()) -> tuple[Store, Store]:
    """Give what is trained on and what is held out of shards: beside phone labels, or beside files of codes that stand
    for the speech. What is held out has the first file's codes alone, so that its scores stay comparable when a
    talker's own are added.

    Raises:
        ValueError: a file holds other utterances than the shards, or there is nothing of either kind.
    """
    sets = [load(path) for path in codes]
    parts: dict[bool, list[tuple[NDArray[np.int16], NDArray[Any]]]] = {False: [], True: []}
    count = 0
    for shard in map(load, shards(speech)):
        for utterance, wave, labels in shard.pieces():
            for path, one in zip(codes, sets, strict=True):
                if one.utterances[count : count + 1] != [utterance]:
                    raise ValueError(f"{path}: utterance {count} is another one than in the shards")
            beside = np.stack([one.of("codes", count) for one in sets] or [labels])
            parts[utterance.held_out].append((wave, beside[:1] if utterance.held_out else beside))
            count += 1
    if not all(parts.values()):
        raise ValueError(f"speech: {len(parts[False])} utterances to train on, {len(parts[True])} held out")
    trained, held_out = (
        Store(np.concatenate([wave for wave, _ in found]), np.concatenate([one for _, one in found], 1), device)
        for found in parts.values()
    )
    return trained, held_out
