"""A loss that follows PESQ wide band (ITU-T P.862.2): by how much the loudness of critical bands differs.

Simpler than the recommendation: no filters, no alignment in time and no equalisation over the whole recording, which a
slice of a second does not allow. What is kept: loudness by a power law above the threshold in quiet, gain made equal
frame by frame, differences masked by a quarter of the smaller loudness, and what is added counts more than what is
missing (asymmetry).
"""

import torch
from torch import Tensor, nn

from training.tts.config import RATE
from training.tts.spectra import magnitude
from training.tts.speech import LEVEL

_WINDOW, _HOP = 768, 384  # 32 ms, half of it
_BANDS, _LOW, _HIGH = 49, 50.0, 8000.0  # Hz
_HEARD = 73.0  # dB SPL of speech at LEVEL
_POWER, _SONES = 0.23, 0.1866  # Zwicker's law and its scale
_MASKED = 0.25
_GAIN = (3e-4, 5.0)
_ASYMMETRY, _LEAST, _MOST = 1.2, 3.0, 12.0
_SYMMETRIC_WEIGHT, _ASYMMETRIC_WEIGHT = 0.1, 0.0309  # PESQ = 4.5 - both disturbances with these weights


def bark(f: Tensor) -> Tensor:
    """Critical-band rate of frequencies in Hz (Traunmüller 1990)."""
    return 26.81 * f / (1960 + f) - 0.53


def threshold(f: Tensor) -> Tensor:
    """Threshold in quiet in dB SPL (Terhardt 1979)."""
    k = f / 1000
    return 3.64 * k**-0.8 - 6.5 * torch.exp(-0.6 * (k - 3.3).square()) + 1e-3 * k**4


def bark_bank() -> tuple[Tensor, Tensor, float]:
    """Shares of bins in equally wide bands [bands, bins], the bands' thresholds as powers [bands, 1], width in Bark."""
    low, high = (float(bark(torch.tensor(f, dtype=torch.float64))) for f in (_LOW, _HIGH))
    edges = torch.linspace(low, high, _BANDS + 1, dtype=torch.float64)
    hertz = 1960 * (edges + 0.53) / (26.28 - edges)
    step = RATE / _WINDOW
    bins = torch.arange(_WINDOW // 2 + 1, dtype=torch.float64) * step
    upper = torch.minimum(hertz[1:, None], bins + step / 2)
    lower = torch.maximum(hertz[:-1, None], bins - step / 2)
    quiet = 10 ** (threshold((hertz[1:] + hertz[:-1]) / 2) / 10)
    return ((upper - lower).clamp(min=0) / step).float(), quiet[:, None].float(), (high - low) / _BANDS


class LoudnessDistance(nn.Module):
    """How much PESQ `decoded` loses against `recorded`, [B, 1, S] each -> scalar >= 0."""

    window: Tensor
    bank: Tensor
    quiet: Tensor

    def __init__(self) -> None:
        super().__init__()
        window = torch.hann_window(_WINDOW)
        bank, quiet, self.width = bark_bank()
        # Powers as sound pressure: the mean square of a wave is twice the sum of its bins over size and window.
        pressure = 10 ** (_HEARD / 10) / LEVEL**2
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("bank", bank * (2 * pressure / (_WINDOW * float(window.square().sum()))), persistent=False)
        self.register_buffer("quiet", quiet, persistent=False)

    def forward(self, decoded: Tensor, recorded: Tensor) -> Tensor:
        with torch.autocast(decoded.device.type, enabled=False):
            spectra = magnitude(torch.cat([decoded, recorded])[:, 0], self.window, _HOP, center=False)
            made, meant = (self.bank @ spectra.square()).chunk(2)
            made = made * self._gain(made, meant)
            a, b = self._loudness(made), self._loudness(meant)
            difference = ((a - b).abs() - _MASKED * torch.minimum(a, b)).clamp(min=0)
            factor = ((made + 50) / (meant + 50)) ** _ASYMMETRY
            factor = torch.where(factor < _LEAST, torch.zeros_like(factor), factor.clamp(max=_MOST)).detach()
            whole = self.width * _BANDS
            symmetric = whole * (difference.square().mean(1) + 1e-8).sqrt()
            asymmetric = whole * (difference * factor).mean(1)
            weight = ((meant.sum(1) + 1e5) / 1e7) ** -0.04
            lost = [
                ((weight * x).clamp(max=45.0).square().mean(1) + 1e-8).sqrt().mean() for x in (symmetric, asymmetric)
            ]
            return _SYMMETRIC_WEIGHT * lost[0] + _ASYMMETRIC_WEIGHT * lost[1]

    def _loudness(self, power: Tensor) -> Tensor:
        """Sones a Bark of powers [B, bands, T]; 0 below the threshold in quiet."""
        scale = _SONES * (self.quiet / 0.5) ** _POWER
        return scale * (((0.5 + 0.5 * power / self.quiet) ** _POWER) - 1).clamp(min=0)

    def _gain(self, made: Tensor, meant: Tensor) -> Tensor:
        """What makes a frame as loud as it is meant to be, within limits: [B, 1, T]."""
        heard = [(x * (x > self.quiet)).sum(1, keepdim=True) + 5e3 for x in (made, meant)]
        return (heard[1] / heard[0]).clamp(*_GAIN)
