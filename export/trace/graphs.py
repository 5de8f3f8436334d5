"""Exporting modules as ONNX graphs in the form that DirectML accepts, with their weights in one file.

``trace`` exports with dynamo and dynamic shapes at opset 18. ``tidy`` makes every Reshape target a constant and drops
what the exporter notes about the machine it ran on. ``WeightFile`` stores each distinct tensor once for all graphs.
"""

import contextlib
import hashlib
import io
import logging
import re
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.export import Dim

from export.dims import EncoderDims
from export.trace.encoder import Body, Clip, Stem
from export.trace.weights import recipes
from export.transforms import Recipe

OPSET = 18
"""The version of ONNX's operators: the one that torch's exporter writes without converting."""
IR_VERSION = 10
"""The version of ONNX's file format, which ONNX Runtime reads from 1.18 on; its newest DirectML build is 1.24."""

EXTERNAL_BYTES = 1024
"""From how many bytes on a constant lies in the weight file; smaller ones, shapes and scalars, stay in the graph. What
comes from a checkpoint lies in the file whatever its size, so that the graph is the same for all checkpoints."""

EXPORTERS = re.compile(r"val_\d+|constant_\d+|c_lifted_tensor_\d+|_?lifted_\w+|[a-z_]*_\d+")
"""The names that the exporter gives to constants. Names of modules have dots or no number, and those that are given
here begin with ``shape_``."""

Axes = Mapping[int, Dim]


class GraphError(RuntimeError):
    """A graph could not be brought into the form that the rules ask for."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A graph, and by name the recipes of those weights that come from a checkpoint."""

    model: onnx.ModelProto
    recipes: dict[str, Recipe]


def stem_graph(stem: Stem, dims: EncoderDims, dtype: torch.dtype, *, whole: bool = False) -> Traced:
    """The graph of the stem: ``mel [N, bins, T ≤ chunk_frames] → rows``. If ``whole``, T is always chunk_frames."""
    mel = torch.zeros(2, dims.bins, dims.chunk_frames - (not whole), dtype=dtype)
    axes: dict[int, Dim] = {0: Dim("chunks")}
    if not whole:
        axes[2] = Dim("frames", min=1, max=dims.chunk_frames)
    return trace(stem, {"mel": mel}, {"mel": axes}, ("rows",))


def body_graph(body: Body, dims: EncoderDims, dtype: torch.dtype) -> Traced:
    """The graph of the body: ``rows [W, T, width], mask [W, T] → embeddings (, ctc)``."""
    length = dims.window_rows // 2
    inputs = {"rows": torch.zeros(2, length, dims.width, dtype=dtype), "mask": torch.ones(2, length, dtype=dtype)}
    axes = {0: Dim("windows"), 1: Dim("length", min=1, max=dims.window_rows)}
    outputs = ("embeddings",) if dims.ctc is None else ("embeddings", "ctc")
    return trace(body, inputs, {"rows": axes, "mask": axes}, outputs)


def clip_graph(clip: Clip, dims: EncoderDims, dtype: torch.dtype) -> Traced:
    """The whole-clip graph: ``mel [B, bins, chunk_frames · C], valid_rows [B] → embeddings``."""
    chunks = dims.window_rows // dims.chunk_rows + 2
    inputs = {
        "mel": torch.zeros(2, dims.bins, dims.chunk_frames * chunks, dtype=dtype),
        "valid_rows": torch.full((2,), dims.chunk_rows * chunks, dtype=torch.int64),
    }
    batch = Dim("clips", min=1, max=64)
    frames = dims.chunk_frames * Dim("chunks", min=1, max=4096)
    return trace(clip, inputs, {"mel": {0: batch, 2: frames}, "valid_rows": {0: batch}}, ("embeddings",))


def whole_graph(encoder: nn.Module, inputs: int, longest: int, dtype: torch.dtype, *, ctc: bool) -> Traced:
    """The graph of an encoder that sees whole clips: ``rows [B, T, inputs], valid_rows [B] → embeddings (, ctc)``.

    ``longest`` is how many rows the longest clip has.
    """
    length = longest // 2
    feeds = {"rows": torch.zeros(2, length, inputs, dtype=dtype), "valid_rows": torch.full((2,), length)}
    clips = Dim("clips", min=1, max=64)
    axes = {"rows": {0: clips, 1: Dim("length", min=1, max=8 * longest)}, "valid_rows": {0: clips}}
    return trace(encoder, feeds, axes, ("embeddings", "ctc") if ctc else ("embeddings",))


def trace(module: nn.Module, inputs: Mapping[str, Tensor], axes: Mapping[str, Axes], outputs: Sequence[str]) -> Traced:
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
    return Traced(tidy(program.model_proto), recipes(module))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporter's progress and warnings off the terminal; errors are still raised."""
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch.onnx").setLevel(level)


def tidy(model: onnx.ModelProto) -> onnx.ModelProto:
    """Make Reshape targets constant, and remove dead nodes and what tells of the exporting machine."""
    graph = model.graph
    freeze_reshapes(graph)
    drop_dead(graph)
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version, model.doc_string = "hearsay", "", ""
    del model.metadata_props[:], graph.metadata_props[:], graph.value_info[:], model.functions[:]
    renumber(graph)
    for part in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        part.ClearField("doc_string")
        del part.metadata_props[:]
    return model


def without(model: onnx.ModelProto, weights: Container[str]) -> onnx.ModelProto:
    """A copy of ``model`` in which ``weights`` have a type and a shape, but no values."""
    copy = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    graph = model.graph
    copy.graph.name = graph.name
    copy.graph.node.extend(graph.node)
    copy.graph.input.extend(graph.input)
    copy.graph.output.extend(graph.output)
    copy.graph.value_info.extend(graph.value_info)
    for tensor in graph.initializer:
        if tensor.name in weights:
            copy.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            copy.graph.initializer.append(tensor)
    return copy


def renumber(graph: onnx.GraphProto) -> None:
    """Name values and the exporter's own constants by their order, and put initializers in the order of their use.

    The exporter's own numbers depend on what it exported before. After this a graph's names, and the order of its
    weights in the file, depend on its structure alone.
    """
    names: dict[str, str] = {}
    fixed = {value.name for value in (*graph.input, *graph.output)}
    held = {tensor.name: tensor for tensor in graph.initializer}
    order: dict[str, onnx.TensorProto] = {}
    for node in graph.node:
        node.ClearField("name")
        for place, name in enumerate(node.input):
            if name in held and name not in order:
                order[name] = held[name]
                if EXPORTERS.fullmatch(name):
                    names[name] = f"constant_{len(names)}"
            node.input[place] = names.get(name, name)
        for place, name in enumerate(node.output):
            if name and name not in fixed:
                names[name] = f"value_{len(names)}"
            node.output[place] = names.get(name, name)
    for name, tensor in order.items():
        tensor.name = names.get(name, name)
    ordered = list(order.values())
    del graph.initializer[:]
    graph.initializer.extend(ordered)


def freeze_reshapes(graph: onnx.GraphProto) -> None:
    """Replace computed Reshape targets by constants, with 0 for an axis that is that of the input and −1 for another.

    Raises:
        GraphError: more than two axes of the result are dynamic, or neither of two is an axis of the input.
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
    """A constant target for ``node``, from the symbolic shapes that the exporter knows."""
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
    """The common weight file of several graphs in a directory, in which equal tensors are stored once.

    It is a context manager; ``save`` each graph while it is open.
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

    def save(self, traced: Traced, path: Path) -> None:
        """Write a graph beside the weight file, and its weights and large constants into that file."""
        outside = {
            tensor.name: tensor
            for tensor in traced.model.graph.initializer
            if tensor.name in traced.recipes or numpy_helper.to_array(tensor).nbytes >= EXTERNAL_BYTES
        }
        slim = without(traced.model, outside)
        for tensor in slim.graph.initializer:
            if tensor.name in outside:
                offset, length = self.place(numpy_helper.to_array(outside[tensor.name]).tobytes())
                tensor.data_location = onnx.TensorProto.EXTERNAL
                for key, value in (("location", self.path.name), ("offset", offset), ("length", length)):
                    tensor.external_data.add(key=key, value=str(value))
        path.write_bytes(slim.SerializeToString())

    def place(self, raw: bytes) -> tuple[int, int]:
        """Write ``raw`` into the file unless it is there. Returns its offset and length."""
        key = hashlib.sha256(raw).digest()
        if key not in self.places:
            # A large tensor begins on a page, so that it can be mapped into memory.
            alignment = 4096 if len(raw) >= 65536 else 64
            self.stream.write(b"\0" * (-self.stream.tell() % alignment))
            self.places[key] = (self.stream.tell(), len(raw))
            self.stream.write(raw)
        return self.places[key]
