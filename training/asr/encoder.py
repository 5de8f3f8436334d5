"""The audio tower: three strided convolutions on each chunk (of 1 s as released), then transformer layers inside
windows of 8 s.

Parameter names are the official checkpoint's (`thinker.audio_tower.*`). The arithmetic follows Qwen3-ASR's
modeling_qwen3_asr.py: its chunking, its positions that restart in each chunk (where a checkpoint has none of its own),
its norms before each block, and the windowed attention of the released configuration (n_window 50, n_window_infer 800).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.config import Regularisation, Shape
from training.qwen3 import narrow


def token_count(frames: Tensor, chunk: int = 100) -> Tensor:
    """Give the encoder tokens of `frames` mel frames (int64, any shape) in chunks of `chunk` frames. A chunk gives an
    eighth of its frames, rounded up, because each of three convolutions halves them."""
    return frames // chunk * (-(-chunk // 8)) + (frames % chunk + 7) // 8


def sinusoids(places: Tensor, width: int) -> Tensor:
    """Give the positions [N, width] of `places` [N], as Qwen3-ASR and Whisper have them: sines, then cosines."""
    inverse = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2).float())
    angle = places[:, None] * inverse[None]
    return torch.cat([angle.sin(), angle.cos()], 1)


class EncoderAttention(nn.Module):
    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout, d = shape.encoder_heads, dropout, shape.d_model
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x [B, T, d]; mask [B, 1, T, T] is added to the scores."""
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0)
        return self.out_proj(y.transpose(1, 2).reshape(b, t, d))


class EncoderLayer(nn.Module):
    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        d = shape.d_model
        self.self_attn = EncoderAttention(shape, reg.dropout)
        self.self_attn_layer_norm, self.final_layer_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.fc1, self.fc2 = nn.Linear(d, shape.encoder_ffn), nn.Linear(shape.encoder_ffn, d)
        self.drop = nn.Dropout(reg.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.drop(self.self_attn(narrow(self.self_attn_layer_norm(x)), mask))
        return x + self.drop(self.fc2(self.drop(F.gelu(self.fc1(narrow(self.final_layer_norm(x)))))))


class Heard(NamedTuple):
    """What the tower makes of mels. T counts the rows of their chunks, rounded up to whole windows where a row of the
    batch is longer than one."""

    states: Tensor  # [B, T, d]: the states after ln_post
    inner: Tensor  # This is the same, from a layer about two thirds up.
    stem: Tensor  # [B, rows of the chunks, d] behind the convolutions, without positions
    followed: Tensor  # [B, T, d] of the layer at which a teacher is followed, not normalised
    count: Tensor  # [B] valid rows


class AudioTower(nn.Module):
    """The tower maps a mel to encoder states, and `project` maps these to the decoder's width."""

    position: Tensor
    compiled: Callable[..., Tensor] | None = (
        None  # This calls one layer as a compiled function, where training made one.
    )

    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        c, d = shape.conv_channels, shape.d_model
        self.chunk, self.chunk_rows = shape.chunk_frames, shape.chunk_rows
        self.window_chunks = shape.window_frames // shape.chunk_frames
        self.inner = shape.encoder_layers * 11 // 16
        self.followed = shape.encoder_layers  # So many layers follow a teacher; those above are free.
        self.conv2d1, self.conv2d2, self.conv2d3 = (nn.Conv2d(n, c, 3, 2, 1) for n in (1, c, c))
        self.conv_out = nn.Linear(c * shape.mel_bins // 8, d, bias=False)
        self.layers = nn.ModuleList(EncoderLayer(shape, reg) for _ in range(shape.encoder_layers))
        self.ln_post, self.proj1, self.proj2 = nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(d, shape.hidden)
        self.register_buffer("position", sinusoids(torch.arange(shape.chunk_rows), d), persistent=False)
        self.positions = nn.Parameter(torch.zeros(shape.window_rows, d)) if shape.placed else None

    def forward(self, mel: Tensor, frames: Tensor) -> Heard:
        """mel [B, bins, k chunks] is zero past `frames` [B]."""
        b, _, t = mel.shape
        chunks, rows = t // self.chunk, self.chunk_rows
        stem = self.conv_out(self.convolved(mel))
        x = stem if self.positions is not None else stem + self.position
        count = token_count(frames, self.chunk)
        windows = -(-chunks // self.window_chunks)
        width = min(chunks, self.window_chunks) * rows
        x = F.pad(x.view(b, chunks * rows, -1), (0, 0, 0, windows * width - chunks * rows))
        x = x.reshape(b * windows, width, -1)
        x = x if self.positions is None else x + self.positions[:width]
        valid = torch.arange(windows * width, device=x.device)[None] < count[:, None]
        mask = torch.zeros(b * windows, 1, 1, width, device=x.device, dtype=x.dtype)
        mask = narrow(mask.masked_fill(~valid.view(b * windows, 1, 1, width), -1e4)).expand(-1, -1, width, -1)
        inner = followed = x
        for i, layer in enumerate(self.layers, 1):
            x = self.compiled(layer, x, mask) if self.compiled is not None and self.training else layer(x, mask)
            inner, followed = (x if i == kept else y for y, kept in ((inner, self.inner), (followed, self.followed)))
        shape = (b, windows * width, -1)
        last, inner = (self.ln_post(y).view(shape) for y in (x, inner))
        return Heard(last, inner, stem.view(b, chunks * rows, -1), followed.view(shape), count)

    def convolved(self, mel: Tensor) -> Tensor:
        """Map mel [B, bins, k chunks] to what the convolutions find in each chunk [B * k, rows, features]."""
        b, m, t = mel.shape
        x = mel.view(b, m, -1, self.chunk).permute(0, 2, 1, 3).reshape(b * (t // self.chunk), 1, m, self.chunk)
        x = x.contiguous(memory_format=torch.channels_last)
        x = F.gelu(self.conv2d3(F.gelu(self.conv2d2(F.gelu(self.conv2d1(x))))))
        return x.permute(0, 3, 1, 2).flatten(2)

    def project(self, x: Tensor) -> Tensor:
        """Map states [B, T, d] to rows for the decoder [B, T, hidden], float32."""
        return self.proj2(F.gelu(self.proj1(x))).float()
