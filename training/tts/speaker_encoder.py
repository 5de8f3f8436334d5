"""The speaker encoder hears in a recording what a voice is: ECAPA-TDNN with the official parameter names.

The structure's source is Qwen3TTSSpeakerEncoder (export/trace/speaker_encoder.py), with its log-mel. Its blocks are
those of Qwen2.5-Omni, whose own net reads blocks of fewer channels together.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import (
    AttentiveStatisticsPooling,
    SqueezeExcitationRes2NetBlock,
    TimeDelayNetBlock,
)

from audio.mel_filters import mel_filters
from training.tts.config import RATE, SpeakerShape
from training.tts.spectra import Mel

N_FFT, HOP = 1024, 256
# No mel magnitude is less; the official encoder has the same floor.
_FLOOR = 1e-5
# An echo has so many samples, half a second.
_ROOM = RATE // 2
# Silence is at most so much of a recording's length; its level is 10 to a power between these.
_SILENCE, _LEVELS = 0.6, (-2.0, 0.4)
# Noise that a codec hears has an amplitude of 10 to a power between these; some frequency between those is the highest.
_NOISES, _TOPS = (-4.0, -1.9), (3500.0, 12_000.0)
# The mean and deviation of the log-mel of speech, roughly.
_USUAL, _SPREAD = -5.0, 3.0


class LogMel(Mel):
    """Maps waveforms [B, S] at 24 kHz to the natural log of mel magnitudes, float32 [B, S // 256, bins]."""

    def __init__(self, bins: int) -> None:
        super().__init__(torch.from_numpy(mel_filters(bins, RATE, N_FFT)), HOP, "reflect")

    def forward(self, wave: Tensor) -> Tensor:
        return super().forward(wave).clamp(min=_FLOOR).log().transpose(1, 2)


def narrowed(mels: Tensor, share: float) -> Tensor:
    """Give log-mels [B, T, bins], a share of which lacks what lies above a random bin, as telephones and files leave
    it."""
    rows, bins = mels.shape[0], mels.shape[2]
    top = torch.randint(bins * 5 // 8, bins, (rows, 1, 1), device=mels.device)
    cut = (torch.rand(rows, 1, 1, device=mels.device) < share) & (torch.arange(bins, device=mels.device) >= top)
    return mels.masked_fill(cut, math.log(_FLOOR))


class SpeakerEncoder(nn.Module):
    """Everything under `speaker_encoder.`: log-mels [B, T, bins] -> what takes the speaker's place [B, hidden]."""

    def __init__(self, shape: SpeakerShape, hidden: int) -> None:
        super().__init__()
        channels, kernels, dilations = shape.enc_channels, shape.enc_kernel_sizes, shape.enc_dilations
        sizes = zip(pairwise(channels[:-1]), kernels[1:-1], dilations[1:-1], strict=True)
        first = TimeDelayNetBlock(shape.mel_dim, channels[0], kernels[0], dilations[0])
        scale, inner = shape.enc_res2net_scale, shape.enc_se_channels
        blocks = (SqueezeExcitationRes2NetBlock(i, o, scale, inner, kernel, d) for (i, o), kernel, d in sizes)
        self.blocks = nn.ModuleList([first, *blocks])
        self.mfa = TimeDelayNetBlock(sum(channels[1:-1]), channels[-1], kernels[-1], dilations[-1])
        self.asp = AttentiveStatisticsPooling(channels[-1], shape.enc_attention_channels)
        self.fc = nn.Conv1d(2 * channels[-1], hidden, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv1d) and module.bias is not None:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.fc.weight, 0.0, 0.005)
        with torch.no_grad():  # The encoder begins as if log-mels had no mean and a deviation of 1.
            first.conv.weight /= _SPREAD
            first.conv.bias -= _USUAL * first.conv.weight.sum((1, 2))

    def forward(self, mels: Tensor) -> Tensor:
        x, outputs = mels.transpose(1, 2), list[Tensor]()
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        return self.fc(self.asp(self.mfa(torch.cat(outputs[1:], 1)))).squeeze(2)


def like_recordings(wave: Tensor) -> Tensor:
    """Give waveforms [B, S] in rooms, with some hiss, at other levels, half of them with silence for a part of their
    length. Whoever is cloned is not in our studio, and neither softness nor a pause is part of a voice."""
    count = wave.shape[1]
    pauses = torch.arange(count, device=wave.device) / count
    begin, size = _drawn(wave, 0.0, 1.0), _drawn(wave, 0.0, _SILENCE) * (_drawn(wave, 0.0, 1.0) < 0.5)
    heard = _in_rooms(wave * ((pauses < begin) | (pauses >= begin + size)), 0.6)
    return (heard + torch.randn_like(wave) * 10 ** _drawn(wave, -5.0, -2.3)) * 10 ** _drawn(wave, *_LEVELS)


def as_recorded(wave: Tensor) -> Tensor:
    """Give waveforms [B, S] in small rooms, with noise of some colour, without what lies above some frequency: at their
    level, and where they were in time."""
    count = wave.shape[1]
    pitch = torch.fft.rfftfreq(count, 1 / RATE, device=wave.device)
    noise = torch.fft.rfft(torch.randn_like(wave)) * (pitch.clamp(min=50) / 1000) ** -_drawn(wave, 0.0, 1.2)
    noise = noise / torch.fft.irfft(noise, count).square().mean(1, keepdim=True).sqrt()
    heard = torch.fft.rfft(_in_rooms(wave, 0.25)) + noise * 10 ** _drawn(wave, *_NOISES)
    # Two in five are of 16 kHz, as most readers' recordings are.
    top = torch.where(_drawn(wave, 0.0, 1.0) < 0.4, 8000.0, _drawn(wave, *_TOPS))
    return torch.fft.irfft(heard * (pitch < top), count)


def _drawn(wave: Tensor, low: float, high: float) -> Tensor:
    return torch.empty(len(wave), 1, device=wave.device).uniform_(low, high)


def _in_rooms(wave: Tensor, most: float) -> Tensor:
    """Give waveforms [B, S] with an echo that has at most so much of the amplitude."""
    count = wave.shape[1]
    at = torch.arange(_ROOM, device=wave.device) / RATE
    echo = torch.randn(len(wave), _ROOM, device=wave.device) * torch.exp(-6.9 * at / _drawn(wave, 0.05, 0.5))
    echo = echo / echo.norm(dim=1, keepdim=True) * _drawn(wave, 0.0, most)
    echo[:, 0] = 1.0
    size = count + _ROOM
    return torch.fft.irfft(torch.fft.rfft(wave, size) * torch.fft.rfft(echo, size), size)[:, :count]
