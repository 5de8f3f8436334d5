"""Speech as bands and back: log power in 96 bands of the windows that the log-mel has, and Griffin-Lim.

A band is a 40 Hz bin of the transform up to 1.6 kHz, wider above: interpolation gives the bins back, which the 128
mel bands do not (their lowest are narrower than a bin).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.spectrogram import HOP, WINDOW

BINS, BANDS = WINDOW // 2 + 1, 96
FLOOR = -7.0
"""log10 of power, 66 dB below speech of the level that `levelled` gives."""
_LINEAR = 41
_LEVEL = 0.06


def band_centres() -> Tensor:
    """Centres of the bands [96], in bins."""
    ratio = (BINS - 1) / (_LINEAR - 1)
    above = (_LINEAR - 1) * ratio ** (torch.arange(1, BANDS - _LINEAR + 1) / (BANDS - _LINEAR))
    return torch.cat([torch.arange(_LINEAR, dtype=torch.float32), above])


def levelled(samples: Tensor) -> Tensor:
    """int16 or float samples [n] -> float32 of one loudness (RMS)."""
    samples = samples.float()
    return samples * (_LEVEL / samples.square().mean().sqrt().clamp(min=1e-6))


class Bands(nn.Module):
    """samples <-> bands."""

    window: Tensor
    gather: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        centres, bins = band_centres(), torch.arange(BINS, dtype=torch.float32)
        high = torch.searchsorted(centres, bins).clamp(1, BANDS - 1)
        part = ((bins - centres[high - 1]) / (centres[high] - centres[high - 1])).clamp(0, 1)
        spread = torch.zeros(BINS, BANDS)
        spread[torch.arange(BINS), high - 1] = 1 - part
        spread[torch.arange(BINS), high] += part
        self.register_buffer("window", torch.hann_window(WINDOW))
        self.register_buffer("spread", spread)
        self.register_buffer("gather", (spread / spread.sum(0)).T.contiguous())

    def forward(self, samples: Tensor) -> Tensor:
        """[B, n] float32 -> log10 power [B, n // 160, 96]."""
        power = self._transform(samples)[..., :-1].abs().square()
        return (self.gather @ power).clamp(min=10**FLOOR).log10().transpose(1, 2)

    def _transform(self, samples: Tensor) -> Tensor:
        return torch.stft(samples, WINDOW, HOP, window=self.window, center=True, return_complex=True)

    def sound(self, bands: Tensor, rounds: int = 24) -> Tensor:
        """log10 power [B, T, 96] -> samples [B, 160 T], by fast Griffin-Lim (Perraudin et al. 2013)."""
        wanted = 10 ** (0.5 * (self.spread @ bands.float().transpose(1, 2)))
        wanted = F.pad(wanted, (0, 1), mode="replicate")
        length = bands.shape[1] * HOP
        angle = torch.rand_like(wanted) * (2 * torch.pi)
        spectrum = torch.polar(wanted, angle)
        before = spectrum
        for _ in range(rounds):
            heard = self._transform(torch.istft(spectrum, WINDOW, HOP, window=self.window, length=length))
            ahead = heard + 0.99 * (heard - before)
            spectrum, before = wanted * (ahead / ahead.abs().clamp(min=1e-8)), heard
        return torch.istft(spectrum, WINDOW, HOP, window=self.window, length=length)
