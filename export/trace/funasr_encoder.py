"""SenseVoice, adaptor and CTC head as one module for export.

The mathematics is that of funasr, models/sense_voice/model.py and models/llm_asr/adaptor.py. The form is what DirectML
accepts (rules.py). The graph is told how many of its rows are valid, and padding rows change nothing of them: a mask is
added to the scores of their keys, the memory block's convolution sees zeros in their place, as after a clip's end, and
every block leaves zeros there. So a clip gives the same rows however long its padding is.

In float16 graphs norms, softmax and positions are computed in float32.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from export.funasr.checkpoint import FunAsrCheckpoint
from export.funasr.dims import AdaptorDims, FunAsrDims, SenseVoiceDims, blocks
from export.trace.encoder import MASKED, MAX_TIMESCALE, Linear, Norm, count_along
from export.trace.weights import Read, constant, reader

ADAPTOR_EPSILON = 1e-12
"""The epsilon of the adaptor's norms (funasr, models/transformer/layer_norm.py). The encoder's norms have the usual
1e-5."""


def linear(read: Read, name: str, dtype: torch.dtype) -> Linear:
    return Linear(read(f"{name}.weight"), read(f"{name}.bias"), dtype)


def norm(read: Read, name: str, epsilon: float = 1e-5) -> Norm:
    return Norm(read(f"{name}.weight"), read(f"{name}.bias"), epsilon)


class Memory(nn.Module):
    """The memory block: a depthwise convolution along the rows, to which the rows are added. Padding rows become
    zeros."""

    def __init__(self, dims: SenseVoiceDims, weight: NDArray[np.float32], dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = constant(weight, dtype)
        left = (dims.kernel - 1) // 2 + dims.shift
        self.edges = (left, dims.kernel - 1 - left)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        rows = rows * mask
        across = functional.pad(rows.transpose(1, 2), self.edges)
        return (functional.conv1d(across, self.weight, groups=len(self.weight)).transpose(1, 2) + rows) * mask


class Attention(nn.Module):
    """The attention of both kinds of blocks; ``bias`` [B, 1, 1, T] float32 is added to the scores."""

    def __init__(self, width: int, heads: int, out: Linear) -> None:
        super().__init__()
        self.heads, self.scale, self.out = (heads, width // heads), (width // heads) ** -0.5, out

    def forward(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        query = query.unflatten(-1, self.heads).transpose(1, 2)
        key = key.unflatten(-1, self.heads).permute(0, 2, 3, 1)
        value = value.unflatten(-1, self.heads).transpose(1, 2)
        scores = torch.matmul(query * self.scale, key).float() + bias
        shares = torch.softmax(scores, -1).to(value.dtype)
        return self.out(torch.matmul(shares, value).transpose(1, 2).flatten(2))


class SanmBlock(nn.Module):
    """A block of the encoder: attention and memory side by side, then the feed-forward net. The encoder's first block
    has another width at its input, and so no residual connection around its attention."""

    def __init__(self, dims: SenseVoiceDims, read: Read, prefix: str, inputs: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.width, self.residual = dims.width, inputs == dims.width
        self.first_norm, self.second_norm = norm(read, f"{prefix}norm1"), norm(read, f"{prefix}norm2")
        self.inputs = linear(read, f"{prefix}self_attn.linear_q_k_v", dtype)
        self.attention = Attention(dims.width, dims.heads, linear(read, f"{prefix}self_attn.linear_out", dtype))
        self.memory = Memory(dims, read(f"{prefix}self_attn.fsmn_block.weight"), dtype)
        self.up = linear(read, f"{prefix}feed_forward.w_1", dtype)
        self.down = linear(read, f"{prefix}feed_forward.w_2", dtype)

    def forward(self, x: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        query, key, value = torch.split(self.inputs(self.first_norm(x)), self.width, -1)
        mixed = self.attention(query, key, value, bias) + self.memory(value, mask)
        x = x + mixed if self.residual else mixed
        return (x + self.down(torch.relu(self.up(self.second_norm(x))))) * mask


class AdaptorBlock(nn.Module):
    """A block of the adaptor: a plain pre-norm transformer layer."""

    def __init__(self, dims: AdaptorDims, read: Read, prefix: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.first_norm, self.second_norm = (
            norm(read, f"{prefix}{name}", ADAPTOR_EPSILON) for name in ("norm1", "norm2")
        )
        self.query, self.key, self.value, out = (
            linear(read, f"{prefix}self_attn.linear_{name}", dtype) for name in ("q", "k", "v", "out")
        )
        self.attention = Attention(dims.width, dims.heads, out)
        self.up, self.down = (linear(read, f"{prefix}feed_forward.{name}", dtype) for name in ("w_1", "w_2"))

    def forward(self, x: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        normed = self.first_norm(x)
        x = x + self.attention(self.query(normed), self.key(normed), self.value(normed), bias)
        return (x + self.down(torch.relu(self.up(self.second_norm(x))))) * mask


class Adaptor(nn.Module):
    """Rows of the encoder [B, T, width] → rows [B, T, the adaptor's width]."""

    def __init__(self, dims: AdaptorDims, read: Read, prefix: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.first, self.second = (linear(read, f"{prefix}{name}", dtype) for name in ("linear1", "linear2"))
        self.blocks = nn.ModuleList(
            AdaptorBlock(dims, read, f"{prefix}blocks.{index}.", dtype) for index in range(dims.layers)
        )

    def forward(self, x: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        x = self.second(torch.relu(self.first(x))) * mask
        for block in self.blocks:
            x = block(x, mask, bias)
        return x


class WholeEncoder(nn.Module):
    """rows [B, T, inputs], valid_rows [B] int64 → embeddings [B, T, width], zeros beyond the valid rows.

    With a CTC head also its log-probabilities ctc [B, T, classes].
    """

    def __init__(self, dims: FunAsrDims, read: Read, dtype: torch.dtype) -> None:
        super().__init__()
        encoder = dims.encoder
        made = [SanmBlock(encoder, read, prefix, inputs, dtype) for prefix, inputs in blocks(encoder)]
        # The first is kept apart from the others, which are equal, so that stack.py can copy them.
        self.first = made[0]
        self.blocks, self.second = nn.ModuleList(made[1 : encoder.layers]), nn.ModuleList(made[encoder.layers :])
        self.norm, self.second_norm = norm(read, "audio_encoder.after_norm"), norm(read, "audio_encoder.tp_norm")
        self.scale = encoder.width**0.5
        half = encoder.inputs / 2
        step = torch.log(torch.tensor([MAX_TIMESCALE])) / (half - 1)
        self.rates = nn.Buffer(torch.exp(torch.arange(half) * -step))
        self.adaptor = Adaptor(dims.adaptor, read, "audio_adaptor.", dtype)
        self.ctc = None if dims.ctc is None else Adaptor(dims.ctc.adaptor, read, "ctc_decoder.", dtype)
        self.head = None if dims.ctc is None else linear(read, "ctc.ctc_lo", dtype)

    def forward(self, rows: Tensor, valid_rows: Tensor) -> tuple[Tensor, ...]:
        ordinal = count_along(rows[:, :, 0])
        valid = (ordinal <= valid_rows.unsqueeze(1)).float()
        mask, bias = valid.unsqueeze(2).to(rows.dtype), (valid - 1.0).unsqueeze(1).unsqueeze(1) * MASKED
        # Positions count from 1, as wide as the input (sense_voice/model.py: SinusoidalPositionEncoder).
        angles = ordinal.float().unsqueeze(2) * self.rates
        x = (rows * self.scale + torch.cat((angles.sin(), angles.cos()), 2).to(rows.dtype)) * mask
        x = self.first(x, mask, bias)
        for block in self.blocks:
            x = block(x, mask, bias)
        x = self.norm(x) * mask
        for block in self.second:
            x = block(x, mask, bias)
        x = self.second_norm(x) * mask
        embeddings = self.adaptor(x, mask, bias)
        if self.ctc is None or self.head is None:
            return (embeddings,)
        return embeddings, torch.log_softmax(self.head(self.ctc(x, mask, bias)).float(), -1).to(rows.dtype)


def build(checkpoint: FunAsrCheckpoint, dims: FunAsrDims, half: bool) -> WholeEncoder:
    """The module with the checkpoint's weights, in float16 if ``half``."""
    with torch.no_grad():
        return WholeEncoder(dims, reader(checkpoint.whole), torch.float16 if half else torch.float32).eval()
