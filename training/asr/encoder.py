"""The audio tower: three strided convolutions per chunk (1 s as released), then transformer layers inside windows of
8 s.

Parameter names are the official checkpoint's (`thinker.audio_tower.*`). Source of the arithmetic: Qwen3-ASR
modeling_qwen3_asr.py (chunking, positions that restart in each chunk, pre-LN layers); see the windowed attention of the
released configuration (n_window 50, n_window_infer 800).
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.config import Regularisation, Shape
from training.qwen3 import narrow


def token_count(frames: Tensor, chunk: int = 100) -> Tensor:
    """Encoder tokens of `frames` mel frames (int64, any shape) in chunks of `chunk` frames: an eighth of every chunk,
    rounded up (three halvings)."""
    return frames // chunk * (-(-chunk // 8)) + (frames % chunk + 7) // 8


class EncoderAttention(nn.Module):
    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout, d = shape.encoder_heads, dropout, shape.d_model
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [B, T, d], mask [B, 1, T, T] added to the scores."""
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
        self.drop, self.drop_path = nn.Dropout(reg.dropout), reg.drop_path

    def _keep(self, x: Tensor) -> Tensor:
        """Dropout, then the whole branch dropped for some windows of the batch."""
        x = self.drop(x)
        if not self.training or not self.drop_path:
            return x
        kept = torch.rand(x.shape[0], 1, 1, device=x.device) >= self.drop_path
        return x * (kept / (1 - self.drop_path)).to(x.dtype)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self._keep(self.self_attn(narrow(self.self_attn_layer_norm(x)), mask))
        return x + self._keep(self.fc2(self.drop(F.gelu(self.fc1(narrow(self.final_layer_norm(x)))))))


class AudioTower(nn.Module):
    """mel -> encoder states; `project` then maps them to the decoder's width."""

    position: Tensor
    compiled: Callable[..., Tensor] | None = None  # one layer, compiled for training

    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        c, d = shape.conv_channels, shape.d_model
        self.chunk, self.chunk_rows = shape.chunk_frames, shape.chunk_rows
        self.window_chunks = shape.window_frames // shape.chunk_frames
        self.middle = reg.middle_layer
        self.conv2d1, self.conv2d2, self.conv2d3 = (nn.Conv2d(n, c, 3, 2, 1) for n in (1, c, c))
        self.conv_out = nn.Linear(c * shape.mel_bins // 8, d, bias=False)
        self.layers = nn.ModuleList(EncoderLayer(shape, reg) for _ in range(shape.encoder_layers))
        self.ln_post, self.proj1, self.proj2 = nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(d, shape.hidden)
        self.drop = nn.Dropout(reg.dropout)
        inverse = torch.exp(-math.log(10000) / (d // 2 - 1) * torch.arange(d // 2).float())
        angle = torch.arange(shape.chunk_rows)[:, None] * inverse[None]
        self.register_buffer("position", torch.cat([angle.sin(), angle.cos()], 1), persistent=False)

    def forward(self, mel: Tensor, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """mel [B, 128, k chunks] (zero past `frames` [B]) -> states after ln_post [B, T, d], the same from an inner
        layer, and the number of valid tokens [B]. T is that of k chunks, rounded up to whole windows where the row is
        longer than one."""
        b, m, t = mel.shape
        chunks, rows = t // self.chunk, self.chunk_rows
        x = mel.view(b, m, chunks, self.chunk).permute(0, 2, 1, 3).reshape(b * chunks, 1, m, self.chunk)
        x = x.contiguous(memory_format=torch.channels_last)
        x = F.gelu(self.conv2d3(F.gelu(self.conv2d2(F.gelu(self.conv2d1(x))))))
        x = self.conv_out(x.permute(0, 3, 1, 2).reshape(b * chunks, rows, -1)) + self.position
        count = token_count(frames, self.chunk)
        windows = -(-chunks // self.window_chunks)
        width = min(chunks, self.window_chunks) * rows
        x = F.pad(x.view(b, chunks * rows, -1), (0, 0, 0, windows * width - chunks * rows))
        x = self.drop(x).reshape(b * windows, width, -1)
        valid = torch.arange(windows * width, device=x.device)[None] < count[:, None]
        mask = torch.zeros(b * windows, 1, 1, width, device=x.device, dtype=x.dtype)
        mask = narrow(mask.masked_fill(~valid.view(b * windows, 1, 1, width), -1e4)).expand(-1, -1, width, -1)
        middle = x
        for i, layer in enumerate(self.layers):
            x = self.compiled(layer, x, mask) if self.compiled is not None and self.training else layer(x, mask)
            if i + 1 == self.middle:
                middle = x
        shape = (b, windows * width, -1)
        return self.ln_post(x).view(shape), self.ln_post(middle).view(shape), count

    def project(self, x: Tensor) -> Tensor:
        """States [B, T, d] -> rows for the decoder [B, T, hidden], float32."""
        return self.proj2(F.gelu(self.proj1(x))).float()
