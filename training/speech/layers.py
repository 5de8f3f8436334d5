"""Convolutions whose norms follow the style (AdaIN), over [B, C, T].

An instance norm sees a whole row, so a row must hold one utterance and nothing else: batches are of equal lengths.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_STYLE = 128
_ROOT = 2**-0.5


def _affine(x: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Factor and addend, [B, C, 1] in float32, that norm every channel of `x` and style it. `x` itself may be float16:
    only its sums are float32, so that it is read and never copied."""
    mean = torch.mean(x, 2, keepdim=True, dtype=torch.float32)
    square = torch.linalg.vector_norm(x, dim=2, keepdim=True, dtype=torch.float32).square() / x.shape[2]
    factor = (1 + scale) * torch.rsqrt((square - mean.square()).clamp(min=0) + 1e-5)
    return factor, shift - factor * mean


def styled(x: Tensor, scale: Tensor, shift: Tensor, slope: float) -> Tensor:
    """Norm, style and leaky ReLU."""
    factor, addend = _affine(x, scale, shift)
    return F.leaky_relu_(torch.addcmul(addend, x, factor), slope).to(x.dtype)


def snaked(x: Tensor, scale: Tensor, shift: Tensor, alpha: Tensor) -> Tensor:
    """Norm, style and y + sin²(alpha y) / alpha, which is y + 1 / (2 alpha) - cos(2 alpha y) / (2 alpha)."""
    factor, addend = _affine(x, scale, shift)
    twice = 2 * alpha
    wave = torch.addcmul(addend * twice, x, factor * twice).cos_()
    return torch.addcmul(addend + 1 / twice, x, factor).addcmul_(wave, -1 / twice).to(x.dtype)


class Style(nn.Module):
    """Scale and shift of `channels` from the style."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(_STYLE, 2 * channels)

    def forward(self, style: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 128] -> two of [B, C, 1], float32."""
        scale, shift = self.fc(style).float()[:, :, None].chunk(2, dim=1)
        return scale, shift


class AdaptiveBlock(nn.Module):
    """A residual block of two convolutions, with twice the rate where `upsample`."""

    def __init__(self, channels: int, out: int, *, upsample: bool = False) -> None:
        super().__init__()
        self.upsample = upsample
        self.norm1, self.norm2 = Style(channels), Style(out)
        self.conv1, self.conv2 = nn.Conv1d(channels, out, 3, padding=1), nn.Conv1d(out, out, 3, padding=1)
        if upsample:
            self.pool = nn.ConvTranspose1d(channels, channels, 3, 2, padding=1, output_padding=1, groups=channels)
        if channels != out:
            self.conv1x1 = nn.Conv1d(channels, out, 1, bias=False)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        y = styled(x, *self.norm1(style), 0.2)
        if self.upsample:
            y = self.pool(y)
            x = x.repeat_interleave(2, dim=2)
        y = self.conv2(styled(self.conv1(y), *self.norm2(style), 0.2))
        if hasattr(self, "conv1x1"):
            x = self.conv1x1(x)
        return (x + y) * _ROOT


class SnakeBlock(nn.Module):
    """Three residual pairs of convolutions, the first of each dilated 1, 3 and 5."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=d * (kernel // 2)) for d in (1, 3, 5)
        )
        self.convs2 = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=kernel // 2) for _ in range(3))
        self.adain1, self.adain2 = (nn.ModuleList(Style(channels) for _ in range(3)) for _ in range(2))
        self.alpha1, self.alpha2 = (
            nn.ParameterList(nn.Parameter(torch.ones(1, channels, 1)) for _ in range(3)) for _ in range(2)
        )

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        for i in range(3):
            y = self.convs1[i](snaked(x, *self.adain1[i](style), self.alpha1[i].float()))
            x = x + self.convs2[i](snaked(y, *self.adain2[i](style), self.alpha2[i].float()))
        return x
