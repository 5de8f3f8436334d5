"""Kokoro-82M (StyleTTS 2 with an iSTFT decoder) on batches of equal lengths: nothing here knows a mask.

Contract: `plan` takes tokens int64 [B, T] with pads at both ends, and styles float32 [B, 256], whose first half is for
the sound and whose second half is for the prosody. `say` takes rows whose durations all sum to F frames, and gives
float32 [B, 600 F] at 24 kHz. Inside, a style is [B, 128] and features are [B, T or F, C].
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AlbertConfig, AlbertModel

from training.speech.sound import STYLE, AdaptiveBlock, Decoder

WIDTH = 512
_TOKENS = 178


@dataclass(frozen=True)
class Planned:
    """Utterances before they are sound: prosody [B, T, 640], phonemes [B, T, 512], durations int64 [B, T] in frames of
    25 ms."""

    prosody: Tensor
    phonemes: Tensor
    durations: Tensor


class StyledNorm(nn.Module):
    """Layer norm whose scale and shift come from the style."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(STYLE, 2 * WIDTH)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        scale, shift = self.fc(style)[:, None].chunk(2, dim=2)
        return (1 + scale) * F.layer_norm(x, (WIDTH,)) + shift


def _both_ways(size: int) -> nn.LSTM:
    return nn.LSTM(size, WIDTH // 2, batch_first=True, bidirectional=True)


class DurationEncoder(nn.Module):
    """Three LSTMs with the style beside their input, each followed by a styled norm."""

    def __init__(self) -> None:
        super().__init__()
        self.lstms = nn.ModuleList(part for _ in range(3) for part in (_both_ways(WIDTH + STYLE), StyledNorm()))

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """[B, T, 512] -> [B, T, 640]; the style is part of what comes out."""
        beside = style[:, None].expand(-1, x.shape[1], -1)
        x = torch.cat([x, beside], 2)
        for recurrent, norm in zip(self.lstms[0::2], self.lstms[1::2], strict=True):
            x = torch.cat([norm(recurrent(x)[0], style), beside], 2)
        return x


class Prosody(nn.Module):
    """The durations of phonemes, and the pitch and energy of frames."""

    def __init__(self) -> None:
        super().__init__()
        self.text_encoder = DurationEncoder()
        self.lstm = _both_ways(WIDTH + STYLE)
        self.duration_proj = nn.Linear(WIDTH, 50)
        self.shared = _both_ways(WIDTH + STYLE)
        half = WIDTH // 2
        self.F0, self.N = (
            nn.ModuleList(AdaptiveBlock(a, b, upsample=a > b) for a, b in ((WIDTH, WIDTH), (WIDTH, half), (half, half)))
            for _ in range(2)
        )
        self.F0_proj, self.N_proj = (nn.Conv1d(WIDTH // 2, 1, 1) for _ in range(2))

    def durations(self, x: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """Give what pitch and energy are made from [B, T, 640], and the expected frames of every phoneme [B, T]."""
        inner = self.text_encoder(x, style)
        return inner, self.duration_proj(self.lstm(inner)[0]).sigmoid().sum(2)

    def curves(self, frames: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """Frames [B, F, 640] -> pitch in Hz and energy, [B, 2 F] each."""
        x = self.shared(frames)[0].transpose(1, 2)
        curves: list[Tensor] = []
        for blocks, last in ((self.F0, self.F0_proj), (self.N, self.N_proj)):
            y = x
            for block in blocks:
                y = block(y, style)
            curves.append(last(y)[:, 0])
        return curves[0], curves[1]


class ChannelNorm(nn.Module):
    """Layer norm over the channels of [B, C, T]."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.transpose(1, 2), (WIDTH,), self.gamma, self.beta).transpose(1, 2)


class TextEncoder(nn.Module):
    """How every phoneme sounds among its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_TOKENS, WIDTH)
        self.cnn = nn.ModuleList(
            nn.Sequential(nn.Conv1d(WIDTH, WIDTH, 5, padding=2), ChannelNorm(), nn.LeakyReLU(0.2)) for _ in range(3)
        )
        self.lstm = _both_ways(WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens [B, T] -> [B, T, 512]."""
        x = self.embedding(tokens).transpose(1, 2)
        for layer in self.cnn:
            x = layer(x)
        return self.lstm(x.transpose(1, 2))[0]


class Kokoro(nn.Module):
    """The whole network. Its weights come from training.speech.weights, its dimensions from Kokoro's config.json."""

    def __init__(self) -> None:
        super().__init__()
        shape = AlbertConfig(
            vocab_size=_TOKENS,
            hidden_size=768,
            num_hidden_layers=12,
            num_attention_heads=12,
            intermediate_size=2048,
            hidden_act="gelu_pytorch_tanh",
        )
        self.bert = AlbertModel(shape, add_pooling_layer=False)
        self.bert_encoder = nn.Linear(768, WIDTH)
        self.predictor = Prosody()
        self.text_encoder = TextEncoder()
        self.decoder = Decoder()

    def plan(self, tokens: Tensor, styles: Tensor, speed: Tensor) -> Planned:
        """Plan utterances. speed: float32 [B], 1 as the voice speaks, 2 twice as fast."""
        known = self.bert_encoder(self.bert(tokens).last_hidden_state)
        prosody, frames = self.predictor.durations(known, styles[:, STYLE:])
        durations = (frames / speed[:, None]).round().clamp(min=1).long()
        return Planned(prosody, self.text_encoder(tokens), durations)

    def say(
        self,
        planned: Planned,
        styles: Tensor,
        frames: int,
        noise: float = 1.0,
        contour: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Say what is planned. frames: the sum of every row's durations; noise: of the source, 1 as the network learnt
        it, 0 for none, as the ONNX graph has it; contour: what becomes of the pitch, Hz [B, 2 F]."""
        count, length = planned.durations.shape
        rows = torch.arange(count * length, device=styles.device)
        which = torch.repeat_interleave(rows, planned.durations.flatten(), output_size=count * frames)
        prosody = planned.prosody.flatten(0, 1)[which].view(count, frames, -1)
        phonemes = planned.phonemes.flatten(0, 1)[which].view(count, frames, -1)
        pitch, energy = self.predictor.curves(prosody, styles[:, STYLE:])
        pitch = pitch if contour is None else contour(pitch)
        dtype = self.decoder.asr_res.weight.dtype
        sound = styles[:, :STYLE].to(dtype)
        return self.decoder(phonemes.transpose(1, 2).to(dtype), pitch, energy, sound, noise)
