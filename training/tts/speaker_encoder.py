"""The speaker encoder: what a voice is, heard in a recording of it; ECAPA-TDNN with the official parameter names.

Source of structure: Qwen3TTSSpeakerEncoder (export/tts/speaker_encoder.py), its log-mel included.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audio.mel_filters import mel_filters
from training.tts.config import RATE, SpeakerShape
from training.tts.spectra import Mel

N_FFT, HOP = 1024, 256
_FLOOR = 1e-5  # of a mel magnitude
_ROOM = RATE // 2  # samples of an echo
_USUAL, _SPREAD = -5.0, 3.0  # mean and deviation of the log-mel of speech, roughly


class LogMel(Mel):
    """Waveforms [B, S] at 24 kHz -> natural log of mel magnitudes float32 [B, S // 256, bins]."""

    def __init__(self, bins: int) -> None:
        super().__init__(torch.from_numpy(mel_filters(bins, RATE, N_FFT)), HOP, "reflect")

    def forward(self, wave: Tensor) -> Tensor:
        return super().forward(wave).clamp(min=_FLOOR).log().transpose(1, 2)


def narrowed(mels: Tensor, share: float) -> Tensor:
    """Log-mels [B, T, bins], a share of them without what lies above a random bin, as telephones and files leave it."""
    rows, bins = mels.shape[0], mels.shape[2]
    top = torch.randint(bins * 5 // 8, bins, (rows, 1, 1), device=mels.device)
    cut = (torch.rand(rows, 1, 1, device=mels.device) < share) & (torch.arange(bins, device=mels.device) >= top)
    return mels.masked_fill(cut, math.log(_FLOOR))


class Tdnn(nn.Module):
    """Convolution of the same length, reflected at both ends, then ReLU."""

    def __init__(self, i: int, o: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(i, o, kernel, dilation=dilation, padding="same", padding_mode="reflect")

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))


class Res2Net(nn.Module):
    """A chain of convolutions over groups of channels."""

    def __init__(self, channels: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        part = channels // scale
        self.blocks = nn.ModuleList(Tdnn(part, part, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        first, *others = x.chunk(len(self.blocks) + 1, 1)
        parts = [first]
        for place, (other, block) in enumerate(zip(others, self.blocks, strict=True)):
            parts.append(block(other if place == 0 else other + parts[-1]))
        return torch.cat(parts, 1)


class SqueezeExcitation(nn.Module):
    """Channels weighted by what the recording's mean says."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(channels, inner, 1), nn.Conv1d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.conv2(F.relu(self.conv1(x.mean(2, keepdim=True)))))


class Block(nn.Module):
    """TDNN, Res2Net, TDNN, squeeze and excitation, added to the input."""

    def __init__(self, shape: SpeakerShape, i: int, o: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.tdnn1, self.tdnn2 = Tdnn(i, o), Tdnn(o, o)
        self.res2net_block = Res2Net(o, shape.enc_res2net_scale, kernel, dilation)
        self.se_block = SqueezeExcitation(o, shape.enc_se_channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))


class Pooling(nn.Module):
    """Mean and deviation over time [B, 2 C, 1], each channel's moments weighted by attention."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.tdnn, self.conv = Tdnn(3 * channels, inner), nn.Conv1d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(2, keepdim=True)
        deviation = (x - mean).square().mean(2, keepdim=True).clamp(min=1e-12).sqrt()
        joined = torch.cat([x, mean.expand_as(x), deviation.expand_as(x)], 1)
        shares = self.conv(torch.tanh(self.tdnn(joined))).float().softmax(2)
        mean = (shares * x).sum(2, keepdim=True)
        deviation = (shares * (x - mean).square()).sum(2, keepdim=True).clamp(min=1e-12).sqrt()
        return torch.cat([mean, deviation], 1)


class SpeakerEncoder(nn.Module):
    """Everything under `speaker_encoder.`: log-mels [B, T, bins] -> what takes the speaker's place [B, hidden]."""

    def __init__(self, shape: SpeakerShape, hidden: int) -> None:
        super().__init__()
        channels, kernels, dilations = shape.enc_channels, shape.enc_kernel_sizes, shape.enc_dilations
        sizes = list(zip(pairwise(channels[:-1]), kernels[1:-1], dilations[1:-1], strict=True))
        first = Tdnn(shape.mel_dim, channels[0], kernels[0], dilations[0])
        self.blocks = nn.ModuleList([first, *(Block(shape, i, o, kernel, d) for (i, o), kernel, d in sizes)])
        self.mfa = Tdnn(sum(channels[1:-1]), channels[-1], kernels[-1], dilations[-1])
        self.asp = Pooling(channels[-1], shape.enc_attention_channels)
        self.fc = nn.Conv1d(2 * channels[-1], hidden, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv1d) and module.bias is not None:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.fc.weight, 0.0, 0.005)
        with torch.no_grad():  # begins as if log-mels had no mean and a deviation of 1
            first.conv.weight /= _SPREAD
            first.conv.bias -= _USUAL * first.conv.weight.sum((1, 2))

    def forward(self, mels: Tensor) -> Tensor:
        x, outputs = mels.transpose(1, 2), list[Tensor]()
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        return self.fc(self.asp(self.mfa(torch.cat(outputs[1:], 1)))).squeeze(2)


def like_recordings(wave: Tensor) -> Tensor:
    """Waveforms [B, S] in rooms, with some hiss, at other levels: whoever is cloned is not in our studio."""

    def drawn(low: float, high: float) -> Tensor:
        return torch.empty(len(wave), 1, device=wave.device).uniform_(low, high)

    at = torch.arange(_ROOM, device=wave.device) / RATE
    echo = torch.randn(len(wave), _ROOM, device=wave.device) * torch.exp(-6.9 * at / drawn(0.05, 0.5))
    echo = echo / echo.norm(dim=1, keepdim=True) * drawn(0.0, 0.6)
    echo[:, 0] = 1.0
    size = wave.shape[1] + _ROOM
    heard = torch.fft.irfft(torch.fft.rfft(wave, size) * torch.fft.rfft(echo, size), size)[:, : wave.shape[1]]
    return (heard + torch.randn_like(wave) * 10 ** drawn(-5.0, -2.3)) * 10 ** drawn(-1.0, 0.3)
