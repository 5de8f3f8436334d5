"""Augmentation: what happens to speech before it reaches a microphone, on whole rows in the frequency domain; what
makes other readers out of the readers there are, and gaps, on log-mels; and sounds that are no speech.

Every shape that comes out depends on shapes that go in, and nothing is read back from the device, so the augmentation
is part of the captured step. notes/2026-11-hearing-runs.md has the runs that used it.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from training.shards import RATE

# Samples of a room's response, 0.4 s; what lasts longer is cut off.
_REVERB = 6400
# Frames between the points at which the pace may change, half a second, about two syllables.
_KNOT = 48
# By so much a vocal tract is made longer or shorter at most: the usual range of vocal-tract-length normalisation, 0.88
# to 1.12.
_WARP = 0.12
# How many frequency masks there are, and how many bins one of them hides at most (SpecAugment, Park et al. 2019, policy
# LD: 2 masks of 27 of 80 bands).
_BANDS, _BAND = 2, 26
# How many frames a time mask hides at most, 0.4 s, and which share of a row the masks hide together.
_GAP, _HIDDEN = 40, 0.18


def _others(places: Tensor) -> Tensor:
    """Give for every row the place of another one, all equally far from `places` [B]."""
    rows = len(places)
    return (places + torch.randint(1, max(rows, 2), (1,), device=places.device)) % rows


def augment(samples: Tensor, length: Tensor, strength: Tensor) -> Tensor:
    """Give samples [B, n], of which `length` [B] count, as a microphone might hear them: with babble from other rows,
    in a room, through an equaliser and band limits, with coloured noise, at another gain, clipped -> [B, n] in [-1, 1].
    `strength` [] multiplies every probability."""
    rows, n = samples.shape
    device, size = samples.device, n + RATE

    def draw(low: float = 0.0, high: float = 1.0) -> Tensor:
        return torch.rand(rows, 1, device=device) * (high - low) + low

    def on(probability: float) -> Tensor:
        return draw() < probability * strength

    def decibel(x: Tensor) -> Tensor:
        return 10 ** (x / 20)

    spectrum = torch.fft.rfft(samples, size)
    bins = spectrum.shape[1]
    hertz = torch.linspace(0, RATE / 2, bins, device=device)[None]
    level = (samples.pow(2).sum(1, keepdim=True) / length[:, None].clamp(min=1)).sqrt().clamp(min=3e-3)
    other = _others(torch.arange(rows, device=device))
    second = _others(other)
    babble = spectrum[other] + spectrum[second] * (draw() < 0.6)
    spectrum = spectrum + babble * torch.where(on(0.2), decibel(-draw(8, 26)), 0.0)
    time = torch.arange(_REVERB, device=device)[None] / RATE
    tail = (
        torch.randn(rows, _REVERB, device=device)
        * torch.exp(-6.9 * time / draw(0.12, 0.9))
        * (time > draw(0.002, 0.02))
    )
    room = torch.where(on(0.4), tail * draw(0.01, 0.09), 0.0)
    room = torch.where(time == 0, 1.0, room)
    spectrum = spectrum * torch.fft.rfft(room, size)
    curve = F.interpolate(torch.randn(rows, 1, 12, device=device) * 5, size=bins, mode="linear")[:, 0]
    tilt = (hertz / 4000 - 1) * draw(-5, 5)
    spectrum = spectrum * decibel(torch.where(on(0.7), curve, 0.0) + torch.where(on(0.5), tilt, 0.0))
    low_pass = torch.where(on(0.3), torch.where(draw() < 0.4, 3500.0, draw(3800, 7800)), 1e5)
    high_pass = torch.where(on(0.35), draw(50, 320), -1e4)
    noise = torch.view_as_complex(torch.randn(rows, bins, 2, device=device)) * (hertz.clamp(min=40) / 1000) ** (
        -draw(0, 1.1)
    )
    noise = noise / noise.abs().pow(2).mean(1, keepdim=True).sqrt()
    noise = noise * (level * size**0.5) * decibel(-torch.where(on(0.55), draw(6, 40), 60.0))
    spectrum = (spectrum + noise) * (torch.sigmoid((low_pass - hertz) / 120) * torch.sigmoid((hertz - high_pass) / 25))
    out = torch.fft.irfft(spectrum, size)[:, :n]
    peak = out.abs().amax(1, keepdim=True).clamp(min=1e-4)
    gain = 10 ** draw(-1.5, 0.0) * torch.where(on(0.05), 2.5, 1.0)
    return (out / peak * gain).clamp(-1, 1)


def generated_music(count: int, seconds: float, seed: int) -> list[NDArray[np.int16]]:
    """Make sounds with tones and beats and without words: chords, arpeggios, drums, hums, beeps. They are int16 at 16
    kHz."""
    rng = np.random.default_rng(seed)
    n = int(seconds * RATE)
    out: list[NDArray[np.int16]] = []
    for _ in range(count):
        mix = np.zeros(n, np.float32)
        root, beat = rng.uniform(80, 400), rng.uniform(0.12, 0.7)
        scale = root * 2 ** (np.array([0, 2, 4, 5, 7, 9, 11, 12, 14, 16]) / 12)
        harmonics, decay = int(rng.integers(1, 9)), rng.uniform(0.5, 6.0)
        at = 0.0
        while at < seconds - 0.1:
            length = min(beat * float(rng.choice([0.5, 1, 1, 2, 4])), seconds - at - 0.02)
            m = int(length * RATE)
            time = np.arange(m, dtype=np.float32) / RATE
            envelope = np.minimum(time * rng.uniform(20, 200), 1) * np.exp(-decay * time)
            for note in rng.choice(scale, int(rng.integers(1, 4))):
                vibrato = rng.uniform(0, 0.01) * np.sin(2 * np.pi * rng.uniform(3, 7) * time)
                for h in range(1, harmonics + 1):
                    if note * h < RATE / 2:
                        mix[int(at * RATE) : int(at * RATE) + m] += (
                            envelope * np.sin(2 * np.pi * note * h * (time + vibrato / 10)) / h
                        )
            if rng.random() < 0.4:
                k = min(int(0.08 * RATE), m)
                mix[int(at * RATE) : int(at * RATE) + k] += (
                    rng.normal(size=k) * np.exp(-np.arange(k) / rng.uniform(100, 600)) * 2
                )
            at += length
        out.append((mix / max(np.abs(mix).max(), 1e-6) * 12000).astype(np.int16))
    return out


def mix_style(mel: Tensor, frames: Tensor, share: Tensor) -> Tensor:
    """Give about `share` [] of the rows of mel [B, M, T], of which `frames` [B] count, a part of the mean and spread of
    another row in every band. That is how a voice and its microphone colour speech, not what is said (MixStyle, Zhou et
    al. 2021)."""
    rows, _, width = mel.shape
    device = mel.device
    valid = (torch.arange(width, device=device)[None] < frames[:, None]).to(mel.dtype)[:, None]
    count = valid.sum(-1, keepdim=True).clamp(min=1)
    mean = (mel * valid).sum(-1, keepdim=True) / count
    spread = (((mel - mean).square() * valid).sum(-1, keepdim=True) / count + 1e-4).sqrt()
    other = _others(torch.arange(rows, device=device))
    part = torch.rand(rows, 1, 1, device=device) * 0.6
    part = torch.where(torch.rand(rows, 1, 1, device=device) < share, part, 0.0)
    # Else the narrow spread of a silent band would blow up what another row has there.
    ratio = (spread[other] / spread).clamp(0.5, 2.0)
    return (mel - mean) * (1 + part * (ratio - 1)) + mean + part * (mean[other] - mean)


def read_at(mel: Tensor, at: Tensor, axis: int = 2) -> Tensor:
    """Read mel [B, M, T] at the places `at` (float), [B, M] of axis 1 or [B, T] of axis 2, by linear interpolation."""
    low = at.floor()
    index, part = (x.unsqueeze(3 - axis) for x in (low.long(), at - low))
    index = index.expand_as(mel)
    return mel.gather(axis, index) * (1 - part) + mel.gather(axis, index + 1) * part


def paces(frames: Tensor, width: int, strength: Tensor, most: float = 0.25) -> Tensor:
    """Draw where rows of `width` frames are read, of which `frames` [B] count: half of the rows faster here and slower
    there, by up to `most` of the pace -> places (float), [B, width].

    Every row keeps its first and its last frame; the frames past it are the last one's.
    """
    rows, device = len(frames), frames.device
    knots = width // _KNOT + 2
    on = torch.rand(rows, 1, device=device) < 0.5
    change = (torch.rand(rows, knots, device=device) * 2 - 1) * most
    pace = torch.where(on, 1 + change * strength, 1.0)
    pace = pace.repeat_interleave(_KNOT, 1)[:, :width]
    time = torch.arange(width, device=device)[None]
    pace = torch.where(time < frames[:, None], pace, 0.0)
    at = pace.cumsum(1) - pace
    last = (frames[:, None] - 1).clamp(min=0)
    return torch.minimum(at * (last / at.gather(1, last).clamp(min=1)), last).clamp(max=width - 1.001)


def mask_spectrogram(mel: Tensor, frames: Tensor, strength: Tensor) -> Tensor:
    """Warp the length of the vocal tract, hide bands and hide stretches of time. `strength` [] multiplies all of it;
    the shapes that come out depend on shapes only."""
    rows, bins, width = mel.shape
    device = mel.device

    def draw() -> Tensor:
        return torch.rand(rows, 1, device=device)

    scale = torch.where(draw() < 0.6, torch.exp((draw() * 2 - 1) * _WARP * strength), 1.0)
    at = (torch.arange(bins, device=device)[None] * scale).clamp(max=bins - 1.001)
    mel = read_at(mel, at, 1)
    bin_index, time_index = torch.arange(bins, device=device)[None], torch.arange(width, device=device)[None]
    hidden = torch.zeros(rows, bins, dtype=torch.bool, device=device)
    for _ in range(_BANDS):
        size = draw() * _BAND * strength
        first = draw() * (bins - size)
        hidden |= (bin_index >= first) & (bin_index < first + size)
    silent = time_index >= frames[:, None]
    wanted = (frames * _HIDDEN * strength / (_GAP / 2)).round()[:, None]
    for i in range(int(width * _HIDDEN / (_GAP / 2)) + 1):
        size = torch.where(i < wanted, draw() * _GAP, 0.0)
        first = draw() * (frames[:, None] - size)
        silent |= (time_index >= first) & (time_index < first + size)
    return mel.masked_fill(hidden[:, :, None], 0).masked_fill(silent[:, None], 0)
