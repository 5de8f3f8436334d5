"""Frames become sound: a decoder at 80 frames a second, then an iSTFT network that is fed with the voice's harmonics,
and the convolutions whose norms follow the style (AdaIN), over [B, C, T].

Samples are 24 kHz float32 in about [-1, 1]; a frame of the durations is SAMPLES of them (25 ms). An instance norm sees
a whole row, so a row must hold one utterance and nothing else, and batches are of equal lengths.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

RATE = 24_000
SAMPLES = 600
# Samples of a pitch value.
_HALF = SAMPLES // 2
_HARMONICS, _SINE, _VOICED = 9, 0.1, 10.0
"""These and the constants below are Kokoro's: harmonics of the source, the loudness of each, the least pitch of a voice
in Hz; bins, window and hop of its iSTFT."""
_BINS, _FFT, _HOP = 11, 20, 5
STYLE = 128
_ROOT = 2**-0.5


def _affine(x: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Give a factor and an addend, [B, C, 1] in float32, that norm every channel of `x` and style it. `x` itself may be
    float16; only its sums are float32, so that it is read and never copied."""
    mean = torch.mean(x, 2, keepdim=True, dtype=torch.float32)
    square = torch.linalg.vector_norm(x, dim=2, keepdim=True, dtype=torch.float32).square() / x.shape[2]
    factor = (1 + scale) * torch.rsqrt((square - mean.square()).clamp(min=0) + 1e-5)
    return factor, shift - factor * mean


def styled(x: Tensor, scale: Tensor, shift: Tensor, slope: float) -> Tensor:
    """Norm, style and apply a leaky ReLU."""
    factor, addend = _affine(x, scale, shift)
    return F.leaky_relu_(torch.addcmul(addend, x, factor), slope).to(x.dtype)


def snaked(x: Tensor, scale: Tensor, shift: Tensor, alpha: Tensor) -> Tensor:
    """Norm, style and give y + sin²(alpha y) / alpha, which is y + 1 / (2 alpha) - cos(2 alpha y) / (2 alpha)."""
    factor, addend = _affine(x, scale, shift)
    twice = 2 * alpha
    wave = torch.addcmul(addend * twice, x, factor * twice).cos_()
    return torch.addcmul(addend + 1 / twice, x, factor).addcmul_(wave, -1 / twice).to(x.dtype)


class Style(nn.Module):
    """Scale and shift of `channels` from the style."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(STYLE, 2 * channels)

    def forward(self, style: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 128] -> two of [B, C, 1], float32."""
        scale, shift = self.fc(style).float()[:, :, None].chunk(2, dim=1)
        return scale, shift


class AdaptiveBlock(nn.Module):
    """A residual block of two convolutions, which doubles the rate where `upsample`."""

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
    """Three residual pairs of convolutions, of which the first is dilated by 1, 3 and 5."""

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


class Source(nn.Module):
    """Sines at the pitch and its multiples where there is a pitch, and noise where there is none, merged into one
    signal."""

    def __init__(self) -> None:
        super().__init__()
        self.l_linear = nn.Linear(_HARMONICS, 1)

    def forward(self, pitch: Tensor, noise: float) -> Tensor:
        """Pitch in Hz [B, P] -> [B, 300 P]. The phase runs linearly from the middle of one pitch value to the middle of
        the next; turns are counted in float64, so that a long row stays in tune."""
        turns = pitch.double().cumsum(1) * (_HALF / RATE)
        step = pitch.roll(-1, 1) * (_HALF / RATE)
        step[:, -1] = 0
        within = (torch.arange(_HALF, device=pitch.device) + 0.5) / _HALF
        phase = (turns % 1).float()[:, :, None] + step.float()[:, :, None] * within
        half = _HALF // 2
        first = (turns[:, :1] % 1).float().expand(-1, half)
        phase = torch.cat([first, phase.flatten(1)[:, :-half]], 1)
        weight, bias = self.l_linear.weight.float()[0], self.l_linear.bias.float()
        sines = torch.zeros_like(phase)
        for k in range(_HARMONICS):
            sines = sines + weight[k] * torch.sin((2 * math.pi * (k + 1)) * phase)
        voiced = (pitch > _VOICED).float().repeat_interleave(_HALF, 1)
        merged = _SINE * sines * voiced + bias
        if noise:
            # Each harmonic has noise of its own; together they are one noise, as loud as their weights' norm.
            level = (voiced * 0.003 + (1 - voiced) * (_SINE / 3)) * weight.norm() * noise
            merged = merged + level * torch.randn_like(merged)
        return torch.tanh(merged)


class Generator(nn.Module):
    """Features of 80 frames a second [B, 512, P] and the source -> samples."""

    def __init__(self) -> None:
        super().__init__()
        self.m_source = Source()
        self.noise_convs = nn.ModuleList([nn.Conv1d(2 * _BINS, 256, 12, 6, padding=3), nn.Conv1d(2 * _BINS, 128, 1)])
        self.noise_res = nn.ModuleList([SnakeBlock(256, 7), SnakeBlock(128, 11)])
        self.ups = nn.ModuleList(
            [nn.ConvTranspose1d(512, 256, 20, 10, padding=5), nn.ConvTranspose1d(256, 128, 12, 6, padding=3)]
        )
        self.resblocks = nn.ModuleList(SnakeBlock(c, k) for c in (256, 128) for k in (3, 7, 11))
        self.conv_post = nn.Conv1d(128, 2 * _BINS, 7, padding=3)

    def forward(self, x: Tensor, style: Tensor, pitch: Tensor, noise: float) -> Tensor:
        window = torch.hann_window(_FFT, device=x.device)
        spectrum = torch.stft(self.m_source(pitch, noise), _FFT, _HOP, window=window, return_complex=True)
        source = torch.cat([spectrum.abs(), spectrum.angle()], 1).to(x.dtype)
        for i in range(2):
            beside = self.noise_res[i](self.noise_convs[i](source), style)
            x = self.ups[i](F.leaky_relu(x, 0.1))
            if i:
                # The first frame is repeated, because the spectrum has one frame more.
                x = torch.cat([x[:, :, 1:2], x], 2)
            x = x + beside
            first, second, third = self.resblocks[3 * i : 3 * i + 3]
            x = (first(x, style) + second(x, style) + third(x, style)) / 3
        x = self.conv_post(F.leaky_relu(x)).float()
        return torch.istft(torch.polar(x[:, :_BINS].exp(), x[:, _BINS:].sin()), _FFT, _HOP, window=window)


class Decoder(nn.Module):
    """How phonemes sound on frames, with pitch and energy -> samples."""

    def __init__(self) -> None:
        super().__init__()
        self.F0_conv, self.N_conv = (nn.Conv1d(1, 1, 3, 2, padding=1) for _ in range(2))
        self.encode = AdaptiveBlock(512 + 2, 1024)
        self.asr_res = nn.Conv1d(512, 64, 1)
        self.decode = nn.ModuleList(
            [*(AdaptiveBlock(1024 + 2 + 64, 1024) for _ in range(3)), AdaptiveBlock(1024 + 2 + 64, 512, upsample=True)]
        )
        self.generator = Generator()

    def forward(self, phonemes: Tensor, pitch: Tensor, energy: Tensor, style: Tensor, noise: float) -> Tensor:
        """[B, 512, F], float32 [B, 2 F] twice, [B, 128] -> [B, 600 F] float32. It is computed in the phonemes' type."""
        dtype = phonemes.dtype
        curves = [self.F0_conv(pitch[:, None].to(dtype)), self.N_conv(energy[:, None].to(dtype))]
        x = self.encode(torch.cat([phonemes, *curves], 1), style)
        beside = self.asr_res(phonemes)
        for block in self.decode:
            x = block(torch.cat([x, beside, *curves], 1), style)
        return self.generator(x, style, pitch, noise)
