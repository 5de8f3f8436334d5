"""Encoder, decoder and phone head together: what codec training works on. Only the decoder ships, so the encoder is
neither small at run time nor causal."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from training.checkpoint import halved
from training.parts import load_parts, save_parts
from training.tts.config import PHONES, CodecShape
from training.tts.decoder import Decoder
from training.tts.layers import ConvNeXtBlock
from training.tts.spectra import Mel, mel_bank

ENCODING = re.compile(r"encoder\.|phone_head\.|decoder\.quantizer\.rvq_(first|rest)\.input_proj\.")
"""How the names of those parameters begin that nothing decodes with. They do not ship, and only they learn."""
_BANDS = 128
"""Mel bands of what the encoder reads."""
# Samples between two spectra: 100 a second, of which three halvings make 12.5.
_HOP = 240
# It is added to a mel magnitude before its logarithm.
_FLOOR = 1e-4
# Mean and deviation of the log10 mel magnitudes of speech as loud as `speech.LOUDNESS`, by which the spectra are
# normed.
_CENTRE, _SPREAD = -1.2, 1.0


class Encoder(nn.Module):
    """Maps a waveform [B, 1, 1920 · T] to [B, codebook_dim, T]. It reads log-mel spectra and not samples: the codec's
    loss sees magnitudes only, and convolutions at 100 frames a second cost a hundredth of those at 24 kHz."""

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
    """phone_head reads four phone labels a frame from the semantic part, which makes codebook 0 predictable from
    text."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        self.shape = shape
        self.encoder, self.decoder = Encoder(shape), Decoder(shape)
        self.phone_head = nn.Linear(shape.codebook_dim, 4 * PHONES)

    @torch.no_grad()
    def encode(self, wave: Tensor) -> Tensor:
        """Map a waveform [B, 1, 1920 · T] to codes int64 [B, K, T]."""
        return self.decoder.quantizer(self.encoder(wave)).codes

    def phone_logits(self, semantic: Tensor) -> Tensor:
        """Map the semantic part [B, codebook_dim, T] to phone logits [B, 4 · T, phones]."""
        return self.phone_head(semantic.transpose(1, 2)).view(semantic.shape[0], 4 * semantic.shape[2], -1)


def stored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give the weights with each codebook as its entries (usage 1), which float16 holds well."""
    out = dict(weights)
    for key, usage in weights.items():
        if key.endswith("cluster_usage"):
            sums = key.removesuffix("cluster_usage") + "embedding_sum"
            out[key], out[sums] = torch.ones_like(usage), weights[sums] / usage.clamp(min=1e-5)[:, None]
    return out


def save_codec(codec: Codec, folder: Path, **told: Any) -> None:
    """Write a codec in parts, its encoder included. Its shape is told beside them, and what is given."""
    save_parts(folder, halved(stored(codec.state_dict())), {"shape": asdict(codec.shape)} | told)


def load_codec(path: Path) -> Codec:
    """Load a codec that `save_codec` wrote, of the shape that it was saved with.

    Raises:
        ValueError: the weights do not fit that shape; the message says where.
    """
    weights, told = load_parts(path)
    shape: dict[str, Any] = told["shape"]
    codec = Codec(CodecShape(**{k: tuple(v) if isinstance(v, list) else v for k, v in shape.items()}))
    try:
        codec.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from error
    return codec.eval()
