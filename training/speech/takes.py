"""From what the network says to takes: resampled, trimmed, levelled and checked, all rows of a batch at once.

Works on float32 [B, N] at 24 kHz, on their device.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

RATE, HEARING_RATE = 24_000, 16_000
_HALF = 48  # taps to either side, input samples
_PASS = 0.94  # of the output's band
PHONES_A_SECOND = 3.0, 32.0


def _taps() -> Tensor:
    """[2, 1, K]: a windowed sinc for outputs on an input sample, and for those half a sample off."""
    cut = HEARING_RATE / RATE * _PASS
    k = torch.arange(2 * _HALF + 3, dtype=torch.float64)
    rows: list[Tensor] = []
    for phase in (0.0, 1.5):
        t = phase + _HALF - k
        window = torch.where(t.abs() <= _HALF + 1, 0.5 + 0.5 * torch.cos(math.pi * t / (_HALF + 1)), 0.0)
        row = cut * torch.sinc(cut * t) * window
        rows.append(row / row.sum())
    return torch.stack(rows)[:, None].float()


def to_hearing_rate(wave: Tensor) -> Tensor:
    """24 kHz [B, N] -> 16 kHz [B, 2 N / 3]; N is a multiple of 3."""
    made = F.conv1d(F.pad(wave[:, None], (_HALF, _HALF)), _taps().to(wave.device), stride=3)
    return made.transpose(1, 2).flatten(1)


@dataclass(frozen=True)
class Checked:
    """int16 samples [B, N], and for every row where its speech begins and ends (with margins) and what is wrong."""

    samples: Tensor
    starts: Tensor
    ends: Tensor
    silent: Tensor
    clipped: Tensor


def _bounds(level: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """First and last column [B] of `level` [B, M] above its row's maximum times `threshold`."""
    loud = level > threshold * level.amax(1, keepdim=True)
    first = loud.int().argmax(1)
    last = level.shape[1] - 1 - loud.flip(1).int().argmax(1)
    return first, last


def _wrong(wave: Tensor) -> tuple[Tensor, Tensor]:
    """Rows without sound (or that are no numbers), rows that clip."""
    peak = wave.abs().amax(1)
    return ~(peak > 0.02) | ~torch.isfinite(wave).all(1), (wave.abs() >= 1).float().mean(1) > 1e-3


def hearing(wave: Tensor, peak: int = 12_000, margin: float = 0.05) -> Checked:
    """Takes for a model that hears: 16 kHz, speech and 50 ms around it, every row at one peak."""
    silent, clipped = _wrong(wave)
    low = to_hearing_rate(torch.nan_to_num(wave).clamp(-4, 4))
    block = 160
    level = F.max_pool1d(low.abs()[:, None], block, ceil_mode=True)[:, 0]
    first, last = _bounds(level, 0.01)
    around = int(margin * HEARING_RATE)
    starts = (first * block - around).clamp(min=0)
    ends = ((last + 1) * block + around).clamp(max=low.shape[1])
    scaled = low * (peak / low.abs().amax(1, keepdim=True).clamp(min=1e-6))
    return Checked(scaled.round().to(torch.int16), starts, ends, silent, clipped)


def speaking(wave: Tensor, lead: float = 0.08, tail: float = 0.16, threshold: float = 0.03) -> Checked:
    """Takes for a model that speaks: 24 kHz, trimmed where the 20 ms level passes `threshold` of the loudest."""
    silent, clipped = _wrong(wave)
    wave = torch.nan_to_num(wave).clamp(-4, 4)
    width, hop = 480, 120
    level = F.avg_pool1d(wave.square()[:, None], width, hop, padding=width // 2)[:, 0].sqrt()
    first, last = _bounds(level, threshold)
    starts = (first * hop - int(lead * RATE)).clamp(min=0)
    ends = (last * hop + int(tail * RATE)).clamp(max=wave.shape[1])
    scaled = wave * (30_000 / wave.abs().amax(1, keepdim=True).clamp(min=1e-6))
    return Checked(scaled.round().to(torch.int16), starts, ends, silent, clipped)


def plausible(phones: int, seconds: float) -> bool:
    """Whether so many phones can have been said in that time."""
    low, high = PHONES_A_SECOND
    return seconds > 0 and low <= phones / seconds <= high
