"""Encoder, decoder and phone head together: what codec training optimises. Only the decoder is shipped."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from training.checkpoint import load_weights, save_weights
from training.tts.config import CodecShape
from training.tts.decoder import Decoder
from training.tts.encoder import Encoder
from training.tts.phones import PHONES

ENCODING = re.compile(r"encoder\.|phone_head\.|decoder\.quantizer\.rvq_(first|rest)\.input_proj\.")
"""How the names of the parameters begin that nothing decodes with: they do not ship."""


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
