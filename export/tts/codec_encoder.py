"""The codec's encoder, for cloning a voice: reference audio → codes.

It is Mimi's (transformers 4.57, models/mimi/modeling_mimi.py): causal convolutions, a causal transformer over the whole
clip, one more convolution of stride 2, residual vector quantisation. A whole-clip graph in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from export.checkpoint import Checkpoint, CheckpointError
from export.dims import Section
from export.encoder import MASKED, Linear
from export.tts.codec_dims import CodecDims, factors, number

Read = Callable[[str], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class CodecEncoderDims:
    """The codec's encoder."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    epsilon: float
    strides: tuple[int, ...]
    """Of the convolutions, in the order of evaluation, without the last one of 2."""
    residual: int
    """Residual blocks before each of them."""
    dilation_growth: int
    books: int
    """Codebooks that are used: one semantic, the rest acoustic."""
    semantic: int


def read_codec_encoder(codec: Checkpoint, dims: CodecDims) -> CodecEncoderDims:
    """Dimensions of the codec's encoder.

    Raises:
        CheckpointError: a key is missing or asks for what is not built here.
    """
    part = Section(codec, "encoder_config", codec.config)
    for key, supported in (
        ("use_causal_conv", True),
        ("use_conv_shortcut", False),
        ("pad_mode", "constant"),
        ("hidden_act", "gelu"),
        ("attention_bias", False),
        ("audio_channels", 1),
    ):
        if part.values.get(key, supported) != supported:
            raise part.error(key, f"{part.values[key]!r} is not supported, only {supported!r}")
    strides = tuple(reversed(factors(part, "upsampling_ratios")))
    if 2 * int(np.prod(strides)) != dims.frame_samples:
        raise part.error(
            "upsampling_ratios", f"make {2 * int(np.prod(strides))} samples a frame, not {dims.frame_samples}"
        )
    query = codec.tensors.get("encoder.encoder_transformer.layers.0.self_attn.q_proj.weight")
    if query is None:
        raise CheckpointError(f"{codec.directory}: the codec's encoder is missing")
    heads = part.integer("num_attention_heads")
    books = codec.config.get("encoder_valid_num_quantizers", dims.codebooks)
    if books != dims.codebooks:
        raise CheckpointError(
            f"{codec.directory}/config.json: encoder_valid_num_quantizers {books} differs from "
            f"the decoder's {dims.codebooks}"
        )
    return CodecEncoderDims(
        width=part.integer("hidden_size"),
        layers=part.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=part.integer("num_key_value_heads"),
        head_dim=query.shape[0] // heads,
        rope_theta=number(part, "rope_theta"),
        epsilon=number(part, "norm_eps"),
        strides=strides,
        residual=part.integer("num_residual_layers"),
        dilation_growth=part.integer("dilation_growth_rate"),
        books=dims.codebooks,
        semantic=part.integer("num_semantic_quantizers"),
    )


def constant(values: NDArray[np.float32]) -> Tensor:
    return nn.Buffer(torch.from_numpy(values.copy()))


class Causal(nn.Module):
    """Convolution over the whole clip, padded on the left so that nothing later is seen.

    The clip's length is a multiple of every stride: no padding on the right. ``hold``: the padding repeats the first
    value.
    """

    def __init__(self, read: Read, name: str, stride: int = 1, dilation: int = 1, *, hold: bool = False) -> None:
        super().__init__()
        self.weight = constant(read(f"{name}.conv.weight"))
        self.bias = None if hold else constant(read(f"{name}.conv.bias"))
        self.stride, self.dilation, self.hold = stride, dilation, hold
        self.padding = (self.weight.shape[2] - 1) * dilation + 1 - stride

    def forward(self, x: Tensor) -> Tensor:
        if self.hold:
            x = torch.cat((x[:, :, :1].expand(-1, -1, self.padding), x), 2)
        elif self.padding:
            x = functional.pad(x, (self.padding, 0))
        return functional.conv1d(x, self.weight, self.bias, self.stride, dilation=self.dilation)


class Residual(nn.Module):
    """ELU, convolution, ELU, convolution of kernel 1, added to the input."""

    def __init__(self, read: Read, name: str, dilation: int) -> None:
        super().__init__()
        self.wide = Causal(read, f"{name}.block.1", dilation=dilation)
        self.point = Causal(read, f"{name}.block.3")

    def forward(self, x: Tensor) -> Tensor:
        return x + self.point(functional.elu(self.wide(functional.elu(x))))


class MimiLayer(nn.Module):
    """Pre-norm transformer layer with LayerNorm, GELU and scaled branches."""

    def __init__(self, dims: CodecEncoderDims, read: Read, name: str) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (
            Linear(read(f"{name}.self_attn.{part}_proj.weight"), None, torch.float32) for part in "qkvo"
        )
        self.up, self.down = (Linear(read(f"{name}.mlp.{part}.weight"), None, torch.float32) for part in ("fc1", "fc2"))
        norms = [f"{name}.{part}" for part in ("input_layernorm", "post_attention_layernorm")]
        self.norm_weights = nn.ParameterList(torch.from_numpy(read(f"{norm}.weight").copy()) for norm in norms)
        self.norm_biases = nn.ParameterList(torch.from_numpy(read(f"{norm}.bias").copy()) for norm in norms)
        self.attention_scale, self.mlp_scale = (
            constant(read(f"{name}.{part}.scale")) for part in ("self_attn_layer_scale", "mlp_layer_scale")
        )
        self.dims = dims

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor) -> Tensor:
        dims = self.dims
        normed = self.norm(x, 0)
        query, key, value = (
            part(normed).unflatten(-1, (-1, dims.head_dim)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        query, key = rotate(query, cos, sin) * dims.head_dim**-0.5, rotate(key, cos, sin)
        if dims.heads != dims.kv_heads:
            groups = dims.heads // dims.kv_heads
            key, value = (each.unsqueeze(2).expand(-1, -1, groups, -1, -1).flatten(1, 2) for each in (key, value))
        shares = torch.softmax(torch.matmul(query, key.transpose(2, 3)) + bias, -1)
        x = x + self.out(torch.matmul(shares, value).transpose(1, 2).flatten(2)) * self.attention_scale
        return x + self.down(functional.gelu(self.up(self.norm(x, 1)))) * self.mlp_scale

    def norm(self, x: Tensor, place: int) -> Tensor:
        weight, bias = self.norm_weights[place], self.norm_biases[place]
        return functional.layer_norm(x, weight.shape, weight, bias, self.dims.epsilon)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE in split halves."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


class Quantizer(nn.Module):
    """rows [B, T, width] → codes [B, T, books]: each the entry nearest to what the ones before leave."""

    def __init__(self, read: Read, name: str, books: int) -> None:
        super().__init__()
        self.project = Linear(read(f"{name}.input_proj.weight")[:, :, 0], None, torch.float32)
        tables = [
            read(f"{name}.layers.{book}.codebook.embed_sum")
            / np.maximum(read(f"{name}.layers.{book}.codebook.cluster_usage"), np.float32(1e-5))[:, None]
            for book in range(books)
        ]
        self.tables = nn.ParameterList(torch.from_numpy(table) for table in tables)

    def forward(self, rows: Tensor) -> Tensor:
        left = self.project(rows)
        codes: list[Tensor] = []
        for table in self.tables:
            # The square of the row itself is the same for every entry.
            code = ((table * table).sum(1) - 2.0 * torch.matmul(left, table.T)).argmin(-1)
            left = left - functional.embedding(code, table)
            codes.append(code)
        return torch.stack(codes, -1)


class CodecEncoder(nn.Module):
    """audio [B, T], T a multiple of the frame's samples → codes int64 [B, frames, books]."""

    def __init__(self, dims: CodecEncoderDims, read: Read) -> None:
        super().__init__()
        layers: list[nn.Module] = [Causal(read, "encoder.encoder.layers.0")]
        for stride in dims.strides:
            for place in range(dims.residual):
                layers.append(Residual(read, f"encoder.encoder.layers.{len(layers)}", dims.dilation_growth**place))
            layers.append(nn.ELU())
            layers.append(Causal(read, f"encoder.encoder.layers.{len(layers)}", stride))
        layers.append(nn.ELU())
        layers.append(Causal(read, f"encoder.encoder.layers.{len(layers)}"))
        self.convolutions = nn.Sequential(*layers)
        self.layers = nn.ModuleList(
            MimiLayer(dims, read, f"encoder.encoder_transformer.layers.{index}") for index in range(dims.layers)
        )
        self.inverse = nn.Buffer(1.0 / dims.rope_theta ** (torch.arange(0, dims.head_dim, 2).float() / dims.head_dim))
        self.halve = Causal(read, "encoder.downsample", 2, hold=True)
        name = "encoder.quantizer.{}_residual_vector_quantizer"
        self.semantic = Quantizer(read, name.format("semantic"), dims.semantic)
        self.acoustic = Quantizer(read, name.format("acoustic"), dims.books - dims.semantic)

    def forward(self, audio: Tensor) -> Tensor:
        x = self.convolutions(audio.unsqueeze(1)).transpose(1, 2)
        position = torch.ones_like(x[:, :, 0]).cumsum(1) - 1.0
        seen = (position.unsqueeze(2) >= position.unsqueeze(1)).float()
        bias = ((seen - 1.0) * MASKED).unsqueeze(1)
        angles = position[:1].unsqueeze(2) * self.inverse
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin, bias)
        rows = self.halve(x.transpose(1, 2)).transpose(1, 2)
        return torch.cat((self.semantic(rows), self.acoustic(rows)), -1)


def build_codec_encoder(codec: Checkpoint, dims: CodecDims) -> CodecEncoder:
    """The codec's encoder with the checkpoint's weights."""
    return CodecEncoder(read_codec_encoder(codec, dims), lambda name: codec.tensors[name].read()).eval()
