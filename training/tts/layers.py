"""Building blocks with the official parameter names: convolutions and Snake.

Contract: every block that is not asked to be symmetric is strictly causal: an output sample at t depends on inputs up
to t. Convolutions take [B, C, T].
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Snake is compiled in so many forms at most: by type, strides and who learns it is nine in a codec's run (PyTorch's
# limit is 8).
_FORMS = 32


class CausalConvNet(nn.Module):
    """A convolution padded on the left only: [B, i, T] -> [B, o, T].

    It is computed in two dimensions with the channels innermost in memory, because tensor cores want them so and would
    otherwise be handed a transposed copy at every convolution.
    """

    def __init__(self, i: int, o: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(i, o, kernel, dilation=dilation, groups=groups)
        self.dilation, self.groups, self.padding = dilation, groups, (kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        if self.groups > 1:
            return self.conv(F.pad(x, (self.padding, 0)))
        inputs, weight = channels_last(F.pad(x[:, :, None], (self.padding, 0))), self.conv.weight[:, :, None]
        return F.conv2d(inputs, weight, self.conv.bias, dilation=(1, self.dilation))[:, :, 0]


class CausalTransConvNet(nn.Module):
    """A transposed convolution cut on the right: [B, i, T] -> [B, o, T · stride]."""

    def __init__(self, i: int, o: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(i, o, kernel, stride=stride)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        weight, inputs = self.conv.weight[:, :, None], channels_last(x[:, :, None])
        y = F.conv_transpose2d(inputs, weight, self.conv.bias, (1, self.stride))[:, :, 0]
        return y[..., : x.shape[-1] * self.stride]


def channels_last(x: Tensor) -> Tensor:
    """Give x [B, C, H, W] with the channels innermost in memory."""
    return x.contiguous(memory_format=torch.channels_last)


class ConvNeXtBlock(nn.Module):
    """A depthwise convolution of 7, LayerNorm, GELU in `wider` times the width, and a scaled residual: [B, C, T] -> [B,
    C, T]. Where it is not causal it is symmetric."""

    def __init__(self, dim: int, wider: int = 4, *, causal: bool = True) -> None:
        super().__init__()
        self.dwconv = (
            CausalConvNet(dim, dim, 7, groups=dim) if causal else nn.Conv1d(dim, dim, 7, padding=3, groups=dim)
        )
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(dim, wider * dim), nn.Linear(wider * dim, dim)
        # Released models were trained from 1e-6, which a short run would hardly leave.
        self.gamma = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.dwconv(x).transpose(1, 2))
        return x + (self.gamma * self.pwconv2(F.gelu(self.pwconv1(h)))).transpose(1, 2)


def snake(x: Tensor, frequency: Tensor, magnitude: Tensor) -> Tensor:
    """Give x + magnitude · sin²(frequency · x), computed in float32 and returned in the type of x [B, C, T]; the others
    are [1, C, 1]."""
    y = x.float()
    return (y + (y * frequency).sin().square() * magnitude).to(x.dtype)


class SnakeBeta(nn.Module):
    """x + sin²(x · e^alpha) / (e^beta + 1e-9). `function` may be a compiled form of `snake`."""

    function = staticmethod(snake)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        # The exponentials stay outside, because compiled code takes parameters for constant in shape and compiles for
        # each of them.
        frequency = self.alpha.float().exp()[None, :, None]
        magnitude = 1 / (self.beta.float().exp()[None, :, None] + 1e-9)
        return (SnakeBeta.function if self.training else snake)(x, frequency, magnitude)


def compiled_snake(device: torch.device, backend: str | Callable[..., object] = "inductor") -> Callable[..., Tensor]:
    """Give `snake`, compiled in every form in which it is called, and tried on `device`."""
    torch._dynamo.config.recompile_limit = _FORMS  # pyright: ignore
    compiled = torch.compile(snake, dynamic=True, backend=backend)
    for channels in (16, 32):
        x = torch.randn(2, 64 * channels, channels, device=device, dtype=torch.bfloat16, requires_grad=True)
        factor = torch.ones(1, channels, 1, device=device, requires_grad=True)
        compiled(x.transpose(1, 2), factor, factor).float().sum().backward()
    return compiled


def compile_snake(device: torch.device) -> bool:
    """Fuse Snake's element-wise operations on a GPU. Where that does not work the plain function stays and False is
    given."""
    if device.type != "cuda":
        return False
    try:
        SnakeBeta.function = staticmethod(compiled_snake(device))
    except Exception as error:  # A machine without a working compiler still trains.
        print(f"snake is not compiled: {error!r}"[:300], flush=True)
        return False
    return True
