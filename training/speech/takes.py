"""What the network says becomes takes: resampled, trimmed, levelled and checked, all rows of a batch at once.

All functions work on float32 [B, N] at 24 kHz, on their device.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

RATE, HEARING_RATE = 24_000, 16_000
# What lies above this part of the output's band fades out, so that nothing folds back.
_PASS = 0.94
PHONES_A_SECOND = 3.0, 32.0
"""A take with fewer or more phones a second is not what was asked for."""
# Seconds that are kept before and after what a speaking model learns: its pieces begin and end so.
BEFORE, AFTER = 0.08, 0.16
# Seconds of a take that hold no phone of it: the margins, and what a syllable that is said alone lasts longer.
_AROUND = 0.6


def to_hearing_rate(wave: Tensor) -> Tensor:
    """Resample 24 kHz [B, N] to 16 kHz [B, 2 N / 3]. N is a multiple of 3, and both ends must be quiet, because a
    spectrum joins them."""
    kept = wave.shape[1] // 3 + 1
    fade = (torch.linspace(1, 0, kept, device=wave.device) / (1 - _PASS)).clamp(max=1)
    return torch.fft.irfft(torch.fft.rfft(wave)[:, :kept] * fade, wave.shape[1] // 3 * 2) * (HEARING_RATE / RATE)


class Checked(NamedTuple):
    """int16 samples [B, N], and for every row where its speech begins and ends (with margins) and what is wrong with
    it."""

    samples: Tensor
    starts: Tensor
    ends: Tensor
    silent: Tensor
    clipped: Tensor


def _checked(
    wave: Tensor, said: Tensor, level: Tensor, hop: int, threshold: float, around: tuple[int, int], peak: int
) -> Checked:
    """Check `said` [B, N], which was made of `wave`. The speech of a row reaches from `around` samples before the first
    value of `level` [B, M] (one in `hop`) that passes its row's maximum times `threshold` to those behind the last such
    value. Each row is brought to one peak."""
    loud = (level > threshold * level.amax(1, keepdim=True)).int()
    starts = (loud.argmax(1) * hop - around[0]).clamp(min=0)
    ends = ((level.shape[1] - 1 - loud.flip(1).argmax(1)) * hop + around[1]).clamp(max=said.shape[1])
    scaled = said * (peak / said.abs().amax(1, keepdim=True).clamp(min=1e-6))
    # A row without numbers counts as silent too.
    silent = ~(wave.abs().amax(1) > 0.02) | ~torch.isfinite(wave).all(1)
    clipped = (wave.abs() >= 1).float().mean(1) > 1e-3
    return Checked(scaled.round().to(torch.int16), starts, ends, silent, clipped)


def hearing(wave: Tensor) -> Checked:
    """Check takes for a model that hears: 16 kHz, speech and 50 ms around it."""
    low, hop, around = to_hearing_rate(torch.nan_to_num(wave).clamp(-4, 4)), 160, HEARING_RATE // 20
    level = F.max_pool1d(low.abs()[:, None], hop, ceil_mode=True)[:, 0]
    return _checked(wave, low, level, hop, 0.01, (around, hop + around), 12_000)


def speaking(wave: Tensor) -> Checked:
    """Check takes for a model that speaks: 24 kHz, trimmed where the 20 ms level passes 3 % of the loudest."""
    said, width, hop = torch.nan_to_num(wave).clamp(-4, 4), RATE // 50, RATE // 200
    level = F.avg_pool1d(said.square()[:, None], width, hop, padding=width // 2)[:, 0].sqrt()
    return _checked(wave, said, level, hop, 0.03, (int(RATE * BEFORE), int(RATE * AFTER)), 30_000)


def plausible(phones: int, seconds: float) -> bool:
    """Whether so many phones can have been said in that time."""
    low, high = PHONES_A_SECOND
    return seconds > 0 and (seconds - _AROUND) * low <= phones <= high * seconds
