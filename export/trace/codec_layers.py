"""The codec decoder's layers: convolutions that carry their past, activations, norms.

A convolution's left context is a tail of the state, which Tails hands out in the order of evaluation.

ONNX Runtime splits the sums of a convolution with few outputs into parts, whose length depends on the number of
outputs, so calls of another length would sum in another order. A product with a constant matrix sums every row alike.
So convolutions with few steps a frame are written as such products, and in float16, which is for graphics cards, all
whose channels mix: cuDNN finds no algorithm for some of those that are dilated (96 channels in float16 on an H200).
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from export.trace.encoder import Linear
from export.trace.weights import Read, constant
from export.transforms import apply
from export.tts.codec_dims import CodecDims

FEW = 64
"""Up to how many steps a frame a convolution is written as a product. With more, its sums are split alike whatever the
length of the call."""


class Tails:
    """The convolutions' tails in one call. It hands out those of the last call in the order of evaluation and collects
    the next ones.

    ``frames`` [B] int64 tells how many frames of this call are valid.
    """

    def __init__(self, past: Sequence[Tensor], frames: Tensor) -> None:
        self.past: Iterator[Tensor] = iter(past)
        self.frames = frames.unsqueeze(1).unsqueeze(1)
        self.next: list[Tensor] = []

    def prepend(self, x: Tensor, steps: int) -> Tensor:
        """Prepend its tail to x [B, C, N · steps] and collect the next tail, which ends with the last valid frame."""
        past = next(self.past)
        joined = torch.cat((past, x), 2)
        length = past.shape[2]
        places = (self.frames * steps + torch.arange(length)).clamp(max=joined.shape[2] - 1)
        self.next.append(joined.gather(2, places.expand(-1, past.shape[1], -1)))
        return joined


def windows(x: Tensor, offsets: Tensor) -> Tensor:
    """Indices [T · offsets]: for each of the T places of x [B, T], those that lie ``offsets`` further."""
    place = torch.ones_like(x[0], dtype=torch.int64).cumsum(0) - 1
    return (place.unsqueeze(1) + offsets).flatten()


class Taps(nn.Module):
    """x [B, C, past + T] → [B, T, outputs]: a convolution as a product. The inputs of a kernel, ``dilation`` apart, are
    laid side by side and multiplied by ``weight`` [kernel · C, outputs].

    The buffer's name, ``taps``, tells export/trace/storage.py that the matrix was a convolution.
    """

    def __init__(self, weight: NDArray[np.float32], kernel: int, dtype: torch.dtype, dilation: int = 1) -> None:
        super().__init__()
        self.kernel = kernel
        self.taps = constant(weight, dtype)
        self.offsets = torch.arange(self.kernel) * dilation
        self.past = (self.kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        rows = x.transpose(1, 2)
        if self.past:
            places = windows(x[:, 0, self.past :], self.offsets)
            rows = rows.index_select(1, places).unflatten(1, (-1, self.kernel)).flatten(2)
        return torch.matmul(rows, self.taps)


def as_product(steps: int, dtype: torch.dtype) -> bool:
    """Whether a convolution with so many steps a frame is written as a product."""
    return steps <= FEW or dtype == torch.float16


class Convolution(nn.Module):
    """A causal convolution with ``steps`` outputs a frame. Its left context is a tail of the state, of which a kernel
    of 1 needs none."""

    def __init__(
        self, read: Read, prefix: str, dtype: torch.dtype, steps: int, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        weight = read(f"{prefix}conv.weight")
        self.kernel, self.steps, self.dilation, self.groups = weight.shape[2], steps, dilation, groups
        self.product: Taps | None = None
        if as_product(steps, dtype) and groups == 1:
            self.product = Taps(apply("taps", weight), self.kernel, dtype, dilation)
        else:
            self.weight = constant(weight, dtype)
        self.bias = constant(read(f"{prefix}conv.bias"), dtype)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        if self.kernel > 1:
            x = tails.prepend(x, self.steps)
        if self.product is not None:
            return (self.product(x) + self.bias).transpose(1, 2)
        return functional.conv1d(x, self.weight, self.bias, dilation=self.dilation, groups=self.groups)


class Upsampling(nn.Module):
    """A causal transposed convolution with ``steps`` inputs a frame and a kernel of ``stride`` or 2 · ``stride``,
    written with a second dimension of height 1.

    With a kernel of 2 · stride one input is prepended. The padding then cuts off the first half of what that input
    gives, and the second half of what the last one gives, which belongs to the next frame.
    """

    def __init__(self, read: Read, prefix: str, dtype: torch.dtype, steps: int, stride: int) -> None:
        super().__init__()
        weight = read(f"{prefix}conv.weight")
        self.steps, self.stride, self.padding = steps, stride, weight.shape[2] - stride
        self.product: Taps | None = None
        if as_product(steps, dtype):
            self.product = Taps(apply("rising_taps", weight, stride), weight.shape[2] // stride, dtype)
        else:
            self.weight = constant(apply("flat", weight), dtype)
        self.bias = constant(read(f"{prefix}conv.bias"), dtype)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        if self.padding:
            x = tails.prepend(x, self.steps)
        if self.product is not None:
            return (self.product(x).unflatten(2, (self.stride, -1)).flatten(1, 2) + self.bias).transpose(1, 2)
        stride, padding = (1, self.stride), (0, self.padding)
        return functional.conv_transpose2d(x.unsqueeze(2), self.weight, self.bias, stride, padding).squeeze(2)


class Snake(nn.Module):
    """x + sin²(x · e^alpha) / (e^beta + 1e-9), channel by channel (:602-616)."""

    def __init__(self, read: Read, prefix: str) -> None:
        super().__init__()
        self.frequency = constant(apply("column", apply("frequency", read(f"{prefix}alpha"))))
        self.scale = constant(apply("column", apply("amplitude", read(f"{prefix}beta"))))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        sine = torch.sin(wide * self.frequency)
        return (wide + self.scale * (sine * sine)).to(x.dtype)


class RmsNorm(nn.Module):
    """RMSNorm over the last axis, computed in float32 whatever the input is."""

    def __init__(self, weight: NDArray[np.float32], epsilon: float) -> None:
        super().__init__()
        self.weight, self.epsilon = constant(weight), epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + self.epsilon) * self.weight).to(x.dtype)


class ConvNeXt(nn.Module):
    """A ConvNeXt block: depthwise convolution, LayerNorm and two linear layers, scaled and added to the input."""

    def __init__(self, dims: CodecDims, read: Read, prefix: str, dtype: torch.dtype, steps: int) -> None:
        super().__init__()
        self.depthwise = Convolution(read, f"{prefix}dwconv.", dtype, steps, groups=dims.latent)
        self.weight, self.bias = (constant(read(f"{prefix}norm.{name}")) for name in ("weight", "bias"))
        self.up, self.down = (
            Linear(read(f"{prefix}{name}.weight"), read(f"{prefix}{name}.bias"), dtype)
            for name in ("pwconv1", "pwconv2")
        )
        self.gamma = constant(read(f"{prefix}gamma"), dtype)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        rows = self.depthwise(x, tails).transpose(1, 2)
        normed = functional.layer_norm(rows.float(), self.weight.shape, self.weight, self.bias, 1e-6).to(x.dtype)
        return x + (self.down(functional.gelu(self.up(normed))) * self.gamma).transpose(1, 2)


class Unit(nn.Module):
    """A residual unit of an upsampling block: two convolutions, each after Snake, added to the input."""

    def __init__(self, read: Read, prefix: str, dtype: torch.dtype, steps: int, dilation: int) -> None:
        super().__init__()
        self.snakes = nn.ModuleList(Snake(read, f"{prefix}{name}.") for name in ("act1", "act2"))
        self.wide = Convolution(read, f"{prefix}conv1.", dtype, steps, dilation)
        self.point = Convolution(read, f"{prefix}conv2.", dtype, steps)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        first, second = self.snakes
        return x + self.point(second(self.wide(first(x), tails)), tails)
