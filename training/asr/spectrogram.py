"""Whisper's log-mel with a fixed floor.

Official floor: clip maximum - 8. Here: log10 = 1.5 - 8, what a full-scale clip has, so that a frame depends on its own
400 samples only and a stream gives the same frames as a file.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from audio.mel_filters import HOP, N_FFT, mel_filters
from training.asr.checkpoint import MEL_FLOOR
from training.shards import RATE

BINS = 128
_BATCH_SECONDS = 1500  # heard at once where nothing is learnt


class LogMel(nn.Module):
    filters: Tensor
    window: Tensor

    def __init__(self, bins: int = BINS, floor: float = MEL_FLOOR) -> None:
        """floor: least log10 of power."""
        super().__init__()
        self.floor = floor
        self.register_buffer("filters", torch.from_numpy(mel_filters(bins)))
        self.register_buffer("window", torch.hann_window(N_FFT))

    def forward(self, samples: Tensor) -> Tensor:
        """[B, n] float32 -> [B, bins, n // 160], (log10 power + 4) / 4."""
        spectrum = torch.stft(samples, N_FFT, HOP, window=self.window, return_complex=True)  # centred, reflected edges
        power = spectrum[..., :-1].abs() ** 2
        return ((self.filters @ power).clamp(min=1e-10).log10().clamp(min=self.floor) + 4) / 4


def past_end(mel: Tensor, frames: Tensor) -> Tensor:
    """Zero the frames beyond each row's own, as the official code pads."""
    return mel.masked_fill((torch.arange(mel.shape[2], device=mel.device)[None] >= frames[:, None])[:, None], 0)


def heard(waves: Sequence[Tensor], mel: LogMel, chunk: int) -> Iterator[tuple[list[int], Tensor, Tensor, Tensor]]:
    """Batches of int16 waves, shortest first: their places, samples float32 [B, n] of whole chunks of so many frames,
    valid frames [B], log-mels. Less than half a second is padded and the padding counts, as in the official processor.
    """
    order, step, device = sorted(range(len(waves)), key=lambda i: len(waves[i])), chunk * HOP, mel.window.device
    while order:
        size = max(1, min(256, _BATCH_SECONDS // (len(waves[order[0]]) // RATE + 1)))
        group, order = order[:size], order[size:]
        counted = [max(len(waves[i]), RATE // 2) for i in group]
        samples = torch.zeros(len(group), -(-max(counted) // step) * step, device=device)
        for row, i in zip(samples, group, strict=True):
            row[: len(waves[i])] = waves[i].to(device).float() / 32768
        frames = torch.tensor([n // HOP for n in counted], device=device)
        yield group, samples, frames, past_end(mel(samples), frames)
