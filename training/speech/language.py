"""What text becomes before there is sound: phonemes in context (ALBERT), their durations, pitch, energy and sound.

Everything runs on batches of equal lengths: nothing here knows a mask. Shapes: tokens int64 [B, T], style
[B, 128], features [B, T or F, C].
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.speech.layers import AdaptiveBlock

STYLE = 128
WIDTH = 512
_TOKENS = 178
_LAYERS, _HEADS = 12, 12


class Albert(nn.Module):
    """One transformer layer used twelve times over the phonemes."""

    def __init__(self) -> None:
        super().__init__()
        width, inner = 768, 2048
        self.word_embeddings = nn.Embedding(_TOKENS, 128)
        self.position_embeddings = nn.Embedding(512, 128)
        self.token_type_embeddings = nn.Embedding(2, 128)
        self.LayerNorm = nn.LayerNorm(128, eps=1e-12)
        self.embedding_hidden_mapping_in = nn.Linear(128, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dense = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.ffn = nn.Linear(width, inner)
        self.ffn_output = nn.Linear(inner, width)
        self.full_layer_layer_norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T, 768]"""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.word_embeddings(tokens) + self.position_embeddings(places) + self.token_type_embeddings.weight[0]
        x = self.embedding_hidden_mapping_in(self.LayerNorm(x))
        for _ in range(_LAYERS):
            q, k, v = (
                part(x).unflatten(2, (_HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
            )
            heard = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = self.attention_norm(x + self.dense(heard))
            inner = F.gelu(self.ffn(x), approximate="tanh")
            x = self.full_layer_layer_norm(x + self.ffn_output(inner))
        return x


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
    """Three LSTMs, each followed by a styled norm, with the style beside their input."""

    def __init__(self) -> None:
        super().__init__()
        self.lstms = nn.ModuleList(part for _ in range(3) for part in (_both_ways(WIDTH + STYLE), StyledNorm()))

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """[B, T, 512] -> [B, T, 640]: the style is part of what comes out."""
        beside = style[:, None].expand(-1, x.shape[1], -1)
        x = torch.cat([x, beside], 2)
        for recurrent, norm in zip(self.lstms[0::2], self.lstms[1::2], strict=True):
            x = torch.cat([norm(recurrent(x)[0], style), beside], 2)
        return x


class Prosody(nn.Module):
    """Durations of phonemes; pitch and energy of frames."""

    def __init__(self) -> None:
        super().__init__()
        self.text_encoder = DurationEncoder()
        self.lstm = _both_ways(WIDTH + STYLE)
        self.duration_proj = nn.Linear(WIDTH, 50)
        self.shared = _both_ways(WIDTH + STYLE)
        self.F0, self.N = (
            nn.ModuleList(
                [
                    AdaptiveBlock(WIDTH, WIDTH),
                    AdaptiveBlock(WIDTH, WIDTH // 2, upsample=True),
                    AdaptiveBlock(WIDTH // 2, WIDTH // 2),
                ]
            )
            for _ in range(2)
        )
        self.F0_proj, self.N_proj = (nn.Conv1d(WIDTH // 2, 1, 1) for _ in range(2))

    def durations(self, x: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """(what pitch and energy are made from [B, T, 640], expected frames of every phoneme [B, T])"""
        inner = self.text_encoder(x, style)
        return inner, self.duration_proj(self.lstm(inner)[0]).sigmoid().sum(2)

    def curves(self, frames: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """Frames [B, F, 640] -> (pitch in Hz, energy), [B, 2 F] each."""
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
        """[B, T, 512]"""
        x = self.embedding(tokens).transpose(1, 2)
        for layer in self.cnn:
            x = layer(x)
        return self.lstm(x.transpose(1, 2))[0]
