"""Random crops of all speech of a run, which lies on the device as int16 and may grow while the run goes on."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.tts.config import FRAME, LABEL, RATE

_RATIO = FRAME // LABEL


class Crop(NamedTuple):
    """wave float32 [count, 1, 1920 · frames] in [-1, 1]; labels int64 [count, 4 · frames] (255: not counted)."""

    wave: Tensor
    labels: Tensor


class Store:
    """Speech on the device: wave int16 [capacity], labels uint8 [capacity / 480], the first `filled` labels of it set.
    What does not fit is left out. Crops cross utterance borders.
    """

    def __init__(self, hours: float, device: torch.device) -> None:
        labels = int(hours * 3600 * RATE) // LABEL
        self.wave = torch.empty(labels * LABEL, dtype=torch.int16, device=device)
        self.labels = torch.empty(labels, dtype=torch.uint8, device=device)
        self.filled = 0

    @property
    def hours(self) -> float:
        return self.filled * LABEL / RATE / 3600

    @property
    def full(self) -> bool:
        return self.filled == len(self.labels)

    def add(self, wave: NDArray[np.int16], labels: NDArray[np.uint8]) -> None:
        """Append wave int16 [480 · n] and labels uint8 [n]."""
        n = min(len(labels), len(self.labels) - self.filled)
        begin, end = self.filled, self.filled + n
        self.wave[begin * LABEL : end * LABEL].copy_(torch.from_numpy(wave[: n * LABEL]))
        self.labels[begin:end].copy_(torch.from_numpy(labels[:n]))
        self.filled = end

    def fits(self, frames: int, speed: float = 0.0) -> bool:
        """Whether there is enough for crops of so many frames."""
        return self.filled > self._margin(frames, speed) + 2

    @staticmethod
    def _margin(frames: int, speed: float) -> int:
        return int(frames * _RATIO * (1 + speed)) + 4

    def crop(self, count: int, frames: int, speed: float) -> Crop:
        """Crops without the axis of one channel; each is read at its own rate within 1 ± speed (cubic interpolation; 0:
        the samples as they are), so pitch and tempo vary together.
        """
        device = self.wave.device
        if not self.fits(frames, speed):
            raise ValueError(f"crop: {frames} frames do not fit in {self.filled // _RATIO}")
        start = torch.randint(1, self.filled - self._margin(frames, speed), (count, 1), device=device)
        rate = 1 + speed * (2 * torch.rand(count, 1, device=device, dtype=torch.float64) - 1)
        at = torch.arange(frames * FRAME, device=device, dtype=torch.float64) * rate
        whole = at.floor()
        f = (at - whole).float()
        index = start * LABEL + whole.long()

        a, b, c, d = (self.wave[index + shift].float() / 32768 for shift in (-1, 0, 1, 2))
        wave = b + 0.5 * f * (c - a + f * (2 * a - 5 * b + 4 * c - d + f * (3 * (b - c) + d - a)))
        middle = (torch.arange(frames * _RATIO, device=device) + 0.5) * rate
        return Crop(wave, self.labels[start + middle.long()].long())


@dataclass
class Crops:
    """What a step reads: crops of the voices and of other speakers at random gain within 1 ± gain."""

    voices: Store
    others: Store
    others_share: float
    speed: float
    gain: float = 0.0

    def take(self, count: int, frames: int) -> Crop:
        """So many crops of so many frames."""
        others = round(count * self.others_share) if self.others.fits(frames, self.speed) else 0
        if not self.voices.fits(frames):
            others = count
        parts: list[Crop] = []
        if others < count:
            parts.append(self.voices.crop(count - others, frames, 0.0))
        if others:
            parts.append(self.others.crop(others, frames, self.speed))
        wave, labels = (torch.cat(same) for same in zip(*parts, strict=True))
        gain = 1 + self.gain * (2 * torch.rand(count, 1, device=wave.device) - 1)
        return Crop((wave * gain).clamp(-1, 1)[:, None], labels)
