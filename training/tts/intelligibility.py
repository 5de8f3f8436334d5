"""A loss that follows STOI (Taal et al. 2011): how far the envelopes of third-octave bands are from the original's.

It is computed at 24 kHz on short slices, in static shapes: frames without speech are moved behind the others rather
than cut out, and segments that reach into them do not count.
"""

import torch
from torch import Tensor, nn

from training.tts.config import RATE
from training.tts.spectra import magnitude

_WINDOW, _HOP, _SIZE = 614, 307, 1024  # 25.6 ms, half of it, FFT
_BANDS, _LOWEST = 15, 150.0  # third octaves, centre of the first in Hz
_SEGMENT = 30  # frames, 384 ms
_CLIP = 1 + 10 ** (15 / 20)  # an envelope may lie so far above the original's: signal to distortion of -15 dB
_RANGE, _SILENCE = 1e-2, 2e-3  # frames that far below the loudest (-40 dB), or of less than that level, hold no speech


def third_octaves() -> Tensor:
    """Which bins belong to a band: float32 [bands, bins]."""
    f = torch.linspace(0, RATE / 2, _SIZE // 2 + 1, dtype=torch.float64)
    centre = _LOWEST * 2 ** (torch.arange(_BANDS, dtype=torch.float64) / 3)
    low, high = ((f[None] - (centre * 2**edge)[:, None]).abs().argmin(1)[:, None] for edge in (-1 / 6, 1 / 6))
    at = torch.arange(len(f))[None]
    return ((at >= low) & (at < high)).float()


class EnvelopeDistance(nn.Module):
    """1 - STOI of `decoded` against `recorded`, [B, 1, S] each (S >= 10 000) -> scalar; 0 where nothing is said."""

    window: Tensor
    bands: Tensor

    def __init__(self) -> None:
        super().__init__()
        window = torch.zeros(_SIZE)
        start = (_SIZE - _WINDOW) // 2
        window[start : start + _WINDOW] = torch.hann_window(_WINDOW)
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("bands", third_octaves(), persistent=False)

    def forward(self, decoded: Tensor, recorded: Tensor) -> Tensor:
        with torch.autocast(decoded.device.type, enabled=False):
            spectra = magnitude(torch.cat([decoded, recorded])[:, 0], self.window, _HOP, center=False)
            # The root's gradient is finite: `magnitude` is never below its epsilon.
            made, meant = (self.bands @ spectra.square()).sqrt().chunk(2)
            speech = self._speech(spectra.chunk(2)[1])
            made, meant = (_compact(x, speech).unfold(2, _SEGMENT, 1) for x in (made, meant))
            count = speech.sum(1, keepdim=True)
            at = torch.arange(made.shape[2], device=made.device)
            counted = (at[None] + _SEGMENT <= count).float()
            level = meant.norm(dim=-1, keepdim=True) / (made.norm(dim=-1, keepdim=True) + 1e-5)
            made = torch.minimum(made * level, meant * _CLIP)
            made, meant = (x - x.mean(-1, keepdim=True) for x in (made, meant))
            size = ((made.square().sum(-1) + 1e-10) * (meant.square().sum(-1) + 1e-10)).sqrt()
            likeness = ((made * meant).sum(-1) / size).mean(1)
            return ((1 - likeness) * counted).sum() / counted.sum().clamp(min=1)

    def _speech(self, spectra: Tensor) -> Tensor:
        """Frames of [B, bins, T] that hold speech: bool [B, T]."""
        level = (2 * spectra.square().sum(1) / (_SIZE * self.window.square().sum())).sqrt()
        return (level > _RANGE * level.amax(1, keepdim=True)) & (level > _SILENCE)


def _compact(x: Tensor, kept: Tensor) -> Tensor:
    """[B, C, T] with the frames `kept` bool [B, T] at the front, silence (1e-5) behind them."""
    last = x.shape[2]
    place = torch.where(kept, kept.cumsum(1) - 1, last)[:, None].expand_as(x)
    room = torch.full((*x.shape[:2], last + 1), 1e-5, device=x.device, dtype=x.dtype)
    return room.scatter(2, place, x)[..., :last]
