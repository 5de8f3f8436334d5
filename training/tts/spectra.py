"""Spectra of 24 kHz waveforms: mel filter banks, log-mel frames, and the multi-scale spectral distance that the
codec minimises.
"""

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.tts.config import RATE

SCALES = ((2048, 128), (1024, 96), (512, 64), (256, 32), (128, 12))  # (window in samples, mel bands)
_FLOOR = 1e-4  # of a magnitude that the encoder reads, before its logarithm
_COMPARED_FLOOR = 0.02  # of one that is compared: lower, what is nearly silent outweighs speech


def mel_bank(window: int, bands: int, low: float = 20.0, high: float = RATE / 2) -> Tensor:
    """HTK mel triangles that each sum to one: float32 [bands, window / 2 + 1]."""

    def mel(f: float) -> float:
        return 2595 * math.log10(1 + f / 700)

    edges = 700 * (10 ** (torch.linspace(mel(low), mel(high), bands + 2, dtype=torch.float64) / 2595) - 1)
    f = torch.linspace(0, RATE / 2, window // 2 + 1, dtype=torch.float64)
    rise = (f - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - f) / (edges[2:] - edges[1:-1])[:, None]
    bank = torch.minimum(rise, fall).clamp(min=0)
    return (bank / bank.sum(1, keepdim=True).clamp(min=1e-3)).float()


def magnitude(wave: Tensor, window: Tensor, hop: int, *, center: bool = True) -> Tensor:
    """[B, samples] -> [B, window / 2 + 1, frames] float32. The epsilon keeps the gradient of an exactly zero bin
    finite.
    """
    z = torch.stft(wave.float(), len(window), hop, window=window, center=center, return_complex=True)
    return (z.real.square() + z.imag.square() + 1e-9).sqrt()


class LogMel(nn.Module):
    """[B, samples] -> log10 mel magnitudes [B, bands, samples / hop] (floor 1e-4), centred windows."""

    window: Tensor
    bank: Tensor

    def __init__(self, size: int = 1024, hop: int = 240, bands: int = 80) -> None:
        super().__init__()
        self.hop, self.margin = hop, (size - hop) // 2
        self.register_buffer("window", torch.hann_window(size), persistent=False)
        self.register_buffer("bank", mel_bank(size, bands), persistent=False)

    def forward(self, wave: Tensor) -> Tensor:
        with torch.autocast(wave.device.type, enabled=False):
            padded = F.pad(wave.float(), (self.margin, self.margin))
            return (self.bank @ magnitude(padded, self.window, self.hop, center=False) + _FLOOR).log10()


class SpectralDistance(nn.Module):
    """Mean over `SCALES` of the L1 distance of log-mels, plus `magnitudes` × that of square-root magnitudes, which
    weighs what is loud: [B, 1, S] × 2 -> scalar.
    """

    def __init__(self, magnitudes: float = 0.5) -> None:
        super().__init__()
        self.magnitudes = magnitudes
        for size, bands in SCALES:
            self.register_buffer(f"window{size}", torch.hann_window(size), persistent=False)
            self.register_buffer(f"bank{size}", mel_bank(size, bands), persistent=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            both = torch.cat([x, y])[:, 0]
            total = torch.zeros((), device=x.device)
            for size, _ in SCALES:
                window, bank = cast(Tensor, getattr(self, f"window{size}")), cast(Tensor, getattr(self, f"bank{size}"))
                linear = magnitude(both, window, size // 4)
                a, b = (bank @ linear + _COMPARED_FLOOR).log10().chunk(2)
                p, q = linear.sqrt().chunk(2)
                total = total + F.l1_loss(a, b) + self.magnitudes * F.l1_loss(p, q) / size**0.25
            return total / len(SCALES)
