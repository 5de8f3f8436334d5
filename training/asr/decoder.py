"""The text model: a Qwen3 decoder with tied embeddings. Parameter names are the official checkpoint's
(`thinker.model.*`).
"""

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.config import Regularisation, Shape
from training.qwen3 import Layer, Past, RMSNorm, rotary

ROPE_THETA = 1e6
RMS_EPSILON = 1e-6


class TextModel(nn.Module):
    compiled: Callable[..., Tensor] | None = None  # one layer, compiled for training

    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        s = shape
        self.head_dim = s.head_dim
        self.embed_tokens = nn.Embedding(s.vocab, s.hidden)
        self.layers = nn.ModuleList(
            Layer(s.hidden, s.decoder_ffn, s.heads, s.kv_heads, s.head_dim, RMS_EPSILON, reg.dropout, reg.dropout)
            for _ in range(s.decoder_layers)
        )
        self.norm = RMSNorm(s.hidden, RMS_EPSILON)

    def forward(
        self, x: Tensor, position: Tensor, mask: Tensor | None = None, past: Sequence[Past] | None = None
    ) -> Tensor:
        """Rows x [B, T, hidden] at `position` [B, T] -> normed states [B, T, hidden]. Causal unless `mask` (bool
        [B, 1, T, all]) is given; `past` holds a layer's keys and values so far."""
        cos, sin = rotary(position[:, None], self.head_dim, ROPE_THETA)
        turn = cos.to(x.dtype), sin.to(x.dtype)
        for i, layer in enumerate(self.layers):
            if self.compiled is not None and self.training:
                x = self.compiled(layer, x, turn)
            else:
                x = layer(x, turn, mask, past[i] if past is not None else None)
        return self.norm(x)

    def logits(self, x: Tensor) -> Tensor:
        """Tied output head: [..., hidden] -> [..., vocab]."""
        return F.linear(x, self.embed_tokens.weight)
