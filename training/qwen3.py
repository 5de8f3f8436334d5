"""Blocks of a Qwen3 decoder under the official parameter names: RMS norms, norms of queries and keys, grouped queries,
rotary positions, SwiGLU. Keys and values can be kept between calls.

All planes of the official M-RoPE are equal for audio, text and speech (modeling_qwen3_asr.py), so plain rotary
positions are the same function.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Turn = tuple[Tensor, Tensor]
"""Cosines and sines [..., T, head_dim] of the positions, as `rotary` gives them."""


def narrow(x: Tensor) -> Tensor:
    """Cast x to autocast's type, so that all projections that read x share one cast. The residual stream itself stays
    float32."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def rotary(positions: Tensor, head_dim: int, theta: float) -> Turn:
    """Give the cosines and sines of `positions` [..., T]."""
    inverse = theta ** (-torch.arange(0, head_dim, 2, device=positions.device).float() / head_dim)
    angle = positions.float()[..., None] * inverse
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, turn: Turn) -> Tensor:
    """Turn x [B, H, T, D] by its positions, in split halves as the official `rotate_half` does."""
    cos, sin = turn
    a, b = x.chunk(2, -1)
    return (x * cos + torch.cat([-b, a], -1) * sin).to(x.dtype)


@dataclass
class Past:
    """Keys and values of one layer, [B, kv_heads, S, head_dim]; both are empty at first."""

    keys: Tensor | None = None
    values: Tensor | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 2)
        self.values = values if self.values is None else torch.cat([self.values, values], 2)
        return self.keys, self.values


@dataclass
class Probe:
    """Receives the attention [B, T, T] of head 0 of the layer that it is given to."""

    weights: list[Tensor] = field(default_factory=list[Tensor])


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis, computed in float32."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight.float(), self.eps).to(x.dtype)


class GatedMlp(nn.Module):
    """SwiGLU without bias, [..., d] -> [..., d]."""

    def __init__(self, d: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
        self.down_proj = nn.Linear(inner, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Attention(nn.Module):
    """Attention [B, T, d] -> [B, T, d], which is causal unless a mask is given, bool [B or 1, 1, T, all]. eps: of the
    norms of queries and keys; None for no such norms."""

    def __init__(
        self, d: int, heads: int, kv_heads: int, head_dim: int, eps: float | None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.dropout = heads, kv_heads, head_dim, dropout
        self.q_proj = nn.Linear(d, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(d, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(d, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, d, bias=False)
        self.q_norm, self.k_norm = (nn.Identity() if eps is None else RMSNorm(head_dim, eps) for _ in range(2))

    def forward(
        self, x: Tensor, turn: Turn, mask: Tensor | None, past: Past | None = None, probe: Probe | None = None
    ) -> Tensor:
        b, t, _ = x.shape
        q = rotate(self.q_norm(self.q_proj(x).view(b, t, self.heads, self.head_dim)).transpose(1, 2), turn)
        k = rotate(self.k_norm(self.k_proj(x).view(b, t, self.kv_heads, self.head_dim)).transpose(1, 2), turn)
        v = self.v_proj(x).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
        if past is not None:
            k, v = past.extend(k, v)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        if probe is not None:
            score = (q[:, 0].float() @ k[:, 0].float().transpose(1, 2)) * self.head_dim**-0.5
            ahead = torch.full((t, t), -1e4, device=x.device).triu(1)
            probe.weights.append((score + ahead).softmax(-1))
        # A call with one more position sees everything that came before.
        causal = mask is None and k.shape[2] == t
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class Layer(nn.Module):
    """Attention and MLP, each behind a norm, with dropout on what each adds."""

    def __init__(
        self,
        d: int,
        inner: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        eps: float,
        dropout: float,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.self_attn = Attention(d, heads, kv_heads, head_dim, eps, attention_dropout)
        self.mlp = GatedMlp(d, inner)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(d, eps), RMSNorm(d, eps)
        self.drop = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, turn: Turn, mask: Tensor | None = None, past: Past | None = None, probe: Probe | None = None
    ) -> Tensor:
        x = x + self.drop(self.self_attn(narrow(self.input_layernorm(x)), turn, mask, past, probe))
        return x + self.drop(self.mlp(narrow(self.post_attention_layernorm(x))))
