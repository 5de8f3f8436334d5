"""The speaker encoder: pocket-asr-en's convolution stem, and a small network that hears who speaks in its rows.

Contract: `Head` takes rows [N, T, 384] and gives voice prints [N, 128]. `write` makes the graph that
streaming/speakers.py runs: samples [N, 24000] at 16 kHz give voice prints [N, 128] of length 1. Its weights are stored
as float16.
"""

from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import compose, numpy_helper
from torch import Tensor, nn

from training.shards import RATE

WIDTH = 128
SAMPLES = RATE * 3 // 2
FRAMES = 144
_ROW, _FRAME, _HOP = 384, 400, 160
# The loudness to which every window is brought, as the root of the mean square: the stem's mel floor is fixed.
_LOUD = 0.06
# Constants of fewer values stay float32 in the graph: they take no room.
_SMALL = 4096


class Head(nn.Module):
    """Two layers over the rows, whose outputs are gathered by attention into mean and deviation."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.scale = nn.BatchNorm1d(_ROW)
        self.a, self.na = nn.Conv1d(_ROW, width, 1, bias=False), nn.BatchNorm1d(width)
        self.b, self.nb = nn.Conv1d(width, width, 3, padding=1, bias=False), nn.BatchNorm1d(width)
        self.q, self.k = nn.Conv1d(width, 64, 1), nn.Conv1d(64, width, 1)
        self.stats = nn.BatchNorm1d(2 * width + 2 * _ROW)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(2 * width + 2 * _ROW, WIDTH)

    def plain(self, rows: Tensor) -> Tensor:
        """Rows [N, T, 384] give their own mean and deviation over time: [N, 768]."""
        x = self.scale(rows.transpose(1, 2))
        return torch.cat([x.mean(2), (x - x.mean(2, keepdim=True)).square().mean(2).clamp(min=1e-5).sqrt()], 1)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows [N, T, 384] give [N, 128]. The rows' own mean and deviation count too."""
        plain = self.plain(rows)
        x = self.scale(rows.transpose(1, 2))
        x = F.relu(self.na(self.a(x)))
        x = x + F.relu(self.nb(self.b(x)))
        weight = torch.softmax(self.k(torch.tanh(self.q(x))), 2)
        mean = (x * weight).sum(2)
        deviation = ((x * x * weight).sum(2) - mean * mean).clamp(min=1e-5).sqrt()
        return self.last(self.drop(self.stats(torch.cat([mean, deviation, plain], 1))))


class Front(nn.Module):
    """Samples to the log-mels that the stem takes; the transform is a convolution with cosines and sines."""

    def __init__(self, filters: np.ndarray, floor: float) -> None:
        """filters: [bins, 201], as streaming/mel.py has them; floor: that of the hearing model, log10."""
        super().__init__()
        angle = 2 * np.pi * np.outer(np.arange(_FRAME // 2 + 1), np.arange(_FRAME)) / _FRAME
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FRAME) / _FRAME)
        waves = np.concatenate([np.cos(angle) * window, np.sin(angle) * window]).astype(np.float32)
        self.waves = nn.Parameter(torch.from_numpy(waves)[:, None], requires_grad=False)
        self.filters = nn.Parameter(torch.from_numpy(filters.astype(np.float32).T.copy()), requires_grad=False)
        self.floor = floor

    def forward(self, samples: Tensor) -> Tensor:
        """Samples [N, 24000] give log-mels [N, 128, 144]."""
        samples = samples * (_LOUD / (samples.square().mean(1, keepdim=True).sqrt() + 1e-6))
        waves = F.conv1d(samples[:, None], self.waves, stride=_HOP)[..., :FRAMES]
        half = _FRAME // 2 + 1
        power = waves[:, :half].square() + waves[:, half:].square()
        mel = torch.log10((power.transpose(1, 2) @ self.filters).clamp(min=1e-10)).clamp(min=self.floor)
        return ((mel + 4) / 4).transpose(1, 2)


class _Normal(nn.Module):
    """The head, whose prints are brought to length 1."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, rows: Tensor) -> Tensor:
        """Rows [N, 18, 384] give voice prints [N, 128]."""
        return F.normalize(self.head(rows), dim=1)


def write(head: Head, front: Front, stem: Path, out: Path) -> None:
    """Write the whole graph to `out`. stem: stem.onnx of pocket-asr-en."""
    parts = [
        _exported(front, torch.randn(2, SAMPLES), "samples", "mels"),
        onnx.load(str(stem)),
        _exported(_Normal(head.eval()), torch.randn(2, FRAMES // 8, _ROW), "rows", "prints"),
    ]
    version = max(part.ir_version for part in parts)
    opset = max(one.version for part in parts for one in part.opset_import if not one.domain)
    for number, part in enumerate(parts):
        part.ir_version = version
        for one in part.opset_import:
            one.version = opset if not one.domain else one.version
        compose.add_prefix(part, f"{number}/", inplace=True)
    whole = compose.merge_models(parts[0], parts[1], [("0/mels", "1/mel")])
    whole = compose.merge_models(whole, parts[2], [("1/rows", "2/rows")])
    for value, name in ((whole.graph.input[0], "samples"), (whole.graph.output[0], "prints")):
        for node in whole.graph.node:
            for places in (node.input, node.output):
                for place, old in enumerate(places):
                    if old == value.name:
                        places[place] = name
        value.name = name
    _store_halves(whole.graph)
    onnx.save(whole, str(out))


def _exported(module: nn.Module, example: Tensor, takes: str, gives: str) -> onnx.ModelProto:
    program = torch.onnx.export(
        module.eval(),
        (example,),
        input_names=[takes],
        output_names=[gives],
        dynamic_shapes=({0: torch.export.Dim("n")},),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    return program.model_proto


def _store_halves(graph: onnx.GraphProto) -> None:
    """Store large float32 constants as float16, which the runtime makes float32 again when it loads them. The waves of
    the transform stay, since a quiet band would drown in their error."""
    casts: list[onnx.NodeProto] = []
    for constant in graph.initializer:
        value = numpy_helper.to_array(constant)
        if value.dtype == np.float32 and value.size > _SMALL and "waves" not in constant.name:
            name = constant.name
            constant.CopyFrom(numpy_helper.from_array(value.astype(np.float16), f"{name}/half"))
            casts.append(onnx.helper.make_node("Cast", [f"{name}/half"], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
