"""What tells recorded from decoded waveforms in the last part of codec training: five period and three spectral
discriminators.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

_PERIODS = (2, 3, 5, 7, 11)
_WINDOWS = (2048, 1024, 512)
Judgement = tuple[Tensor, list[Tensor]]  # score map, feature maps


class PeriodDiscriminator(nn.Module):
    """Convolutions over every p-th sample (HiFi-GAN): [B, 1, S] -> judgement."""

    def __init__(self, period: int, channels: tuple[int, ...] = (16, 48, 96, 192, 192)) -> None:
        super().__init__()
        self.period = period
        widths = (1, *channels)
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(widths[i], widths[i + 1], (5, 1), (3 if i + 2 < len(widths) else 1, 1), (2, 0)))
            for i in range(len(channels))
        )
        self.score = weight_norm(nn.Conv2d(channels[-1], 1, (3, 1), 1, (1, 0)))

    def forward(self, x: Tensor) -> Judgement:
        x = F.pad(x, (0, -x.shape[-1] % self.period)).view(x.shape[0], 1, -1, self.period)
        features: list[Tensor] = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
            features.append(x)
        return self.score(x), features


class SpectralDiscriminator(nn.Module):
    """Convolutions over a complex spectrogram whose magnitude is compressed and whose phase is kept: [B, 1, S] ->
    judgement.
    """

    window: Tensor

    def __init__(self, size: int, channels: int = 32) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("window", torch.hann_window(size), persistent=False)
        kernels = [((3, 9), (1, 1)), ((3, 9), (1, 2)), ((3, 9), (1, 2)), ((3, 9), (1, 2)), ((3, 3), (1, 1))]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(channels if i else 2, channels, kernel, stride, (kernel[0] // 2, kernel[1] // 2)))
            for i, (kernel, stride) in enumerate(kernels)
        )
        self.score = weight_norm(nn.Conv2d(channels, 1, (3, 3), 1, 1))

    def forward(self, x: Tensor) -> Judgement:
        with torch.autocast(x.device.type, enabled=False):
            z = torch.stft(x[:, 0].float(), self.size, self.size // 4, window=self.window, return_complex=True)
            plane = torch.view_as_real(z).permute(0, 3, 2, 1)
            # A plain square root has an infinite gradient in an exactly silent bin.
            y = plane / (plane.square().sum(1, keepdim=True) + 1e-8).pow(0.25)
        features: list[Tensor] = []
        for layer in self.layers:
            y = F.leaky_relu(layer(y), 0.1)
            features.append(y)
        return self.score(y), features


class Discriminators(nn.Module):
    """All eight: [B, 1, S] -> eight judgements."""

    def __init__(self) -> None:
        super().__init__()
        periods = [PeriodDiscriminator(p) for p in _PERIODS]
        self.parts = nn.ModuleList([*periods, *(SpectralDiscriminator(n) for n in _WINDOWS)])

    def forward(self, x: Tensor) -> list[Judgement]:
        return [part(x) for part in self.parts]


def discriminator_loss(real: list[Judgement], fake: list[Judgement]) -> Tensor:
    """Least squares: real towards 1, fake towards 0."""
    parts = [(1 - r[0].float()).square().mean() + f[0].float().square().mean() for r, f in zip(real, fake, strict=True)]
    return torch.stack(parts).sum()


def generator_loss(real: list[Judgement], fake: list[Judgement]) -> tuple[Tensor, Tensor]:
    """(adversarial, feature matching): fake towards 1; L1 of the features relative to the real ones' size."""
    adversarial = torch.stack([(1 - f[0].float()).square().mean() for f in fake]).sum()
    distances = [
        F.l1_loss(f.float(), r.float()) / (r.float().abs().mean() + 1e-3)
        for judged_real, judged_fake in zip(real, fake, strict=True)
        for r, f in zip(judged_real[1], judged_fake[1], strict=True)
    ]
    return adversarial, torch.stack(distances).sum() / len(real[0][1])
