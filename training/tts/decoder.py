"""The codec's decoder: codes -> waveform, with the structure and parameter names of Qwen3TTSTokenizerV2Decoder.

Strictly causal: the first n frames decoded alone equal the first n · 1920 samples of the whole.
"""

import torch
from torch import Tensor, nn

from training.tts.config import CodecShape
from training.tts.layers import CausalConvNet, CausalTransConvNet, ConvNeXtBlock, SnakeBeta
from training.tts.quantizer import SplitResidualVectorQuantizer
from training.tts.window import WindowTransformer


class ResidualUnit(nn.Module):
    """Snake, dilated k7, Snake, k1, residual: [B, C, T] -> [B, C, T]."""

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
    """codes int64 [B, K, T] -> waveform float32 [B, 1, 1920 · T] in [-1, 1]."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        c = shape
        self.pre_transformer = WindowTransformer(c, c.num_hidden_layers)
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
        """[B, codebook_dim, T] -> [B, latent_dim, T]."""
        return self.pre_transformer(self.pre_conv(quantised).transpose(1, 2)).transpose(1, 2)

    def vocode(self, h: Tensor) -> Tensor:
        """[B, latent_dim, T] -> [B, 1, 1920 · T], not clamped. The last convolution needs more than eight bits."""
        for pair in self.upsample:
            for part in pair:
                h = part(h)
        for part in list(self.decoder)[:-2]:
            h = part(h)
        with torch.autocast(h.device.type, enabled=False):
            return self.decoder[-1](self.decoder[-2](h.float()))

    def forward(self, codes: Tensor) -> Tensor:
        return self.vocode(self.latents(self.quantizer.decode(codes))).clamp(-1, 1)
