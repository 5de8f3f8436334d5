"""Rewriting encoder graphs to 8 bits so that rows stay independent of each other.

ONNX's ``DynamicQuantizeLinear`` takes one range for a whole tensor, so a window's result would depend on the windows
beside it and on its padding. Here every row has its own scale, found and applied by standard operators::

    x ─ Abs ─ ReduceMax(row) ─ Max(tiny) ─ peak
    x / peak ─ QuantizeLinear(1/127, 128) ─ MatMulInteger ─ × column scale × peak

Weights are int8 with a scale for each output channel, chosen so that the products are the same on every processor
(export/columns.py). The output of a GELU is never below −0.17. So the row ``x + 0.17`` after one can use all 256 steps
from 0 up, which halves the step at the same cost; what the 0.17 adds to the result is a constant and is subtracted.
Products of two activations, in the attention, stay in float32.

ONNX Runtime makes one node of a product, its widening and its column scale, and one of a GELU, where it finds them in
the form that it knows (:func:`recognisable`). Each node that is spared would pass over the whole window.

Wide convolutions become such products too, of patches that are gathered in 8 bits. ONNX Runtime's own integer
convolution is slower than the float one, its integer product four times as fast (notes/2026-11-export.md). A patch
spans several rows, so all rows of a chunk have one scale. A chunk that is cut short would have another, so graphs with
such convolutions take whole chunks only.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.trace.graphs import Traced, drop_dead
from export.transforms import GELU_MINIMUM, Recipe, Weight, apply

WIDE = 256
"""From how many channels on a convolution is rewritten: with 480 the stem takes 46 % of its time in float, with 96
89 %."""

ONE = "int8/one"
"""The name of the factor 1 that stands for a scale of all rows (:func:`recognisable`)."""

TINY = 1e-10
"""A row of zeros is divided by this instead of by zero; no other row's peak is smaller."""


@dataclass
class Rewriter:
    """Rewrites one graph. It remembers which rows and weights are quantised already."""

    graph: onnx.GraphProto
    weights: dict[str, onnx.TensorProto]
    producers: dict[str, onnx.NodeProto]
    recipes: dict[str, Recipe]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def constant(self, name: str, values: NDArray[Any] | np.generic) -> str:
        """Add an initializer unless it is there."""
        if name not in self.known:
            self.known.add(name)
            self.graph.initializer.append(numpy_helper.from_array(np.array(values, order="C"), name))
            if (recipe := getattr(values, "recipe", None)) is not None:
                self.recipes[name] = recipe
        return name

    def weight(self, name: str) -> NDArray[np.float32]:
        """The values of an initializer, with their recipe."""
        values = numpy_helper.to_array(self.weights[name]).astype(np.float32).view(Weight)
        values.recipe = self.recipes.get(name)
        return values

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node with one output unless that output is there."""
        if output not in self.known:
            self.known.add(output)
            self.nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def follows_gelu(self, name: str) -> bool:
        """Whether tensor ``name`` is the output ``x · (½ · (1 + erf(x / √2)))`` of a GELU, or a permutation of it."""
        node = self.producers.get(name)
        while node is not None and node.op_type in ("Reshape", "Transpose"):
            node = self.producers.get(node.input[0])
        if node is None or node.op_type != "Mul":
            return False
        first, second = node.input
        return self.is_gate(first, second) or self.is_gate(second, first)

    def is_gate(self, name: str, x: str) -> bool:
        """Whether ``name`` is ``½ · (1 + erf(x / √2))``, the factor by which a GELU multiplies ``x``."""
        for operator in ("Mul", "Add", "Erf"):
            node = self.producers.get(name)
            if node is None or node.op_type != operator:
                return False
            # The other input of the first two is a constant.
            name = next((each for each in node.input if each in self.producers), "")
        node = self.producers.get(name)
        return node is not None and node.op_type == "Div" and node.input[0] == x

    def quantized(self, name: str, shifted: bool) -> tuple[str, str]:
        """Quantise the activation ``name``: the names of its 8-bit rows and of each row's factor. ``shifted`` rows are
        raised by GELU's minimum and use the steps from 0 up."""
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
        quantized = apply("columns", self.weight(weight))
        shifted = self.follows_gelu(name)
        rows, peak = self.quantized(name, shifted)
        zero = "int8/zero0" if shifted else "int8/zero128"
        integers = self.constant(f"{weight}/int8", apply("item", quantized, 0))
        step = 255 if shifted else 127
        columns = self.constant(f"{weight}/scale{step}", apply("steps", quantized, step))
        total = self.node("MatMulInteger", [rows, integers, zero], f"{output}/integer")
        real = self.node("Cast", [total], f"{output}/float", to=TensorProto.FLOAT)
        scaled = self.node("Mul", [real, columns], f"{output}/scaled")
        if not shifted:
            self.node("Mul", [scaled, peak], output)
            return
        whole = self.node("Mul", [scaled, peak], f"{output}/whole")
        self.node("Add", [whole, self.constant(f"{weight}/excess", apply("excess", quantized))], output)

    def convolution(self, node: onnx.NodeProto) -> None:
        """Replace a 3 × 3 convolution of stride 2 and padding 1 after a GELU by a product of 8-bit patches."""
        name, output = node.input[0], node.output[0]
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
        quantized = apply("columns", apply("patches", self.weight(node.input[1])))
        weight = self.constant(f"{node.input[1]}/int8", apply("item", quantized, 0))
        total = self.node("MatMulInteger", [patches, weight, zero], f"{prefix}/integer")
        real = self.node("Cast", [total], f"{prefix}/float", to=TensorProto.FLOAT)
        columns = self.constant(f"{node.input[1]}/scale255", apply("steps", quantized, 255))
        scaled = self.node("Mul", [real, columns], f"{prefix}/scaled")
        whole = self.node("Mul", [scaled, peak], f"{prefix}/whole")
        rest = apply("rest", self.weight(node.input[2]), quantized)
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


def quantize_graph(traced: Traced) -> None:
    """Bring every product with a weight of a float32 graph into 8 bits, in place."""
    graph, recipes = traced.model.graph, traced.recipes
    weights = {tensor.name: tensor for tensor in graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}
    rewriter = Rewriter(graph, weights, producers, recipes)
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
    recognisable(graph)
    drop_dead(graph)


def recognisable(graph: onnx.GraphProto) -> None:
    """Bring products and GELUs of a quantised graph into the form that ONNX Runtime fuses as it loads, in place.

    A product's scale must be a product itself, of a scale of the rows and one of the columns. Our rows have their
    scales apart, so that factor is 1. It must not be constant, or the product would be computed before the other nodes
    are looked for; so it is an initializer that a caller could replace, which ONNX marks by listing it as an input too.
    A GELU must be ``(x · (1 + erf(x / √2))) · ½``; PyTorch's exporter writes ``x · (½ · (1 + erf(x / √2)))``.
    """
    producers = {output: node for node in graph.node for output in node.output}
    uses = {name: node for node in graph.node for name in node.input}

    def made_by(name: str, operator: str) -> onnx.NodeProto | None:
        node = producers.get(name)
        return node if node is not None and node.op_type == operator else None

    nodes = list[onnx.NodeProto]()
    for node in graph.node:
        cast = made_by(node.input[0], "Cast") if node.op_type == "Mul" else None
        if cast is not None and made_by(cast.input[0], "MatMulInteger"):
            scale = f"{node.output[0]}/step"
            nodes.append(helper.make_node("Mul", [ONE, node.input[1]], [scale], scale))
            node.input[1] = scale
        nodes.append(node)
        if node.op_type == "Erf":
            of_x, gate = producers[node.input[0]], uses[uses[node.output[0]].output[0]]
            product = uses[gate.output[0]]
            (raised,) = (name for name in gate.input if made_by(name, "Add"))
            (half,) = (name for name in gate.input if name != raised)
            gate.input[:], product.input[:] = [of_x.input[0], raised], [gate.output[0], half]
    if len(nodes) > len(graph.node):
        graph.initializer.append(numpy_helper.from_array(np.array(1, np.float32), ONE))
        graph.input.append(helper.make_tensor_value_info(ONE, TensorProto.FLOAT, []))
    del graph.node[:]
    graph.node.extend(nodes)
