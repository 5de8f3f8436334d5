"""Random crops of all speech of a run, with phone labels or with codes; it lies on the device as int16."""

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

    def fits(self, frames: int) -> bool:
        """Whether there is enough for crops of so many frames."""
        return self.filled > frames * _RATIO

    def crop(self, count: int, frames: int, gain: float = 0.0) -> Crop:
        """So many crops of so many frames, each at a random gain within 1 ± gain."""
        device = self.wave.device
        if not self.fits(frames):
            raise ValueError(f"crop: {frames} frames do not fit in {self.filled // _RATIO}")
        start = torch.randint(0, self.filled - frames * _RATIO, (count, 1), device=device)
        wave = self.wave[start * LABEL + torch.arange(frames * FRAME, device=device)].float() / 32768
        labels = self.labels[start + torch.arange(frames * _RATIO, device=device)].long()
        factor = 1 + gain * (2 * torch.rand(count, 1, device=device) - 1)
        return Crop((wave * factor).clamp(-1, 1)[:, None], labels)


class CodedStore:
    """Speech on the device with its codes: wave int16 [frames, 1920], codes int16 [V, frames, K], of V sets of codes
    that stand for the same speech. Crops cross utterance borders.
    """

    def __init__(self, wave: NDArray[np.int16], codes: NDArray[np.int16], device: torch.device) -> None:
        if codes.shape[1] * FRAME != len(wave):
            raise ValueError(f"codes: {codes.shape[1]} frames for {len(wave) / FRAME:g} frames of speech")
        self.wave = torch.from_numpy(wave).to(device).view(-1, FRAME)
        self.codes = torch.from_numpy(codes).to(device)

    @property
    def hours(self) -> float:
        return len(self.wave) * FRAME / RATE / 3600

    def crop(self, count: int, frames: int) -> tuple[Tensor, Tensor]:
        """(codes int64 [count, K, frames], wave float32 [count, 1, 1920 · frames]), each crop's codes from one set."""
        if frames >= len(self.wave):
            raise ValueError(f"crop: {frames} frames do not fit in {len(self.wave)}")
        device = self.wave.device
        start = torch.randint(0, len(self.wave) - frames, (count, 1), device=device)
        chosen = torch.randint(0, len(self.codes), (count, 1), device=device)
        at = start + torch.arange(frames, device=device)
        codes = self.codes[chosen, at].long().transpose(1, 2)
        return codes, self.wave[at].flatten(1)[:, None].float() / 32768
