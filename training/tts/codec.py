"""Encoder, decoder and phone head together: what codec training optimises. Only the decoder is shipped, so the encoder
is neither small at run time nor causal.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from training.checkpoint import load_weights, save_weights
from training.tts.config import PHONES, CodecShape
from training.tts.decoder import Decoder
from training.tts.layers import ConvNeXtBlock
from training.tts.spectra import Mel, mel_bank

ENCODING = re.compile(r"encoder\.|phone_head\.|decoder\.quantizer\.rvq_(first|rest)\.input_proj\.")
"""How the names of the parameters begin that nothing decodes with: they do not ship."""
_BANDS = 128
_HOP = 240  # 100 spectra a second; three halvings make 12.5
_FLOOR = 1e-4  # of a mel magnitude, before its logarithm
_CENTRE, _SPREAD = -1.2, 1.0  # of log10 mel magnitudes of speech at the level of `speech.LEVEL`


class Encoder(nn.Module):
    """Waveform [B, 1, 1920 · T] -> [B, codebook_dim, T]. It reads log-mel spectra rather than samples: the codec's loss
    sees magnitudes only, and convolutions at 100 frames a second cost a hundredth of those at 24 kHz.
    """

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        width = shape.encoder_width
        self.spectra = Mel(mel_bank(1024, _BANDS), _HOP, "constant")
        self.stem = nn.Conv1d(_BANDS, width, 5, padding=2)
        stages: list[nn.Module] = []
        for blocks in shape.encoder_blocks[:-1]:
            stages += [ConvNeXtBlock(width, 3, causal=False) for _ in range(blocks)]
            stages.append(nn.Conv1d(width, width, 2, stride=2))
        stages += [ConvNeXtBlock(width, 3, causal=False) for _ in range(shape.encoder_blocks[-1])]
        self.stages = nn.Sequential(*stages)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, shape.codebook_dim)

    def forward(self, wave: Tensor) -> Tensor:
        x = self.stem(((self.spectra(wave[:, 0]) + _FLOOR).log10() - _CENTRE) / _SPREAD)
        return self.head(self.norm(self.stages(x).transpose(1, 2))).transpose(1, 2)


class Codec(nn.Module):
    """phone_head reads four phone labels a frame from the semantic part: it makes codebook 0 predictable from text."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        self.shape = shape
        self.encoder, self.decoder = Encoder(shape), Decoder(shape)
        self.phone_head = nn.Linear(shape.codebook_dim, 4 * PHONES)

    @torch.no_grad()
    def encode(self, wave: Tensor) -> Tensor:
        """Waveform [B, 1, 1920 · T] -> codes int64 [B, K, T]."""
        return self.decoder.quantizer(self.encoder(wave)).codes

    def phone_logits(self, semantic: Tensor) -> Tensor:
        """[B, codebook_dim, T] -> [B, 4 · T, phones]."""
        return self.phone_head(semantic.transpose(1, 2)).view(semantic.shape[0], 4 * semantic.shape[2], -1)


def stored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of which a codebook is its entries (usage 1), which float16 holds well."""
    out = dict(weights)
    for key, usage in weights.items():
        if key.endswith("cluster_usage"):
            sums = key.removesuffix("cluster_usage") + "embedding_sum"
            out[key], out[sums] = torch.ones_like(usage), weights[sums] / usage.clamp(min=1e-5)[:, None]
    return out


def save_codec(codec: Codec, path: Path) -> None:
    """One file, encoder included; the shape stands in its metadata."""
    save_weights(stored(codec.state_dict()), path, shape=json.dumps(asdict(codec.shape)))


def load_codec(path: Path) -> Codec:
    """A codec from `save_codec`, of the shape that it was saved with.

    Raises:
        ValueError: it does not fit that shape; says where.
    """
    with safe_open(path, "pt") as file:
        shape = json.loads(file.metadata()["shape"])
    codec = Codec(CodecShape(**{k: tuple(v) if isinstance(v, list) else v for k, v in shape.items()}))
    try:
        codec.load_state_dict(load_weights(path))
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from error
    return codec.eval()
