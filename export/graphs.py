"""Modules → ONNX graphs in the form that DirectML accepts, their weights in one file on disk.

``trace`` exports with dynamo and dynamic shapes at opset 18; ``tidy`` makes every Reshape target a constant and drops
what the exporter notes about its own machine; ``WeightFile`` holds each distinct tensor once, whichever graphs refer
to it.
"""

import contextlib
import hashlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.export import Dim

from export.dims import EncoderDims
from export.encoder import Body, Clip, Stem

OPSET = 18
IR_VERSION = 10
"""Read by onnxruntime 1.18 and later; the newest DirectML build is 1.24."""

EXTERNAL_BYTES = 1024
"""Tensors from this size on lie in the weight file; smaller ones (shapes, scalars) stay in the graph."""

Axes = Mapping[int, Dim]


class GraphError(RuntimeError):
    """A graph could not be brought into the form that the rules ask for."""


def stem_graph(stem: Stem, dims: EncoderDims, dtype: torch.dtype, *, whole: bool = False) -> onnx.ModelProto:
    """The chunk graph: ``mel [N, bins, T ≤ chunk_frames] → rows``; ``whole``: T is chunk_frames."""
    mel = torch.zeros(2, dims.bins, dims.chunk_frames - (not whole), dtype=dtype)
    axes: dict[int, Dim] = {0: Dim("chunks")}
    if not whole:
        axes[2] = Dim("frames", min=1, max=dims.chunk_frames)
    return trace(stem, {"mel": mel}, {"mel": axes}, ("rows",))


def body_graph(body: Body, dims: EncoderDims, dtype: torch.dtype) -> onnx.ModelProto:
    """The window graph: ``rows [W, T, width], mask [W, T] → embeddings (, ctc)``."""
    length = dims.window_rows // 2
    inputs = {"rows": torch.zeros(2, length, dims.width, dtype=dtype), "mask": torch.ones(2, length, dtype=dtype)}
    axes = {0: Dim("windows"), 1: Dim("length", min=1, max=dims.window_rows)}
    outputs = ("embeddings",) if dims.ctc is None else ("embeddings", "ctc")
    return trace(body, inputs, {"rows": axes, "mask": axes}, outputs)


def clip_graph(clip: Clip, dims: EncoderDims, dtype: torch.dtype) -> onnx.ModelProto:
    """The whole-clip graph: ``mel [B, bins, chunk_frames · C], valid_rows [B] → embeddings``."""
    chunks = dims.window_rows // dims.chunk_rows + 2
    inputs = {
        "mel": torch.zeros(2, dims.bins, dims.chunk_frames * chunks, dtype=dtype),
        "valid_rows": torch.full((2,), dims.chunk_rows * chunks, dtype=torch.int64),
    }
    batch = Dim("clips", min=1, max=64)
    frames = dims.chunk_frames * Dim("chunks", min=1, max=4096)
    return trace(clip, inputs, {"mel": {0: batch, 2: frames}, "valid_rows": {0: batch}}, ("embeddings",))


def whole_graph(encoder: nn.Module, inputs: int, longest: int, dtype: torch.dtype, *, ctc: bool) -> onnx.ModelProto:
    """The graph of an encoder that sees whole clips: ``rows [B, T, inputs], valid_rows [B] → embeddings (, ctc)``.

    ``longest``: rows of the longest clip that the runtime gives it.
    """
    length = longest // 2
    feeds = {"rows": torch.zeros(2, length, inputs, dtype=dtype), "valid_rows": torch.full((2,), length)}
    clips = Dim("clips", min=1, max=64)
    axes = {"rows": {0: clips, 1: Dim("length", min=1, max=8 * longest)}, "valid_rows": {0: clips}}
    return trace(encoder, feeds, axes, ("embeddings", "ctc") if ctc else ("embeddings",))


def trace(
    module: nn.Module, inputs: Mapping[str, Tensor], axes: Mapping[str, Axes], outputs: Sequence[str]
) -> onnx.ModelProto:
    """Export ``module`` with dynamo and tidy the graph."""
    with quiet(), torch.no_grad():
        program = torch.onnx.export(
            module,
            tuple(inputs.values()),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes={name: dict(axes[name]) for name in inputs},
            input_names=list(inputs),
            output_names=list(outputs),
            verbose=False,
        )
    assert program is not None
    return tidy(program.model_proto)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The exporter's progress and its deprecation notes to itself; errors still raise."""
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch.onnx").setLevel(level)


def tidy(model: onnx.ModelProto) -> onnx.ModelProto:
    """Constant Reshape targets, no dead nodes, no traces of the exporting machine."""
    graph = model.graph
    freeze_reshapes(graph)
    drop_dead(graph)
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version, model.doc_string = "hearsay", "", ""
    del model.metadata_props[:], graph.metadata_props[:], graph.value_info[:], model.functions[:]
    for part in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        part.doc_string = ""
        del part.metadata_props[:]
    return model


def freeze_reshapes(graph: onnx.GraphProto) -> None:
    """Replace computed Reshape targets by constants: 0 for one axis inherited from the input, −1 for one other.

    Raises:
        GraphError: more than two axes of the result are dynamic, or none of two is inherited.
    """
    shapes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*graph.value_info, *graph.input, *graph.output)
    }
    constants = {tensor.name for tensor in graph.initializer}
    targets: dict[tuple[int, ...], str] = {}
    for node in graph.node:
        if node.op_type != "Reshape":
            continue
        if node.input[1] in constants:
            tensor = next(tensor for tensor in graph.initializer if tensor.name == node.input[1])
            target = tuple(int(size) for size in numpy_helper.to_array(tensor))
            if target.count(0) <= 1 and target.count(-1) <= 1:
                continue
        target = reshape_target(node, shapes)
        name = targets.setdefault(target, f"shape_{'_'.join(str(size).replace('-', 'n') for size in target)}")
        node.input[1] = name
        del node.attribute[:]
    for target, name in targets.items():
        graph.initializer.append(numpy_helper.from_array(np.array(target, np.int64), name))


def reshape_target(node: onnx.NodeProto, shapes: Mapping[str, Sequence[int | str]]) -> tuple[int, ...]:
    """A constant target for ``node`` out of the symbolic shapes that the exporter knows."""
    try:
        before, after = shapes[node.input[0]], shapes[node.output[0]]
    except KeyError as error:
        raise GraphError(f"Reshape {node.name}: the shape of {error} is unknown") from None
    target: list[int] = []
    for axis, size in enumerate(after):
        if isinstance(size, int) and size > 0:
            target.append(size)
        elif 0 not in target and axis < len(before) and before[axis] == size:
            target.append(0)
        elif -1 not in target:
            target.append(-1)
        else:
            raise GraphError(f"Reshape {node.name}: {list(before)} → {list(after)} has no constant target")
    return tuple(target)


def drop_dead(graph: onnx.GraphProto) -> None:
    """Remove nodes and initializers that no output needs."""
    needed = {value.name for value in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.initializer[:]
    graph.initializer.extend(weights)


class WeightFile:
    """One file of weights for several graphs of a directory; equal tensors are stored once.

    Use as a context manager; ``save`` each graph while it is open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.places: dict[bytes, tuple[int, int]] = {}
        self.stream: BinaryIO

    def __enter__(self) -> Self:
        self.stream = self.path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def save(self, model: onnx.ModelProto, path: Path) -> None:
        """Write ``model`` beside the weight file; its large tensors go into the latter."""
        slim = onnx.ModelProto()
        slim.CopyFrom(model)
        for tensor in slim.graph.initializer:
            raw = numpy_helper.to_array(tensor).tobytes()
            if len(raw) < EXTERNAL_BYTES:
                continue
            offset, length = self.place(raw)
            for field in ("raw_data", "float_data", "int32_data", "int64_data"):
                tensor.ClearField(field)
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", self.path.name), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
        path.write_bytes(slim.SerializeToString())

    def place(self, raw: bytes) -> tuple[int, int]:
        """Offset and length of ``raw`` in the file, written unless it is there."""
        key = hashlib.sha256(raw).digest()
        if key not in self.places:
            # Large tensors begin on a page so that they can be mapped into memory.
            alignment = 4096 if len(raw) >= 65536 else 64
            self.stream.write(b"\0" * (-self.stream.tell() % alignment))
            self.places[key] = (self.stream.tell(), len(raw))
            self.stream.write(raw)
        return self.places[key]
