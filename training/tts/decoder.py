"""The codec's decoder: codes -> waveform, with the structure and parameter names of Qwen3TTSTokenizerV2Decoder.

It is strictly causal: the first n frames decoded alone equal the first n · 1920 samples of the whole.
"""

import torch
from torch import Tensor, nn
from transformers.models.mimi.modeling_mimi import MimiLayerScale

from training.qwen3 import Attention, GatedMlp, RMSNorm, Turn, narrow, rotary
from training.tts.config import CodecShape
from training.tts.layers import CausalConvNet, CausalTransConvNet, ConvNeXtBlock, SnakeBeta
from training.tts.quantizer import SplitResidualVectorQuantizer


class TransformerLayer(nn.Module):
    """Attention (without norms of queries and keys) and MLP, each behind a norm, both scaled by a learnt factor for
    each channel."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        d, heads, eps = shape.hidden_size, shape.num_attention_heads, shape.rms_norm_eps
        self.self_attn, self.mlp = Attention(d, heads, heads, d // heads, None), GatedMlp(d, shape.intermediate_size)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(d, eps), RMSNorm(d, eps)
        # The scales' size and first value are the shape's hidden_size and layer_scale_initial_scale.
        self.self_attn_layer_scale, self.mlp_layer_scale = MimiLayerScale(shape), MimiLayerScale(shape)

    def forward(self, x: Tensor, turn: Turn, mask: Tensor) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(narrow(self.input_layernorm(x)), turn, mask))
        return x + self.mlp_layer_scale(self.mlp(narrow(self.post_attention_layernorm(x))))


class WindowTransformer(nn.Module):
    """Every frame sees itself and the window before it: [B, T, latent_dim] -> [B, T, latent_dim]."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerLayer(shape) for _ in range(shape.num_hidden_layers))
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


class ResidualUnit(nn.Module):
    """Snake, a dilated convolution of 7, Snake, a convolution of 1, and a residual: [B, C, T] -> [B, C, T]."""

    def __init__(self, dim: int, dilation: int) -> None:
        super().__init__()
        self.act1, self.conv1 = SnakeBeta(dim), CausalConvNet(dim, dim, 7, dilation)
        self.act2, self.conv2 = SnakeBeta(dim), CausalConvNet(dim, dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(self.act2(self.conv1(self.act1(x))))


class DecoderBlock(nn.Module):
    """Upsampling by `rate` while the channels halve, then three residual units."""

    def __init__(self, width: int, rate: int) -> None:
        super().__init__()
        half = width // 2
        units = [ResidualUnit(half, dilation) for dilation in (1, 3, 9)]
        self.block = nn.ModuleList([SnakeBeta(width), CausalTransConvNet(width, half, 2 * rate, rate), *units])

    def forward(self, x: Tensor) -> Tensor:
        for part in self.block:
            x = part(x)
        return x


class Decoder(nn.Module):
    """Maps codes int64 [B, K, T] to a waveform float32 [B, 1, 1920 · T] in [-1, 1]."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        c = shape
        self.pre_transformer = WindowTransformer(c)
        self.quantizer = SplitResidualVectorQuantizer(c.num_quantizers, c.codebook_dim, c.codebook_size)
        self.pre_conv = CausalConvNet(c.codebook_dim, c.latent_dim, 3)
        self.upsample = nn.ModuleList(
            nn.ModuleList([CausalTransConvNet(c.latent_dim, c.latent_dim, r, r), ConvNeXtBlock(c.latent_dim)])
            for r in c.upsampling_ratios
        )
        blocks = [DecoderBlock(c.decoder_dim // 2**i, rate) for i, rate in enumerate(c.upsample_rates)]
        last = c.decoder_dim // 2 ** len(blocks)
        self.decoder = nn.ModuleList(
            [CausalConvNet(c.latent_dim, c.decoder_dim, 7), *blocks, SnakeBeta(last), CausalConvNet(last, 1, 7)]
        )

    def latents(self, quantised: Tensor) -> Tensor:
        """Map the quantised sum [B, codebook_dim, T] to latents [B, latent_dim, T]."""
        return self.pre_transformer(self.pre_conv(quantised).transpose(1, 2)).transpose(1, 2)

    def vocode(self, h: Tensor) -> Tensor:
        """Map latents [B, latent_dim, T] to samples [B, 1, 1920 · T], not clamped. The last convolution needs more than
        eight bits."""
        for pair in self.upsample:
            for part in pair:
                h = part(h)
        for part in list(self.decoder)[:-2]:
            h = part(h)
        with torch.autocast(h.device.type, enabled=False):
            return self.decoder[-1](self.decoder[-2](h.float()))

    def forward(self, codes: Tensor) -> Tensor:
        return self.vocode(self.latents(self.quantizer.decode(codes))).clamp(-1, 1)
