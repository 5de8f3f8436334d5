"""Random crops of all speech of a run, which lies on the device as int16."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from training.tts.config import FRAME, LABEL
from training.tts.speech import Shard

_RATIO = FRAME // LABEL


class Crop(NamedTuple):
    """wave float32 [count, 1, 1920 · frames] in [-1, 1]; labels int64 [count, 4 · frames] (255: not counted)."""

    wave: Tensor
    labels: Tensor


@dataclass
class Voice:
    """wave int16 [samples], labels uint8 [samples / 480], on the device; text crosses utterance borders."""

    wave: Tensor
    labels: Tensor

    @property
    def hours(self) -> float:
        return self.wave.numel() / 24000 / 3600

    def crop(self, count: int, frames: int, speed: float) -> Crop:
        """Crops without the axis of one channel; each is read at its own rate within 1 ± speed (cubic interpolation; 0:
        the samples as they are), so pitch and tempo vary together.
        """
        device = self.wave.device
        margin = int(frames * _RATIO * (1 + speed)) + 4
        if self.labels.numel() <= margin + 2:
            raise ValueError(f"crop: {frames} frames do not fit in {self.labels.numel() // _RATIO}")
        start = torch.randint(1, self.labels.numel() - margin, (count, 1), device=device)
        rate = 1 + speed * (2 * torch.rand(count, 1, device=device, dtype=torch.float64) - 1)
        at = torch.arange(frames * FRAME, device=device, dtype=torch.float64) * rate
        whole = at.floor()
        f = (at - whole).float()
        index = start * LABEL + whole.long()

        a, b, c, d = (self.wave[index + shift].float() / 32768 for shift in (-1, 0, 1, 2))
        wave = b + 0.5 * f * (c - a + f * (2 * a - 5 * b + 4 * c - d + f * (3 * (b - c) + d - a)))
        middle = (torch.arange(frames * _RATIO, device=device) + 0.5) * rate
        return Crop(wave, self.labels[start + middle.long()].long())


def place(shards: Iterable[Shard], device: torch.device, *, held_out: bool) -> Voice | None:
    """The (not) held-out utterances of `shards`, one after another on the device; None where there are none."""
    kept = [piece for shard in shards for piece in shard.pieces() if piece[0].held_out == held_out]
    if not kept:
        return None
    wave, labels = np.concatenate([w for _, w, _ in kept]), np.concatenate([x for _, _, x in kept])
    return Voice(torch.from_numpy(wave).to(device), torch.from_numpy(labels).to(device))


@dataclass
class Crops:
    """What a step reads: crops of the synthetic and of the recorded voice at random gain within 1 ± gain."""

    synthetic: Voice | None
    human: Voice | None
    human_share: float
    speed: float
    gain: float = 0.0

    def take(self, count: int, frames: int) -> Crop:
        """So many crops of so many frames."""
        human = 0 if self.human is None else count if self.synthetic is None else round(count * self.human_share)
        parts: list[Crop] = []
        if self.synthetic is not None and human < count:
            parts.append(self.synthetic.crop(count - human, frames, 0.0))
        if self.human is not None and human:
            parts.append(self.human.crop(human, frames, self.speed))
        if not parts:
            raise ValueError("crops: no speech to train on")
        wave, labels = (torch.cat(same) for same in zip(*parts, strict=True))
        gain = 1 + self.gain * (2 * torch.rand(count, 1, device=wave.device) - 1)
        return Crop((wave * gain).clamp(-1, 1)[:, None], labels)
