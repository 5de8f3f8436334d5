"""Crops of readers' clips, clean and as rooms and telephones leave them: by them the graph's bytes get their ranges."""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.shards import RATE, Clip
from training.speakers.encoder import SAMPLES

# The most crops that are taken of one speaker, so that nobody's voice sets a range alone.
_MOST = 9


def crops(clips: Iterable[Clip], seed: int) -> NDArray[np.float32]:
    """Give crops of 1.5 s, float32 [n, SAMPLES], of every speaker that has a name."""
    random = np.random.default_rng(seed)
    of: dict[str, list[Clip]] = {}
    for clip in clips:
        if clip.speaker and len(clip.samples) >= SAMPLES:
            of.setdefault(clip.speaker, []).append(clip)
    found: list[NDArray[np.float32]] = []
    for name in sorted(of):
        for place in random.permutation(len(of[name]))[:_MOST]:
            samples = of[name][place].samples
            at = int(random.integers(0, len(samples) - SAMPLES + 1))
            found.append(samples[at : at + SAMPLES].astype(np.float32) / 32768)
    return np.stack(found)


def rough(waves: Tensor, draw: torch.Generator) -> Tensor:
    """Give crops as microphones in rooms may hear them: float32 [n, SAMPLES]. They may have an echo, noise of some
    colour, another of the voices in the background, a narrow band and few bits."""
    count, device = len(waves), waves.device

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, generator=draw, device=device)

    def some(share: float) -> Tensor:
        return torch.rand(count, 1, generator=draw, device=device) < share

    def noise() -> Tensor:
        return torch.randn(waves.shape, generator=draw, device=device)

    def level(x: Tensor) -> Tensor:
        return x.square().mean(1, keepdim=True).sqrt().clamp(min=1e-5)

    whole = 2 * SAMPLES
    frequency = torch.arange(SAMPLES + 1, device=device) * (RATE / whole)
    # An echo decays by 60 dB within its length; the first sample is the voice itself.
    decay = uniform(0.15, 0.7) * RATE
    echo = noise() * 10 ** (-3 * torch.arange(SAMPLES, device=device) / decay)
    echo = echo * 10 ** (-uniform(-1, 12) / 20) / echo.square().sum(1, keepdim=True).sqrt()
    echo = torch.where(some(0.6), echo, 0.0)
    echo[:, 0] = 1
    spectrum = torch.fft.rfft(waves, whole) * torch.fft.rfft(echo, whole)
    # A microphone has a colour of its own, and a telephone a narrow band.
    spectrum = spectrum * (frequency.clamp(min=60) / 1000) ** uniform(-0.3, 0.3)
    edge = torch.where(some(0.2), uniform(3300, 7000), 9000.0)
    out = torch.fft.irfft(spectrum / (1 + (frequency / edge) ** 16), whole)[:, :SAMPLES]
    other = out.roll(1, 0)
    out = out + torch.where(some(0.15), other * level(out) / level(other) * 10 ** (-uniform(6, 20) / 20), 0.0)
    colour = torch.fft.rfft(noise(), whole) * (frequency.clamp(min=50) / 100) ** -uniform(0, 1)
    ground = torch.fft.irfft(colour, whole)[:, :SAMPLES]
    out = out + torch.where(some(0.6), ground * level(out) / level(ground) * 10 ** (-uniform(5, 35) / 20), 0.0)
    step = out.abs().amax(1, keepdim=True).clamp(min=1e-5) / 2 ** uniform(5, 9)
    return torch.where(some(0.15), (out / step).round() * step, out)
