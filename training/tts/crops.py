"""Random crops of all speech of a run, with phone labels. The speech lies on the device as int16."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.tts.config import FRAME, LABEL, RATE
from training.tts.speech import load, shards

_ROWS = FRAME // LABEL  # A frame has so many labels.


class Store:
    """Speech on the device and its labels, uint8 [samples / 480]. Crops begin where a label does, and they cross the
    borders of utterances."""

    def __init__(self, wave: NDArray[np.int16], labels: NDArray[np.uint8], device: torch.device) -> None:
        self.wave = torch.from_numpy(wave).to(device).view(len(labels), LABEL)
        self.labels = torch.from_numpy(labels).to(device)

    @property
    def hours(self) -> float:
        return self.wave.numel() / RATE / 3600

    def crop(self, count: int, frames: int, gain: float = 0.0) -> tuple[Tensor, Tensor]:
        """Draw crops: waves float32 [count, 1, 1920 · frames] in [-1, 1], each at a random gain within 1 ± gain, and
        int64 labels [count, 4 · frames]."""
        rows, device = frames * _ROWS, self.wave.device
        if rows >= len(self.wave):
            raise ValueError(f"crop: {frames} frames do not fit in {len(self.wave) / _ROWS:g}")
        at = torch.randint(0, len(self.wave) - rows, (count, 1), device=device) + torch.arange(rows, device=device)
        factor = 1 + gain * (2 * torch.rand(count, 1, device=device) - 1)
        wave = (self.wave[at].flatten(1).float() / 32768 * factor).clamp(-1, 1)
        return wave[:, None], self.labels[at].long()


def stores(speech: tuple[Path, ...], device: torch.device) -> tuple[Store, Store]:
    """Give what is trained on and what is held out of shards.

    Raises:
        ValueError: there is nothing of either kind.
    """
    parts: dict[bool, list[tuple[NDArray[np.int16], NDArray[np.uint8]]]] = {False: [], True: []}
    for shard in map(load, shards(speech)):
        for utterance, wave, labels in shard.pieces():
            parts[utterance.held_out].append((wave, labels))
    if not all(parts.values()):
        raise ValueError(f"speech: {len(parts[False])} utterances to train on, {len(parts[True])} held out")
    trained, held_out = (
        Store(np.concatenate([wave for wave, _ in found]), np.concatenate([labels for _, labels in found]), device)
        for found in parts.values()
    )
    return trained, held_out
