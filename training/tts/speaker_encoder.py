"""The speaker encoder: what a voice is, heard in a recording of it; ECAPA-TDNN with the official parameter names.

Source of structure: Qwen3TTSSpeakerEncoder (export/tts/speaker_encoder.py), its log-mel included; its blocks are those
of Qwen2.5-Omni, whose own net reads blocks of fewer channels together.
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
