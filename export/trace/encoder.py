"""The audio encoder as three modules for export: Stem, Body and Clip.

The mathematics is that of QwenLM/Qwen3-ASR, modeling_qwen3_asr.py:676-740, with attention within windows. The form is
what DirectML accepts (rules.py): no branch depends on a tensor, sizes come from ``unflatten`` and ``flatten``, masks
are added, positions are a constant, and nothing is cut on the right. Weights are ``[inputs, outputs]``, so that every
product is one MatMul.

In float16 graphs the LayerNorms and the softmax are computed in float32, and the residual is clamped as in the official
code.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from export.checkpoint import Checkpoint
from export.dims import CONVOLUTIONS, EncoderDims
from export.trace.weights import Read, constant, reader
from export.transforms import apply

MASKED = 10000.0
"""By how much the score of a padding row is lowered. It is so much that exp underflows to 0 in float32, and not more
than float16 can hold."""

MAX_TIMESCALE = 10000.0
"""The ratio of the longest to the shortest wavelength of the positions' sines (QwenLM/Qwen3-ASR,
modeling_qwen3_asr.py:579-594)."""


class Linear(nn.Module):
    """``x @ weight (+ bias)``, weight [inputs, outputs]."""

    def __init__(self, weight: NDArray[np.float32], bias: NDArray[np.float32] | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = constant(apply("transpose", weight), dtype)
        self.bias = None if bias is None else constant(bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.matmul(x, self.weight)
        return y if self.bias is None else y + self.bias


class Norm(nn.Module):
    """LayerNorm over the last axis, in float32 whatever the input is."""

    def __init__(self, weight: NDArray[np.float32], bias: NDArray[np.float32], epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.bias = constant(weight), constant(bias)
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x.float(), self.weight.shape, self.weight, self.bias, self.epsilon).to(x.dtype)


class Convolution(nn.Module):
    """A 3 × 3 convolution with stride 2 and padding 1, then GELU by erf."""

    def __init__(self, weight: NDArray[np.float32], bias: NDArray[np.float32], dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias = constant(weight, dtype), constant(bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(functional.conv2d(x, self.weight, self.bias, stride=2, padding=1))


class Stem(nn.Module):
    """mel [N, bins, T ≤ chunk_frames] → rows [N, ⌈T / 8⌉, width], the chunk's own positions added. (Where a checkpoint
    has positions of its own, the body adds them.)

    A chunk that is cut after T frames, T a multiple of 8, gives the same rows as uncut: row r depends on frames up to
    8 r + 7, and so never on the padding at a right edge.
    """

    def __init__(self, dims: EncoderDims, read: Read, dtype: torch.dtype) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            Convolution(read(f"audio_tower.{name}.weight"), read(f"audio_tower.{name}.bias"), dtype)
            for name in CONVOLUTIONS
        )
        self.out = Linear(read("audio_tower.conv_out.weight"), None, dtype)
        table = None if dims.placed else sinusoids(dims.chunk_rows, dims.width).to(dtype)
        self.positions = None if table is None else nn.Buffer(table)

    def forward(self, mel: Tensor) -> Tensor:
        x = mel.unsqueeze(1)
        for convolution in self.convolutions:
            x = convolution(x)
        # [N, channels, bands, rows] → [N, rows, channels · bands]: of the features the channel comes first (:710).
        x = x.permute(0, 3, 1, 2).flatten(2)
        x = self.out(x)
        # The positions are gathered by an index counted along the rows, as DirectML refuses a slice with computed end.
        return x if self.positions is None else x + self.positions[count_along(x[:, :, 0]) - 1]


def sinusoids(rows: int, width: int) -> Tensor:
    """The positions [rows, width], with sines in the first half of the width and cosines in the second. They are those
    of one chunk, and begin anew in each."""
    step = math.log(MAX_TIMESCALE) / (width // 2 - 1)
    angles = torch.arange(rows).float()[:, None] * torch.exp(-step * torch.arange(width // 2).float())[None]
    return torch.cat((angles.sin(), angles.cos()), 1)


class Attention(nn.Module):
    """Self-attention within a window; ``bias`` [W, 1, 1, T] float32 is added to the scores."""

    def __init__(self, dims: EncoderDims, read: Read, prefix: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.heads = (dims.heads, dims.head_dim)
        self.scale = dims.head_dim**-0.5
        self.query, self.key, self.value, self.out = (
            Linear(read(f"{prefix}{name}.weight"), read(f"{prefix}{name}.bias"), dtype)
            for name in ("q_proj", "k_proj", "v_proj", "out_proj")
        )

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        query = self.query(x).unflatten(-1, self.heads).transpose(1, 2)
        key = self.key(x).unflatten(-1, self.heads).permute(0, 2, 3, 1)
        value = self.value(x).unflatten(-1, self.heads).transpose(1, 2)
        scores = torch.matmul(query * self.scale, key).float() + bias
        shares = torch.softmax(scores, -1).to(x.dtype)
        return self.out(torch.matmul(shares, value).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self, dims: EncoderDims, read: Read, prefix: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = (
            Norm(read(f"{prefix}{name}.weight"), read(f"{prefix}{name}.bias"))
            for name in ("self_attn_layer_norm", "final_layer_norm")
        )
        self.attention = Attention(dims, read, f"{prefix}self_attn.", dtype)
        self.up, self.down = (
            Linear(read(f"{prefix}{name}.weight"), read(f"{prefix}{name}.bias"), dtype) for name in ("fc1", "fc2")
        )
        # The official code clamps float16 residuals (:570-572).
        self.limit = torch.finfo(dtype).max - 1000 if dtype == torch.float16 else None

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), bias)
        x = x + self.down(functional.gelu(self.up(self.ffn_norm(x))))
        return x if self.limit is None else x.clamp(-self.limit, self.limit)


class Body(nn.Module):
    """rows [W, T, width], mask [W, T] (1 valid, 0 padding) → embeddings [W, T, output].

    With a CTC head also its log-probabilities ctc [W, T, classes]. Each of the W windows attends within itself only.
    """

    def __init__(self, dims: EncoderDims, read: Read, dtype: torch.dtype) -> None:
        super().__init__()
        self.positions = constant(read("audio_tower.positions"), dtype) if dims.placed else None
        self.layers = nn.ModuleList(
            Layer(dims, read, f"audio_tower.layers.{index}.", dtype) for index in range(dims.layers)
        )
        self.norm = Norm(read("audio_tower.ln_post.weight"), read("audio_tower.ln_post.bias"))
        self.first, self.second = (
            Linear(read(f"audio_tower.{name}.weight"), read(f"audio_tower.{name}.bias"), dtype)
            for name in ("proj1", "proj2")
        )
        self.ctc = None if dims.ctc is None else Linear(read("ctc.weight"), read("ctc.bias"), dtype)

    def forward(self, rows: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        hidden = self.hidden(rows, mask)
        embeddings = self.project(hidden)
        if self.ctc is None:
            return (embeddings,)
        return embeddings, torch.log_softmax(self.ctc(hidden).float(), -1).to(rows.dtype)

    def hidden(self, rows: Tensor, mask: Tensor) -> Tensor:
        if self.positions is not None:  # As an embedding the table keeps its name in the graph.
            rows = rows + functional.embedding(count_along(rows[:, :, 0]) - 1, self.positions)
        bias = (mask.float() - 1.0).unsqueeze(1).unsqueeze(1) * MASKED
        for layer in self.layers:
            rows = layer(rows, bias)
        return self.norm(rows)

    def project(self, hidden: Tensor) -> Tensor:
        return self.second(functional.gelu(self.first(hidden)))


class Clip(nn.Module):
    """mel [B, bins, chunk_frames · C], valid_rows [B] int64 → embeddings [B, chunk_rows · C, output], uncut.

    All chunks go through the stem at once, rows padded to whole windows, [B · W, window_rows, width] through the
    transformer, so that every layer sees one static length, and back. "Back" is a gather whose indices are counted
    along the stem's own output: a Reshape to two dynamic axes would need a computed target.
    """

    def __init__(self, dims: EncoderDims, stem: Stem, body: Body) -> None:
        super().__init__()
        self.stem, self.body = stem, body
        self.chunk_frames, self.window_rows = dims.chunk_frames, dims.window_rows
        self.chunks = dims.window_rows // dims.chunk_rows

    def forward(self, mel: Tensor, valid_rows: Tensor) -> Tensor:
        chunks = mel.unflatten(2, (-1, self.chunk_frames)).transpose(1, 2)
        count = chunks.shape[1]
        rows = self.stem(chunks.flatten(0, 1))[places(chunks[:, :, 0, 0])]
        # Pad by chunks to whole windows: (C + 7) // 8 · 8 − C is never negative and needs no branch.
        whole = (count + self.chunks - 1) // self.chunks * self.chunks
        padded = functional.pad(rows, (0, 0, 0, 0, 0, whole - count)).flatten(1, 2)
        mask = (count_along(padded[:, :, 0]) <= valid_rows.unsqueeze(1)).to(mel.dtype)
        windows = padded.unflatten(1, (-1, self.window_rows)).flatten(0, 1)
        hidden = self.body.hidden(windows, mask.unflatten(1, (-1, self.window_rows)).flatten(0, 1))
        embeddings = self.body.project(hidden)
        # Row j of clip b lies at b · (rows of a padded clip) + j.
        offset = places(padded[:, :, 0]).select(1, 0).unsqueeze(1)
        return embeddings.flatten(0, 1)[count_along(rows.flatten(1, 2)[:, :, 0]) - 1 + offset]


def count_along(like: Tensor) -> Tensor:
    """1, 2, 3 … along the last axis, in the shape of ``like`` [B, N]. The shape is taken from a tensor, since DirectML
    cannot build a range of a computed length."""
    return torch.ones_like(like, dtype=torch.int64).cumsum(1)


def places(like: Tensor) -> Tensor:
    """0, 1, 2 … through all of ``like`` [B, N], row after row: the index of each element once B and N are one axis."""
    ordinal = count_along(like)
    row = torch.ones_like(like, dtype=torch.int64).cumsum(0) - 1
    return ordinal - 1 + row * ordinal.select(1, -1).unsqueeze(1)


def build(checkpoint: Checkpoint, dims: EncoderDims, half: bool) -> tuple[Stem, Body]:
    """Stem and body with the checkpoint's weights, in float16 if ``half``."""
    dtype, read = torch.float16 if half else torch.float32, reader(checkpoint)
    with torch.no_grad():
        return Stem(dims, read, dtype).eval(), Body(dims, read, dtype).eval()
