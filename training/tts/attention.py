"""Layers of talker and predictor: Qwen3 blocks (q/k norm, grouped heads, SwiGLU), with keys and values kept between
calls.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.tts.layers import GatedMlp, RMSNorm, rotate


@dataclass
class Past:
    """Keys and values of one layer, [B, kv_heads, S, head_dim]; empty at first."""

    keys: Tensor | None = None
    values: Tensor | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 2)
        self.values = values if self.values is None else torch.cat([self.values, values], 2)
        return self.keys, self.values

    def __len__(self) -> int:
        return 0 if self.keys is None else self.keys.shape[2]


@dataclass
class Probe:
    """Receives the attention of head 0, [B, T, T], of the layer it is given to."""

    weights: list[Tensor] = field(default_factory=list)


class Attention(nn.Module):
    """Causal attention [B, T, d] -> [B, T, d]."""

    def __init__(self, d: int, heads: int, kv_heads: int, head_dim: int, theta: float, eps: float) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.theta = heads, kv_heads, head_dim, theta
        self.q_proj = nn.Linear(d, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(d, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(d, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, d, bias=False)
        self.q_norm, self.k_norm = RMSNorm(head_dim, eps), RMSNorm(head_dim, eps)

    def forward(self, x: Tensor, past: Past | None, probe: Probe | None) -> Tensor:
        b, t, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(b, t, self.heads, self.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(b, t, self.kv_heads, self.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
        start = len(past) if past is not None else 0
        at = torch.arange(start, start + t, device=x.device)
        q, k = rotate(q, at, self.theta), rotate(k, at, self.theta)
        if past is not None:
            k, v = past.extend(k, v)
        if self.kv_heads != self.heads:
            k, v = (y.repeat_interleave(self.heads // self.kv_heads, 1) for y in (k, v))
        if probe is not None:
            score = (q[:, 0].float() @ k[:, 0].float().transpose(1, 2)) * self.head_dim**-0.5
            ahead = torch.full((t, t), -1e4, device=x.device).triu(1)
            probe.weights.append((score + ahead).softmax(-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1 and start == 0)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class Layer(nn.Module):
    """Pre-norm attention and MLP with dropout on both branches."""

    def __init__(
        self, d: int, inner: int, heads: int, kv_heads: int, head_dim: int, theta: float, eps: float, dropout: float
    ) -> None:
        super().__init__()
        self.self_attn = Attention(d, heads, kv_heads, head_dim, theta, eps)
        self.mlp = GatedMlp(d, inner)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(d, eps), RMSNorm(d, eps)
        self.dropout = dropout

    def forward(self, x: Tensor, past: Past | None = None, probe: Probe | None = None) -> Tensor:
        x = x + F.dropout(self.self_attn(self.input_layernorm(x), past, probe), self.dropout, self.training)
        return x + F.dropout(self.mlp(self.post_attention_layernorm(x)), self.dropout, self.training)
