"""The text model: a Qwen3 decoder (RMS norms, q/k norm, grouped queries, rotary positions, SwiGLU, tied embeddings).

Parameter names are the official checkpoint's (`thinker.model.*`). All three position planes of the official M-RoPE are
equal for audio and text (modeling_qwen3_asr.py), so plain rotary positions are the same function.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.config import Regularisation, Shape
from training.asr.encoder import narrow

ROPE_THETA = 1e6
RMS_EPSILON = 1e-6
Cache = list[Tensor]


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight.float(), RMS_EPSILON).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return (x * cos + torch.cat([-b, a], -1) * sin).to(x.dtype)


class DecoderAttention(nn.Module):
    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.shape, self.dropout = shape, dropout
        h, q, kv = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj, self.o_proj = nn.Linear(h, q, bias=False), nn.Linear(q, h, bias=False)
        self.k_proj, self.v_proj = nn.Linear(h, kv, bias=False), nn.Linear(h, kv, bias=False)
        self.q_norm, self.k_norm = RMSNorm(shape.head_dim), RMSNorm(shape.head_dim)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, cache: Cache | None) -> Tensor:
        """x [B, T, hidden]; causal unless `mask` (bool [B, 1, T, all]) is given; `cache` holds keys and values so
        far."""
        b, t, _ = x.shape
        s = self.shape
        q = rotate(self.q_norm(self.q_proj(x).view(b, t, s.heads, s.head_dim)).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(b, t, s.kv_heads, s.head_dim)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(b, t, s.kv_heads, s.head_dim).transpose(1, 2)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        group = s.heads // s.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, dropout_p=dropout)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class GatedMLP(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        h, f = shape.hidden, shape.decoder_ffn
        self.gate_proj, self.up_proj = nn.Linear(h, f, bias=False), nn.Linear(h, f, bias=False)
        self.down_proj = nn.Linear(f, h, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        self.self_attn, self.mlp = DecoderAttention(shape, reg.dropout), GatedMLP(shape)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(shape.hidden), RMSNorm(shape.hidden)
        self.drop = nn.Dropout(reg.dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, cache: Cache | None) -> Tensor:
        x = x + self.drop(self.self_attn(narrow(self.input_layernorm(x)), cos, sin, mask, cache))
        return x + self.drop(self.mlp(narrow(self.post_attention_layernorm(x))))


class TextModel(nn.Module):
    compiled: Callable[..., Tensor] | None = None  # one layer, compiled for training

    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        self.head_dim = shape.head_dim
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(DecoderLayer(shape, reg) for _ in range(shape.decoder_layers))
        self.norm = RMSNorm(shape.hidden)

    def forward(
        self, x: Tensor, position: Tensor, mask: Tensor | None = None, caches: list[Cache] | None = None
    ) -> Tensor:
        """Rows x [B, T, hidden] at `position` [B, T] -> normed states [B, T, hidden]."""
        inverse = ROPE_THETA ** (-torch.arange(0, self.head_dim, 2, device=x.device).float() / self.head_dim)
        angle = position.float()[..., None] * inverse
        angle = torch.cat([angle, angle], -1)[:, None]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for i, layer in enumerate(self.layers):
            if self.compiled is not None and self.training:
                x = self.compiled(layer, x, cos, sin, None, None)
            else:
                x = layer(x, cos, sin, mask, caches[i] if caches is not None else None)
        return self.norm(x)

    def logits(self, x: Tensor) -> Tensor:
        """Tied output head: [..., hidden] -> [..., vocab]."""
        return F.linear(x, self.embed_tokens.weight)
