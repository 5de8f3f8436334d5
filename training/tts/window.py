"""The codec's transformer: every frame sees itself and the window before it.

Source: Qwen3TTSTokenizerV2DecoderTransformerModel (no q/k norm, LayerScale on both branches, window 72).
"""

import torch
from torch import Tensor, nn

from training.qwen3 import Attention, GatedMlp, RMSNorm, Turn, narrow, rotary
from training.tts.config import CodecShape


class LayerScale(nn.Module):
    """A learnt factor a channel."""

    def __init__(self, dim: int, initial: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((dim,), initial))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class TransformerLayer(nn.Module):
    """Pre-norm attention and MLP, both scaled."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        d, heads = shape.hidden_size, shape.num_attention_heads
        eps, scale = shape.rms_norm_eps, shape.layer_scale_initial_scale
        self.self_attn, self.mlp = Attention(d, heads, heads, d // heads, None), GatedMlp(d, shape.intermediate_size)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(d, eps), RMSNorm(d, eps)
        self.self_attn_layer_scale, self.mlp_layer_scale = LayerScale(d, scale), LayerScale(d, scale)

    def forward(self, x: Tensor, turn: Turn, mask: Tensor) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(narrow(self.input_layernorm(x)), turn, mask))
        return x + self.mlp_layer_scale(self.mlp(narrow(self.post_attention_layernorm(x))))


class WindowTransformer(nn.Module):
    """[B, T, latent_dim] -> [B, T, latent_dim]."""

    def __init__(self, shape: CodecShape, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerLayer(shape) for _ in range(layers))
        self.norm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.input_proj = nn.Linear(shape.latent_dim, shape.hidden_size)
        self.output_proj = nn.Linear(shape.hidden_size, shape.latent_dim)
        self.window, self.theta = shape.sliding_window, shape.rope_theta
        self.head_dim = shape.hidden_size // shape.num_attention_heads

    def forward(self, x: Tensor) -> Tensor:
        at = torch.arange(x.shape[1], device=x.device)
        seen = (at[None] <= at[:, None]) & (at[None] > at[:, None] - self.window)
        turn = rotary(at, self.head_dim, self.theta)
        h = self.input_proj(x)
        for layer in self.layers:
            h = layer(h, turn, seen[None, None])
        return self.output_proj(self.norm(h))
