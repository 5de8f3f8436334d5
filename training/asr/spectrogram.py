"""Whisper's log-mel with a fixed floor.

The official floor lies 8 below the clip's maximum. Here it lies at 1.5 - 8 in log10, which is that of a full-scale
clip, so that a frame depends on its own 400 samples only and a stream gives the same frames as a file.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from audio.mel_filters import HOP, N_FFT, mel_filters
from training.asr.checkpoint import MEL_FLOOR
from training.lengths import by_length
from training.shards import RATE

BINS = 128
_BATCH_SECONDS = 1500  # Seconds of audio that are heard at once where nothing is learnt.


class LogMel(nn.Module):
    filters: Tensor
    window: Tensor

    def __init__(self, bins: int = BINS, floor: float = MEL_FLOOR, rate: int = RATE) -> None:
        """floor: the least log10 of power; rate: samples a second. At any rate windows and hops last as long, and bins
        have as many Hz, as at 16 kHz."""
        super().__init__()
        self.floor, self.hop, self.scale = floor, HOP * rate // RATE, (RATE / rate) ** 2
        self.register_buffer("filters", torch.from_numpy(mel_filters(bins)))
        self.register_buffer("window", torch.hann_window(N_FFT * rate // RATE))

    def power(self, samples: Tensor) -> Tensor:
        """Samples [B, n] float32 -> power [B, bins, n // hop], as of 16 kHz."""
        # The edges are reflected, as in Whisper.
        z = torch.stft(samples, len(self.window), self.hop, window=self.window, return_complex=True)
        power = z.real.square() + z.imag.square()
        return self.filters @ power[:, : self.filters.shape[1], :-1] * self.scale

    def forward(self, samples: Tensor) -> Tensor:
        """Samples [B, n] float32 -> [B, bins, n // hop], (log10 power + 4) / 4 as Whisper scales it."""
        return (self.power(samples).clamp(min=1e-10).log10().clamp(min=self.floor) + 4) / 4


def past_end(mel: Tensor, frames: Tensor) -> Tensor:
    """Zero the frames beyond each row's own, as the official code pads."""
    return mel.masked_fill((torch.arange(mel.shape[2], device=mel.device)[None] >= frames[:, None])[:, None], 0)


def heard(waves: Sequence[Tensor], mel: LogMel, chunk: int) -> Iterator[tuple[list[int], Tensor, Tensor, Tensor]]:
    """Give batches of int16 waves, shortest first: their places, their samples float32 [B, n] of whole chunks of so
    many frames, their valid frames [B], their log-mels. A wave of less than half a second is padded and the padding
    counts, as in the official processor."""
    step, device = chunk * HOP, mel.window.device
    counted = [max(len(wave), RATE // 2) for wave in waves]
    for group in by_length(counted, _BATCH_SECONDS * RATE):
        samples = torch.zeros(len(group), -(-counted[group[-1]] // step) * step, device=device)
        for row, i in zip(samples, group, strict=True):
            row[: len(waves[i])] = waves[i].to(device).float() / 32768
        frames = torch.tensor([counted[i] // HOP for i in group], device=device)
        yield group, samples, frames, past_end(mel(samples), frames)
