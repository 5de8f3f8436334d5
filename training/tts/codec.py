"""Encoder, decoder and phone head together: what codec training optimises. Only the decoder is shipped."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from training.tts.config import CodecShape
from training.tts.decoder import Decoder
from training.tts.encoder import Encoder
from training.tts.phones import PHONES


class Codec(nn.Module):
    """phone_head reads four phone labels a frame from the semantic part: it makes codebook 0 predictable from text."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        self.shape = shape
        self.encoder, self.decoder = Encoder(shape), Decoder(shape)
        self.phone_head = nn.Linear(shape.codebook_dim, 4 * len(PHONES))

    @torch.no_grad()
    def encode(self, wave: Tensor) -> Tensor:
        """Waveform [B, 1, 1920 · T] -> codes int64 [B, K, T]."""
        return self.decoder.quantizer(self.encoder(wave)).codes

    def phone_logits(self, semantic: Tensor) -> Tensor:
        """[B, codebook_dim, T] -> [B, 4 · T, phones]."""
        return self.phone_head(semantic.transpose(1, 2)).view(semantic.shape[0], 4 * semantic.shape[2], -1)


def half(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """float16 on the CPU; a codebook is stored as its entries (usage 1), which float16 holds well."""
    out: dict[str, Tensor] = {}
    for key, value in weights.items():
        if key.endswith("cluster_usage"):
            value = torch.ones_like(value)
        elif key.endswith("embedding_sum"):
            usage = weights[key.removesuffix("embedding_sum") + "cluster_usage"]
            value = value / usage.clamp(min=1e-5)[:, None]
        out[key] = value.detach().to("cpu", torch.float16 if value.is_floating_point() else value.dtype).contiguous()
    return out


def save_codec(codec: Codec, path: Path) -> None:
    """One safetensors file, float16, encoder included; the shape stands in its metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    save_file(half(codec.state_dict()), temporary, {"format": "pt", "shape": json.dumps(asdict(codec.shape))})
    temporary.rename(path)


def load_codec(path: Path) -> Codec:
    """A codec from `save_codec`, of the shape that it was saved with.

    Raises:
        ValueError: it does not fit that shape; says where.
    """
    with safe_open(path, "pt") as file:
        stored = json.loads(file.metadata()["shape"])
    codec = Codec(CodecShape(**{k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}))
    try:
        codec.load_state_dict({k: v.float() for k, v in load_file(path).items()})
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from error
    return codec.eval()
