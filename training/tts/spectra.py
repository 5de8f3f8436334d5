"""Spectra of 24 kHz waveforms: mel magnitudes, and the multi-scale spectral distance that the codec makes small."""

from collections.abc import Iterable
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.audio_utils import mel_filter_bank

from training.tts.config import RATE

# (window in samples, mel bands) of each scale: long windows tell pitches apart, short ones onsets.
SCALES = ((2048, 128), (1024, 96), (512, 64), (256, 32), (128, 12))
# It is added to a magnitude that is compared. At 1e-4 what is nearly silent outweighed speech.
_COMPARED_FLOOR = 0.02


def mel_bank(window: int, bands: int) -> Tensor:
    """Give HTK mel triangles above 20 Hz that each sum to one, float32 [bands, window / 2 + 1]."""
    bank = mel_filter_bank(window // 2 + 1, bands, 20.0, RATE / 2, RATE, mel_scale="htk").T
    return torch.from_numpy(bank / np.maximum(bank.sum(1, keepdims=True), 1e-3)).float()


class Mel(nn.Module):
    """Maps [B, samples] to mel magnitudes float32 [B, bands, samples / hop], with windows centred on their hops."""

    window: Tensor
    bank: Tensor

    def __init__(self, bank: Tensor, hop: int, beyond: Literal["constant", "reflect"]) -> None:
        """bank: float32 [bands, window / 2 + 1]; beyond: what the wave is padded with."""
        super().__init__()
        size = 2 * (bank.shape[1] - 1)
        self.hop, self.margin, self.beyond = hop, (size - hop) // 2, beyond
        self.register_buffer("window", torch.hann_window(size), persistent=False)
        self.register_buffer("bank", bank, persistent=False)

    def linear(self, wave: Tensor) -> Tensor:
        """Give magnitudes float32 [B, window / 2 + 1, samples / hop]. The epsilon keeps the gradient of an exactly
        silent bin finite."""
        padded = F.pad(wave.float(), (self.margin, self.margin), self.beyond)
        z = torch.stft(padded, len(self.window), self.hop, window=self.window, center=False, return_complex=True)
        return (z.real.square() + z.imag.square() + 1e-9).sqrt()

    def forward(self, wave: Tensor) -> Tensor:
        with torch.autocast(wave.device.type, enabled=False):
            return self.bank @ self.linear(wave)


class SpectralDistance(nn.Module):
    """The mean over `SCALES` of the L1 distance of log-mels, plus `magnitudes` times that of square-root magnitudes,
    which weighs what is loud: [B, 1, S] × 2 -> scalar."""

    def __init__(self, magnitudes: float = 0.5) -> None:
        super().__init__()
        self.magnitudes = magnitudes
        self.scales = nn.ModuleList(Mel(mel_bank(size, bands), size // 4, "reflect") for size, bands in SCALES)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            both = torch.cat([x, y])[:, 0]
            total = torch.zeros((), device=x.device)
            for scale in cast(Iterable[Mel], self.scales):
                linear = scale.linear(both)
                a, b = (scale.bank @ linear + _COMPARED_FLOOR).log10().chunk(2)
                p, q = linear.sqrt().chunk(2)
                total = total + F.l1_loss(a, b) + self.magnitudes * F.l1_loss(p, q) / len(scale.window) ** 0.25
            return total / len(SCALES)
