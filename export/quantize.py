"""8-bit encoder graphs whose rows never look at each other.

``DynamicQuantizeLinear`` takes one range over a whole tensor, so a window's result would depend on the windows beside
it and on its padding. Here every row has its own scale, found and applied by standard operators::

    x ─ Abs ─ ReduceMax(row) ─ Max(tiny) ─ peak
    x / peak ─ QuantizeLinear(1/127, 128) ─ MatMulInteger ─ × column scale × peak

Weights are int8, one scale per output channel, such that the products are the same on every processor
(export/columns.py). The output of a GELU is never below −0.17, so there the shifted row ``x + 0.17`` takes all 256
steps from 0 up, and the shift's share, a constant, is taken off the result: half the step for the same cost. Products
of two activations (attention) stay in float32.

Wide convolutions become such products too, of patches that are gathered in 8 bits: ONNX Runtime's own integer
convolution is slower than the float one, its integer product four times as fast (docs/export.md has the measurements).
A patch spans rows, so their scale is the chunk's; a chunk that is cut short has another, so graphs with such
convolutions take whole chunks only.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.columns import quantize_columns
from export.graphs import drop_dead

GELU_MINIMUM = 0.17
"""The smallest value of GELU is −0.16997."""

WIDE = 256
"""Channels from which a convolution is worth it: at 480 the stem takes 46 % of its float time, at 96 89 %."""

TINY = 1e-10
"""A row of zeros is divided by this instead of by zero."""


@dataclass
class Rewriter:
    """State of one graph's rewriting: which rows are quantised already, which weights."""

    graph: onnx.GraphProto
    weights: dict[str, onnx.TensorProto]
    producers: dict[str, onnx.NodeProto]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def constant(self, name: str, values: NDArray[Any] | np.generic) -> str:
        """Add an initializer unless it is there."""
        if name not in self.known:
            self.known.add(name)
            self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node with one output unless that output is there."""
        if output not in self.known:
            self.known.add(output)
            self.nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def follows_gelu(self, name: str) -> bool:
        """Whether tensor ``name`` is a GELU's output, however permuted: ``x · (½ · (1 + erf))``."""
        node = self.producers.get(name)
        while node is not None and node.op_type in ("Reshape", "Transpose"):
            node = self.producers.get(node.input[0])
        for operator in ("Mul", "Mul", "Add", "Erf"):
            if node is None or node.op_type != operator:
                return False
            if operator == "Erf":
                return True
            wanted = {"Mul": ("Mul", "Add"), "Add": ("Erf",)}[operator]
            inner = [self.producers[value] for value in node.input if value in self.producers]
            node = next((each for each in inner if each.op_type in wanted), None)
        return False

    def quantized(self, name: str, shifted: bool) -> tuple[str, str]:
        """8-bit rows of activation ``name`` and the factor of each row."""
        prefix = f"{name}/rows"
        last = self.constant("int8/last", np.array([-1], np.int64))
        if shifted:
            positive = self.node(
                "Add", [name, self.constant("int8/shift", np.float32(GELU_MINIMUM))], f"{prefix}/positive"
            )
            peak = self.node("ReduceMax", [positive, last], f"{prefix}/peak", keepdims=1)
            unit = self.node("Div", [positive, peak], f"{prefix}/unit")
            step, zero = self.constant("int8/step255", np.float32(1 / 255)), self.constant("int8/zero0", np.uint8(0))
        else:
            magnitude = self.node("Abs", [name], f"{prefix}/magnitude")
            largest = self.node("ReduceMax", [magnitude, last], f"{prefix}/largest", keepdims=1)
            peak = self.node("Max", [largest, self.constant("int8/tiny", np.float32(TINY))], f"{prefix}/peak")
            unit = self.node("Div", [name, peak], f"{prefix}/unit")
            step, zero = (
                self.constant("int8/step127", np.float32(1 / 127)),
                self.constant("int8/zero128", np.uint8(128)),
            )
        return self.node("QuantizeLinear", [unit, step, zero], f"{prefix}/quantized"), peak

    def product(self, node: onnx.NodeProto) -> None:
        """Replace ``activation @ weight`` by its 8-bit form."""
        name, weight, output = node.input[0], node.input[1], node.output[0]
        values, scales = quantize_columns(
            numpy_helper.to_array(self.weights[weight]).astype(np.float32), multiplied=True
        )
        shifted = self.follows_gelu(name)
        rows, peak = self.quantized(name, shifted)
        zero = "int8/zero0" if shifted else "int8/zero128"
        step = np.float32(1 / 255 if shifted else 1 / 127)
        integers = self.constant(f"{weight}/int8", values)
        columns = self.constant(f"{weight}/{'scale255' if shifted else 'scale127'}", scales * step)
        total = self.node("MatMulInteger", [rows, integers, zero], f"{output}/integer")
        real = self.node("Cast", [total], f"{output}/float", to=TensorProto.FLOAT)
        scaled = self.node("Mul", [real, columns], f"{output}/scaled")
        if not shifted:
            self.node("Mul", [scaled, peak], output)
            return
        excess = (-GELU_MINIMUM * (values.astype(np.float64) * scales).sum(0)).astype(np.float32)
        whole = self.node("Mul", [scaled, peak], f"{output}/whole")
        self.node("Add", [whole, self.constant(f"{weight}/excess", excess)], output)

    def convolution(self, node: onnx.NodeProto) -> None:
        """Replace a 3 × 3 convolution of stride 2 and padding 1 after a GELU by a product of 8-bit patches."""
        name, output = node.input[0], node.output[0]
        kernel = numpy_helper.to_array(self.weights[node.input[1]]).astype(np.float32)
        bias = numpy_helper.to_array(self.weights[node.input[2]]).astype(np.float64)
        prefix = f"{output}/patches"
        last = self.node("Transpose", [name], f"{prefix}/channels_last", perm=[0, 2, 3, 1])
        edges = self.constant("int8/edges", np.array([0, 1, 1, 0, 0, 1, 1, 0]))
        padded = self.node("Pad", [last, edges], f"{prefix}/padded")
        positive = self.node(
            "Add", [padded, self.constant("int8/shift", np.float32(GELU_MINIMUM))], f"{prefix}/positive"
        )
        axes = self.constant("int8/chunk", np.array([1, 2, 3]))
        peak = self.node("ReduceMax", [positive, axes], f"{prefix}/peak", keepdims=1)
        unit = self.node("Div", [positive, peak], f"{prefix}/unit")
        step, zero = self.constant("int8/step255", np.float32(1 / 255)), self.constant("int8/zero0", np.uint8(0))
        integers = self.node("QuantizeLinear", [unit, step, zero], f"{prefix}/quantized")
        places = self.constant("int8/places", np.array([1, 2])), self.constant("int8/strides", np.array([2, 2]))
        taps = [
            self.node("Slice", [integers, *self.corner(row, column), *places], f"{prefix}/{row}{column}")
            for row in range(3)
            for column in range(3)
        ]
        patches = self.node("Concat", taps, f"{prefix}/all", axis=3)
        # [outputs, inputs, 3, 3] → [3 · 3 · inputs, outputs], the patches' order.
        values, scales = quantize_columns(kernel.transpose(2, 3, 1, 0).reshape(-1, len(kernel)), multiplied=True)
        weight = self.constant(f"{node.input[1]}/int8", values)
        total = self.node("MatMulInteger", [patches, weight, zero], f"{prefix}/integer")
        real = self.node("Cast", [total], f"{prefix}/float", to=TensorProto.FLOAT)
        columns = self.constant(f"{node.input[1]}/scale255", scales * np.float32(1 / 255))
        scaled = self.node("Mul", [real, columns], f"{prefix}/scaled")
        whole = self.node("Mul", [scaled, peak], f"{prefix}/whole")
        rest = (bias - GELU_MINIMUM * (values.astype(np.float64) * scales).sum(0)).astype(np.float32)
        result = self.node("Add", [whole, self.constant(f"{node.input[2]}/rest", rest)], f"{prefix}/result")
        self.node("Transpose", [result], output, perm=[0, 3, 1, 2])

    def corner(self, row: int, column: int) -> tuple[str, str]:
        """Start and end of the slice that takes, of every patch, the value at ``row`` and ``column``."""
        start = self.constant(f"int8/from{row}{column}", np.array([row, column]))
        ends = [place - 2 if place < 2 else np.iinfo(np.int64).max for place in (row, column)]
        return start, self.constant(f"int8/to{row}{column}", np.array(ends))

    def is_wide(self, node: onnx.NodeProto) -> bool:
        """Whether ``node`` is a convolution that is to be replaced."""
        return (
            node.op_type == "Conv"
            and self.weights[node.input[1]].dims[1] >= WIDE
            and list(self.weights[node.input[1]].dims[2:]) == [3, 3]
            and self.follows_gelu(node.input[0])
        )


def quantize_graph(model: onnx.ModelProto) -> None:
    """Bring every product with a weight of a float32 graph into 8 bits, in place."""
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}
    rewriter = Rewriter(graph, weights, producers)
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights and len(weights[node.input[1]].dims) == 2:
            rewriter.product(node)
        elif rewriter.is_wide(node):
            rewriter.convolution(node)
        else:
            rewriter.nodes.append(node)
    nodes = list(rewriter.nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    drop_dead(graph)
