"""The network that makes voice prints: CAM++ (Wang et al. 2023), as 3D-Speaker publishes its weights.

Contract: `read` gives the network with weights of that shape. It takes log-mels [N, 80, T], which `Front` makes of
samples, and gives voice prints [N, 192]. `write` makes the graph that streaming/speakers.py runs: samples [N, 24000] at
16 kHz give prints of length 1. Its convolutions multiply bytes.
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from training.shards import RATE

WIDTH = 192
SAMPLES = RATE * 3 // 2
_BINS, _FRAME, _HOP, _TRANSFORM = 80, 400, 160, 512
# The layers of each dense block, and how far apart in time are the rows that a layer sees.
_BLOCKS = ((12, 1), (24, 2), (16, 2))
_GROWTH, _NECK, _BEGIN = 32, 128, 128
# The loudness to which speech is brought, as the root of the mean square: the mels have a floor.
_LOUD = 0.06
# Frames whose mean tells a layer what is said around them.
_AROUND = 100


class Front(nn.Module):
    """Samples to the log-mels that Kaldi makes, less their mean over time. Taking the mean off a frame, the
    pre-emphasis, the window and the transform are linear, so they are one convolution."""

    def __init__(self) -> None:
        super().__init__()
        whole = np.eye(_FRAME) - 1 / _FRAME
        sharp = whole.copy()
        sharp[1:] -= 0.97 * whole[:-1]
        sharp[0] *= 1 - 0.97
        window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FRAME) / (_FRAME - 1))) ** 0.85
        angle = 2 * np.pi * np.outer(np.arange(_TRANSFORM // 2 + 1), np.arange(_FRAME)) / _TRANSFORM
        waves = np.concatenate([np.cos(angle), np.sin(angle)]) @ (window[:, None] * sharp)
        self.waves = nn.Parameter(torch.from_numpy(waves.astype(np.float32))[:, None], requires_grad=False)
        self.filters = nn.Parameter(torch.from_numpy(_filters())[:, :, None], requires_grad=False)

    def forward(self, samples: Tensor) -> Tensor:
        """Samples [N, n] give log-mels [N, 80, T]."""
        waves = F.conv1d(samples[:, None], self.waves, stride=_HOP)
        half = _TRANSFORM // 2 + 1
        power = waves[:, :half].square() + waves[:, half:].square()
        mels = torch.log(F.conv1d(power, self.filters).clamp(min=1.1921e-7))
        return mels - mels.mean(2, keepdim=True)


def _filters() -> NDArray[np.float32]:
    """Give Kaldi's triangles from 20 Hz on, in whose scale they are straight: [80, 257]."""

    def scale(hertz: Any) -> Any:
        return 1127.0 * np.log1p(hertz / 700.0)

    edges = np.linspace(scale(20.0), scale(RATE / 2), _BINS + 2)
    at = scale(np.arange(_TRANSFORM // 2 + 1) * RATE / _TRANSFORM)[None]
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    filters = np.maximum(0.0, np.minimum((at - low) / (middle - low), (high - at) / (high - middle)))
    filters[:, -1] = 0.0
    return filters.astype(np.float32)


class _Residual(nn.Module):
    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, (stride, 1), 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential()
        if stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(width, width, 1, (stride, 1), bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class _Head(nn.Module):
    """Convolutions in time and frequency, which leave an eighth of the bins."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(_Residual(width, 2), _Residual(width, 1))
        self.layer2 = nn.Sequential(_Residual(width, 2), _Residual(width, 1))
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, (2, 1), 1, bias=False), nn.BatchNorm2d(width)
        self.width = width * _BINS // 8

    def forward(self, mels: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(mels[:, None])))
        return F.relu(self.bn2(self.conv2(self.layer2(self.layer1(x))))).flatten(1, 2)


def _normal(width: int) -> nn.Sequential:
    """Give a normalisation in a module of its own, as the weights name it."""
    layer = nn.Sequential()
    layer.add_module("batchnorm", nn.BatchNorm1d(width))
    return layer


class _Linear(nn.Module):
    """A normalisation, then a convolution of one frame."""

    def __init__(self, takes: int, gives: int) -> None:
        super().__init__()
        self.nonlinear, self.linear = _normal(takes), nn.Conv1d(takes, gives, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(F.relu(self.nonlinear(x)))


class _Aware(nn.Module):
    """A convolution whose outputs are weighed by what is said around them."""

    def __init__(self, apart: int) -> None:
        super().__init__()
        self.linear_local = nn.Conv1d(_NECK, _GROWTH, 3, padding=apart, dilation=apart, bias=False)
        self.linear1, self.linear2 = nn.Conv1d(_NECK, _NECK // 2, 1), nn.Conv1d(_NECK // 2, _GROWTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        whole, frames = x.mean(2, keepdim=True), x.shape[2]
        around = whole + whole
        if frames > _AROUND:
            parts = [x[..., at : at + _AROUND] for at in range(0, frames, _AROUND)]
            around = torch.cat([(whole + one.mean(2, keepdim=True)).expand_as(one) for one in parts], 2)
        return self.linear_local(x) * torch.sigmoid(self.linear2(F.relu(self.linear1(around))))


class _Layer(nn.Module):
    def __init__(self, takes: int, apart: int) -> None:
        super().__init__()
        self.nonlinear1, self.linear1 = _normal(takes), nn.Conv1d(takes, _NECK, 1, bias=False)
        self.nonlinear2, self.cam_layer = _normal(_NECK), _Aware(apart)

    def forward(self, x: Tensor) -> Tensor:
        narrow = self.linear1(F.relu(self.nonlinear1(x)))
        return torch.cat([x, self.cam_layer(F.relu(self.nonlinear2(narrow)))], 1)


class _Begin(nn.Module):
    def __init__(self, takes: int) -> None:
        super().__init__()
        self.linear = nn.Conv1d(takes, _BEGIN, 5, stride=2, padding=2, bias=False)
        self.nonlinear = _normal(_BEGIN)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.nonlinear(self.linear(x)))


class _Last(nn.Module):
    def __init__(self, takes: int) -> None:
        super().__init__()
        self.linear = nn.Conv1d(takes, WIDTH, 1, bias=False)
        self.nonlinear = nn.Sequential()
        self.nonlinear.add_module("batchnorm", nn.BatchNorm1d(WIDTH, affine=False))

    def forward(self, x: Tensor) -> Tensor:
        return self.nonlinear(F.linear(x, self.linear.weight[:, :, 0]))


class Encoder(nn.Module):
    """The whole network; its modules are called as in the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.head = _Head()
        self.xvector = nn.Sequential()
        self.xvector.add_module("tdnn", _Begin(self.head.width))
        width = _BEGIN
        for number, (layers, apart) in enumerate(_BLOCKS, 1):
            block = nn.Sequential()
            for i in range(layers):
                block.add_module(f"tdnnd{i + 1}", _Layer(width, apart))
                width += _GROWTH
            self.xvector.add_module(f"block{number}", block)
            self.xvector.add_module(f"transit{number}", _Linear(width, width // 2))
            width //= 2
        self.xvector.add_module("out_nonlinear", _normal(width))
        self.dense = _Last(2 * width)

    def forward(self, mels: Tensor) -> Tensor:
        """Log-mels [N, 80, T] give voice prints [N, 192], of any length."""
        x = F.relu(self.xvector(self.head(mels))).float()
        mean = x.mean(2)
        spread = ((x - mean[..., None]).square().sum(2) / (x.shape[2] - 1)).clamp(min=1e-6).sqrt()
        return self.dense(torch.cat([mean, spread], 1))


def read(path: Path) -> Encoder:
    """Read weights: those that 3D-Speaker publishes."""
    found: dict[str, Tensor] = torch.load(path, weights_only=True, map_location="cpu")
    network = Encoder()
    network.load_state_dict({name.replace("xvector.dense.", "dense."): value.float() for name, value in found.items()})
    return network.eval()


class Whole(nn.Module):
    """Samples, at any loudness, to prints of length 1."""

    def __init__(self, network: Encoder) -> None:
        super().__init__()
        self.front, self.network = Front(), network

    def forward(self, samples: Tensor) -> Tensor:
        """Samples [N, n] give voice prints [N, 192]."""
        loud = samples.square().mean(1, keepdim=True).sqrt()
        return F.normalize(self.network(self.front(samples * (_LOUD / (loud + 1e-6)))), dim=1)


def write(network: Encoder, crops: Iterable[NDArray[np.float32]], out: Path) -> None:
    """Write the graph to `out`. The range of every convolution's input is that of `crops`, float32 [SAMPLES] each.
    Weights have 7 bits, so that processors which add pairs of products in 16 bits do not overflow."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Crops(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(crops)

        def get_next(self) -> Any:
            crop = next(self.left, None)
            return None if crop is None else {"samples": crop[None]}

    program = torch.onnx.export(
        Whole(network).eval(),
        (torch.randn(2, SAMPLES),),
        input_names=["samples"],
        output_names=["prints"],
        dynamic_shapes=({0: torch.export.Dim("n")},),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    with TemporaryDirectory() as folder:
        plain, ready, bytes_ = (Path(folder) / f"{name}.onnx" for name in ("plain", "ready", "bytes"))
        onnx.save(program.model_proto, str(plain))
        quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
        convolutions = [node.name for node in onnx.load(str(ready)).graph.node if node.op_type == "Conv"]
        quantize_static(
            str(ready),
            str(bytes_),
            Crops(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            # The front's two: a quiet band would drown in the error of bytes.
            nodes_to_exclude=convolutions[:2],
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
        )
        graph = onnx.load(str(bytes_))
    for node in graph.graph.node:
        del node.metadata_props[:]
        node.ClearField("doc_string")
    del graph.graph.value_info[:]
    del graph.metadata_props[:]
    onnx.save(graph, str(out))
