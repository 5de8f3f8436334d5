"""Whisper's log-mel with a fixed floor, and the masking of it while training.

Official floor: clip maximum - 8. Here: log10 = 1.5 - 8, what a full-scale clip has, so that a frame depends on its own
400 samples only and a stream gives the same frames as a file.
"""

import torch
from torch import Tensor, nn

from audio.mel_filters import HOP, N_FFT, mel_filters
from training.asr.checkpoint import MEL_FLOOR

WINDOW, BINS = N_FFT, 128


class LogMel(nn.Module):
    filters: Tensor
    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("filters", torch.from_numpy(mel_filters(BINS)))
        self.register_buffer("window", torch.hann_window(WINDOW))

    def forward(self, samples: Tensor) -> Tensor:
        """[B, n] float32 -> [B, 128, n // 160], (log10 power + 4) / 4."""
        spectrum = torch.stft(
            samples, WINDOW, HOP, window=self.window, center=True, pad_mode="reflect", return_complex=True
        )
        power = spectrum[..., :-1].abs() ** 2
        return ((self.filters @ power).clamp(min=1e-10).log10().clamp(min=MEL_FLOOR) + 4) / 4


def past_end(mel: Tensor, frames: Tensor) -> Tensor:
    """Zero the frames beyond each row's own, as the official code pads."""
    return mel.masked_fill((torch.arange(mel.shape[2], device=mel.device)[None] >= frames[:, None])[:, None], 0)


def mask_spectrogram(
    mel: Tensor,
    frames: Tensor,
    strength: Tensor,
    *,
    warp: float = 0.12,
    bands: int = 2,
    band: int = 26,
    gap: int = 40,
    share: float = 0.12,
) -> Tensor:
    """Vocal-tract-length warp, `bands` frequency masks up to `band` bins, time masks up to `gap` frames on about
    `share` of the row. `strength` [] scales all of it; shapes out depend on shapes in only."""
    rows, bins, width = mel.shape
    device = mel.device

    def draw() -> Tensor:
        return torch.rand(rows, 1, device=device)

    scale = torch.where(draw() < 0.6, torch.exp((draw() * 2 - 1) * warp * strength), 1.0)
    at = (torch.arange(bins, device=device)[None] * scale).clamp(max=bins - 1.001)
    low = at.floor().long()
    part = (at - low)[..., None]

    def rows_at(index: Tensor) -> Tensor:
        return mel.gather(1, index[..., None].expand(-1, -1, width))

    mel = rows_at(low) * (1 - part) + rows_at(low + 1) * part
    bin_index, time_index = torch.arange(bins, device=device)[None], torch.arange(width, device=device)[None]
    hidden = torch.zeros(rows, bins, dtype=torch.bool, device=device)
    for _ in range(bands):
        size = draw() * band * strength
        first = draw() * (bins - size)
        hidden |= (bin_index >= first) & (bin_index < first + size)
    silent = time_index >= frames[:, None]
    wanted = (frames * share * strength / (gap / 2)).round()[:, None]
    for i in range(int(width * share / (gap / 2)) + 1):
        size = torch.where(i < wanted, draw() * gap, 0.0)
        first = draw() * (frames[:, None] - size)
        silent |= (time_index >= first) & (time_index < first + size)
    return mel.masked_fill(hidden[:, :, None], 0).masked_fill(silent[:, None], 0)
