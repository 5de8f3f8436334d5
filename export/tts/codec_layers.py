"""The codec decoder's layers: convolutions that carry their past, activations, norms.

A convolution's left context is a tail of the state, handed out by Tails in the order of evaluation.

ONNX Runtime cuts a convolution's sums to pieces whose length follows from the number of outputs while these are few, so
calls of another length would sum in another order. A product with a constant matrix sums every row alike: convolutions
of few steps a frame are such products.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from export.encoder import Linear
from export.tts.codec_dims import CodecDims

FEW = 64
"""Steps a frame up to which a convolution is a product; beyond them its sums are cut alike whatever the call."""

Read = Callable[[str], NDArray[np.float32]]


class Tails:
    """The convolutions' tails of one call: handed out in the order of evaluation, the next ones collected.

    ``frames`` [B] int64: valid frames of this call.
    """

    def __init__(self, past: Sequence[Tensor], frames: Tensor) -> None:
        self.past: Iterator[Tensor] = iter(past)
        self.frames = frames.unsqueeze(1).unsqueeze(1)
        self.next: list[Tensor] = []

    def prepend(self, x: Tensor, steps: int) -> Tensor:
        """x [B, C, N · steps] after its tail; the next tail ends with the last valid frame."""
        past = next(self.past)
        joined = torch.cat((past, x), 2)
        length = past.shape[2]
        places = (self.frames * steps + torch.arange(length)).clamp(max=joined.shape[2] - 1)
        self.next.append(joined.gather(2, places.expand(-1, past.shape[1], -1)))
        return joined


def windows(x: Tensor, offsets: Tensor) -> Tensor:
    """Places [T · offsets]: for each of the T places of x [B, T] those that lie ``offsets`` further."""
    place = torch.ones_like(x[0], dtype=torch.int64).cumsum(0) - 1
    return (place.unsqueeze(1) + offsets).flatten()


class Taps(nn.Module):
    """x [B, C, past + T] → [B, T, outputs]: inputs ``dilation`` apart, side by side, times [kernel · C, outputs].

    ``weight`` [kernel, C, outputs]. Its name tells the exporter that it was a convolution's.
    """

    def __init__(self, weight: NDArray[np.float32], dtype: torch.dtype, dilation: int = 1) -> None:
        super().__init__()
        self.kernel, _, outputs = weight.shape
        self.taps = constant(weight.reshape(-1, outputs), dtype)
        self.offsets = torch.arange(self.kernel) * dilation
        self.past = (self.kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        rows = x.transpose(1, 2)
        if self.past:
            places = windows(x[:, 0, self.past :], self.offsets)
            rows = rows.index_select(1, places).unflatten(1, (-1, self.kernel)).flatten(2)
        return torch.matmul(rows, self.taps)


class Convolution(nn.Module):
    """Causal convolution at ``steps`` a frame whose left context is a tail of the state (none for kernel 1)."""

    def __init__(
        self, read: Read, prefix: str, dtype: torch.dtype, steps: int, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        weight = read(f"{prefix}conv.weight")
        self.kernel, self.steps, self.dilation, self.groups = weight.shape[2], steps, dilation, groups
        self.product: Taps | None = None
        if steps <= FEW and groups == 1:
            self.product = Taps(weight.transpose(2, 1, 0), dtype, dilation)
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
    """Causal transposed convolution from ``steps`` a frame, kernel = stride or 2 · stride; as two-dimensional with
    height 1.

    With kernel 2 · stride one input is prepended; its first half and the last input's second half (which belongs to the
    next frame) are what the padding cuts on either side.
    """

    def __init__(self, read: Read, prefix: str, dtype: torch.dtype, steps: int, stride: int) -> None:
        super().__init__()
        weight = read(f"{prefix}conv.weight")
        self.steps, self.stride, self.padding = steps, stride, weight.shape[2] - stride
        self.product: Taps | None = None
        if steps <= FEW:
            # An output takes its own input by the kernel's first half, the one before it by the second.
            halves = weight.reshape(*weight.shape[:2], -1, stride)[:, :, ::-1]
            self.product = Taps(halves.transpose(2, 0, 3, 1).reshape(halves.shape[2], len(weight), -1), dtype)
        else:
            self.weight = constant(weight[:, :, None], dtype)
        self.bias = constant(read(f"{prefix}conv.bias"), dtype)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        if self.padding:
            x = tails.prepend(x, self.steps)
        if self.product is not None:
            return (self.product(x).unflatten(2, (self.stride, -1)).flatten(1, 2) + self.bias).transpose(1, 2)
        stride, padding = (1, self.stride), (0, self.padding)
        return functional.conv_transpose2d(x.unsqueeze(2), self.weight, self.bias, stride, padding).squeeze(2)


def constant(values: NDArray[np.float32], dtype: torch.dtype) -> Tensor:
    return nn.Buffer(torch.from_numpy(values.copy()).to(dtype))


class Snake(nn.Module):
    """x + sin²(x · e^alpha) / (e^beta + 1e-9), channel by channel (:602-616)."""

    def __init__(self, read: Read, prefix: str) -> None:
        super().__init__()
        alpha, beta = (torch.from_numpy(read(f"{prefix}{name}").copy()).exp() for name in ("alpha", "beta"))
        self.frequency = nn.Buffer(alpha.unsqueeze(1))
        self.scale = nn.Buffer((1.0 / (beta + 1e-9)).unsqueeze(1))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        sine = torch.sin(wide * self.frequency)
        return (wide + self.scale * (sine * sine)).to(x.dtype)


class RmsNorm(nn.Module):
    """In float32 whatever the input is."""

    def __init__(self, weight: NDArray[np.float32], epsilon: float) -> None:
        super().__init__()
        self.weight, self.epsilon = constant(weight, torch.float32), epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + self.epsilon) * self.weight).to(x.dtype)


class ConvNeXt(nn.Module):
    """Depthwise convolution, LayerNorm, two linear layers, scaled and added to the input."""

    def __init__(self, dims: CodecDims, read: Read, prefix: str, dtype: torch.dtype, steps: int) -> None:
        super().__init__()
        self.depthwise = Convolution(read, f"{prefix}dwconv.", dtype, steps, groups=dims.latent)
        self.weight, self.bias = (constant(read(f"{prefix}norm.{name}"), torch.float32) for name in ("weight", "bias"))
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
    """Residual unit of an upsampling block."""

    def __init__(self, read: Read, prefix: str, dtype: torch.dtype, steps: int, dilation: int) -> None:
        super().__init__()
        self.snakes = nn.ModuleList(Snake(read, f"{prefix}{name}.") for name in ("act1", "act2"))
        self.wide = Convolution(read, f"{prefix}conv1.", dtype, steps, dilation)
        self.point = Convolution(read, f"{prefix}conv2.", dtype, steps)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        first, second = self.snakes
        return x + self.point(second(self.wide(first(x), tails)), tails)
