"""Discriminators are networks that tell decoded speech from recorded, by its periods and by its spectra.

The structure's sources are HiFi-GAN's periods (narrower here) and EnCodec's complex spectra, with hinge losses. Layers
begin at the gain that keeps the size of activations: at PyTorch's own, scores begin a hundred times smaller and learn
later.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from training.tts.layers import channels_last
from training.tts.speech import LEVEL

_PERIODS = (2, 3, 5, 7, 11)
_SPECTRA = (2048, 1024, 512)  # These are windows in samples.
_SLOPE = 0.1
# It is added to a squared magnitude before its power, and keeps the gradient of a silent bin finite.
_QUIET = 1e-5


class Judgement(NamedTuple):
    """score: of any shape; maps: the activations of the hidden layers."""

    score: Tensor
    maps: list[Tensor]


class _Stack(nn.Module):
    """Convolutions with leaky activations give a score at the end: [B, i, H, W] -> Judgement."""

    def __init__(self, layers: list[nn.Conv2d], last: nn.Conv2d) -> None:
        super().__init__()
        for layer in (*layers, last):
            nn.init.kaiming_normal_(layer.weight, _SLOPE)
            nn.init.zeros_(cast(Tensor, layer.bias))
        self.layers, self.last = nn.ModuleList(weight_norm(layer) for layer in layers), weight_norm(last)

    def forward(self, x: Tensor) -> Judgement:
        maps: list[Tensor] = []
        for layer in self.layers:
            x = F.leaky_relu(layer(channels_last(x)), _SLOPE)
            maps.append(x)
        return Judgement(self.last(x), maps)


class PeriodDiscriminator(nn.Module):
    """It reads every `period`-th sample in a column of its own: [B, S] -> Judgement."""

    def __init__(self, period: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.period = period
        pairs = zip((1, *widths), widths, strict=False)
        layers = [
            nn.Conv2d(i, o, (5, 1), (3 if n < len(widths) - 1 else 1, 1), (2, 0)) for n, (i, o) in enumerate(pairs)
        ]
        self.stack = _Stack(layers, nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, x: Tensor) -> Judgement:
        x = F.pad(x, (0, -x.shape[-1] % self.period))
        return self.stack(x.unflatten(-1, (-1, self.period))[:, None])


class SpectrumDiscriminator(nn.Module):
    """It reads the real and imaginary part of a short-time spectrum as two channels, with magnitudes to the power of
    0.4, so that quiet bins count: [B, S] -> Judgement."""

    window: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("window", torch.hann_window(size), persistent=False)
        layers = [nn.Conv2d(2, width, (3, 9), padding=(1, 4))]
        layers += [nn.Conv2d(width, width, (3, 9), (1, 2), (d, 4), dilation=(d, 1)) for d in (1, 2, 4)]
        layers.append(nn.Conv2d(width, width, 3, padding=1))
        self.stack = _Stack(layers, nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, x: Tensor) -> Judgement:
        with torch.autocast(x.device.type, enabled=False):
            z = torch.stft(x.float(), self.size, self.size // 4, window=self.window, center=False, return_complex=True)
            # By the window's energy samples of 1 give values of 1.
            z = torch.view_as_real(z) / (0.375 * self.size) ** 0.5
            z = z * (z.square().sum(-1, keepdim=True) + _QUIET).pow(-0.3)
        return self.stack(z.permute(0, 3, 2, 1))


class Discriminators(nn.Module):
    """All of them judge waveforms [B, 1, S] of the level of `speech.LEVEL`."""

    def __init__(self, widths: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            [PeriodDiscriminator(period, widths) for period in _PERIODS]
            + [SpectrumDiscriminator(size, width) for size in _SPECTRA]
        )

    def forward(self, wave: Tensor) -> list[Judgement]:
        x = wave[:, 0] / (4 * LEVEL)
        return [part(x) for part in self.parts]


class Verdict(NamedTuple):
    """telling: what the discriminators minimise, 2 where they tell nothing and 0 at best; fooling, likeness: what the
    decoder minimises. All are means over the discriminators."""

    telling: Tensor
    fooling: Tensor
    likeness: Tensor


def verdict(real: list[Judgement], made: list[Judgement]) -> Verdict:
    """Give hinge losses of scores, and L1 distances of hidden layers summed over the layers."""
    telling = fooling = likeness = torch.zeros((), device=real[0].score.device)
    for r, m in zip(real, made, strict=True):
        telling = telling + F.relu(1 - r.score.float()).mean() + F.relu(1 + m.score.float()).mean()
        fooling = fooling + F.relu(1 - m.score.float()).mean()
        apart = [(a.detach().float() - b.float()).abs().mean() for a, b in zip(r.maps, m.maps, strict=True)]
        likeness = likeness + torch.stack(apart).sum()
    n = len(real)
    return Verdict(telling / n, fooling / n, likeness / n)
