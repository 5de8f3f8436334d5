"""From what the network says to takes: resampled, trimmed, levelled and checked, all rows of a batch at once.

Works on float32 [B, N] at 24 kHz, on their device.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

RATE, HEARING_RATE = 24_000, 16_000
_PASS = 0.94  # of the output's band; what lies above fades out
PHONES_A_SECOND = 3.0, 32.0


def to_hearing_rate(wave: Tensor) -> Tensor:
    """24 kHz [B, N] -> 16 kHz [B, 2 N / 3]; N is a multiple of 3; both ends are quiet: a spectrum joins them."""
    kept = wave.shape[1] // 3 + 1
    fade = (torch.linspace(1, 0, kept, device=wave.device) / (1 - _PASS)).clamp(max=1)
    return torch.fft.irfft(torch.fft.rfft(wave)[:, :kept] * fade, wave.shape[1] // 3 * 2) * (HEARING_RATE / RATE)


class Checked(NamedTuple):
    """int16 samples [B, N], and for every row where its speech begins and ends (with margins) and what is wrong."""

    samples: Tensor
    starts: Tensor
    ends: Tensor
    silent: Tensor
    clipped: Tensor


def _checked(
    wave: Tensor, said: Tensor, level: Tensor, hop: int, threshold: float, around: tuple[int, int], peak: int
) -> Checked:
    """Of `said` [B, N], which was made of `wave`: rows from `around` samples before the first of `level` [B, M] (one in
    `hop`) that passes its row's maximum times `threshold` to those behind the last, each at one peak."""
    loud = (level > threshold * level.amax(1, keepdim=True)).int()
    starts = (loud.argmax(1) * hop - around[0]).clamp(min=0)
    ends = ((level.shape[1] - 1 - loud.flip(1).argmax(1)) * hop + around[1]).clamp(max=said.shape[1])
    scaled = said * (peak / said.abs().amax(1, keepdim=True).clamp(min=1e-6))
    silent = ~(wave.abs().amax(1) > 0.02) | ~torch.isfinite(wave).all(1)  # or no numbers
    clipped = (wave.abs() >= 1).float().mean(1) > 1e-3
    return Checked(scaled.round().to(torch.int16), starts, ends, silent, clipped)


def hearing(wave: Tensor) -> Checked:
    """Takes for a model that hears: 16 kHz, speech and 50 ms around it."""
    low, hop, around = to_hearing_rate(torch.nan_to_num(wave).clamp(-4, 4)), 160, HEARING_RATE // 20
    level = F.max_pool1d(low.abs()[:, None], hop, ceil_mode=True)[:, 0]
    return _checked(wave, low, level, hop, 0.01, (around, hop + around), 12_000)


def speaking(wave: Tensor) -> Checked:
    """Takes for a model that speaks: 24 kHz, trimmed where the 20 ms level passes 3 % of the loudest."""
    said, width, hop = torch.nan_to_num(wave).clamp(-4, 4), RATE // 50, RATE // 200
    level = F.avg_pool1d(said.square()[:, None], width, hop, padding=width // 2)[:, 0].sqrt()
    return _checked(wave, said, level, hop, 0.03, (RATE * 8 // 100, RATE * 16 // 100), 30_000)


def plausible(phones: int, seconds: float) -> bool:
    """Whether so many phones can have been said in that time."""
    low, high = PHONES_A_SECOND
    return seconds > 0 and low <= phones / seconds <= high
