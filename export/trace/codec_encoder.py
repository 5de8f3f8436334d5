"""The codec's encoder as a module for export. It turns a recording into codes, for cloning a voice.

It is Mimi's (transformers 4.57, models/mimi/modeling_mimi.py): causal convolutions, a causal transformer over the whole
clip, one more convolution of stride 2, and residual vector quantisation. Its graph takes whole clips, in float32.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from export.checkpoint import Checkpoint
from export.trace.encoder import MASKED, Linear
from export.trace.weights import Read, constant, reader
from export.transforms import apply
from export.tts.cloning_dims import CodecEncoderDims


class Causal(nn.Module):
    """A convolution over the whole clip that is padded on the left, so that no output depends on later inputs.

    The clip's length is a multiple of every stride, so nothing is padded on the right. If ``hold``, the padding repeats
    the first value instead of zeros.
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


class LayerNorm(nn.Module):
    """LayerNorm over the last axis."""

    def __init__(self, read: Read, name: str, epsilon: float) -> None:
        super().__init__()
        self.weight, self.bias = constant(read(f"{name}.weight")), constant(read(f"{name}.bias"))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


class MimiLayer(nn.Module):
    """A pre-norm transformer layer with LayerNorm, GELU and scaled branches."""

    def __init__(self, dims: CodecEncoderDims, read: Read, name: str) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (
            Linear(read(f"{name}.self_attn.{part}_proj.weight"), None, torch.float32) for part in "qkvo"
        )
        self.up, self.down = (Linear(read(f"{name}.mlp.{part}.weight"), None, torch.float32) for part in ("fc1", "fc2"))
        norms = [f"{name}.{part}" for part in ("input_layernorm", "post_attention_layernorm")]
        self.norms = nn.ModuleList(LayerNorm(read, norm, dims.epsilon) for norm in norms)
        self.attention_scale, self.mlp_scale = (
            constant(read(f"{name}.{part}.scale")) for part in ("self_attn_layer_scale", "mlp_layer_scale")
        )
        self.dims = dims

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor) -> Tensor:
        dims = self.dims
        normed = self.norms[0](x)
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
        return x + self.down(functional.gelu(self.up(self.norms[1](x)))) * self.mlp_scale


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE on x [B, H, T, D], whose pairs are the halves of D."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


class Quantizer(nn.Module):
    """rows [B, T, width] → codes [B, T, books]: each is the entry nearest to what the previous codes leave over."""

    def __init__(self, read: Read, name: str, books: int) -> None:
        super().__init__()
        self.project = Linear(apply("matrix", read(f"{name}.input_proj.weight")), None, torch.float32)
        self.books = nn.ModuleList(Book(read, f"{name}.layers.{book}.codebook.") for book in range(books))

    def forward(self, rows: Tensor) -> Tensor:
        left = self.project(rows)
        codes: list[Tensor] = []
        for book in self.books:
            code, entry = book(left)
            left = left - entry
            codes.append(code)
        return torch.stack(codes, -1)


class Book(nn.Module):
    """rows [B, T, width] → the index of the nearest entry [B, T] and the entry itself.

    The table is kept a second time transposed, and its squares beside it, so that the exporter does not compute them
    itself without a recipe.
    """

    def __init__(self, read: Read, prefix: str) -> None:
        super().__init__()
        table = apply("quotient", read(f"{prefix}embed_sum"), read(f"{prefix}cluster_usage"))
        self.table, self.turned = constant(table), constant(apply("transpose", table))
        self.squares = constant(apply("squares", table))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        # The squared distance less the square of the row, which is the same for every entry.
        code = (self.squares - 2.0 * torch.matmul(rows, self.turned)).argmin(-1)
        return code, functional.embedding(code, self.table)


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


def build_codec_encoder(codec: Checkpoint, dims: CodecEncoderDims) -> CodecEncoder:
    """The codec's encoder with the checkpoint's weights."""
    return CodecEncoder(dims, reader(codec)).eval()
