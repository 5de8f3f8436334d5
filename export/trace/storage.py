"""Storing weights as float16 or int8 in graphs that compute in float32.

ONNX Runtime widens them once, when it loads the graph. So this makes the file two or four times smaller and costs
nothing but the rounding of each weight.

The codec's activations stay in float32. If they were rounded to 8 bits, its samples would depend on how frames are
split into calls: on a GPU calls of another length may sum in another order, and where the last bit of a value decides
its step, samples change by 1 % of the RMS.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.trace.graphs import Traced
from export.transforms import Recipe, Weight, apply

WEIGHTS = {"Conv": 1, "ConvTranspose": 1, "Gather": 0, "MatMul": 1}
"""The operators whose weight is stored as float16, and the weight's index among their inputs."""

TAPS = ".taps"
"""The suffix of the name of a convolution's weight that is written as a product. It is stored as float16, as those of
other convolutions."""

SMALLEST = 1024
"""A tensor with fewer values stays as it is: what it would save is hardly more than the node that widens it."""


def known(tensor: onnx.TensorProto, recipes: dict[str, Recipe]) -> Weight:
    """The values of an initializer, with their recipe."""
    values = numpy_helper.to_array(tensor).view(Weight)
    values.recipe = recipes.get(tensor.name)
    return values


def store_int8(traced: Traced) -> None:
    """Rewrite a graph in place so that matrices [inputs, outputs] are stored as int8 with a float32 scale for each
    output."""
    graph, recipes = traced.model.graph, traced.recipes
    wanted = {node.input[1] for node in graph.node if node.op_type == "MatMul"}
    widening: list[onnx.NodeProto] = []
    for tensor in list(graph.initializer):
        name = tensor.name
        if name not in wanted or tensor.data_type != TensorProto.FLOAT or len(tensor.dims) != 2 or name.endswith(TAPS):
            continue
        quantized = apply("stored", known(tensor, recipes))
        values, scales = apply("item", quantized, 0), apply("item", quantized, 1)
        recipes |= {f"{name}_int8": values.recipe, f"{name}_scales": scales.recipe}
        tensor.CopyFrom(numpy_helper.from_array(np.array(values), f"{name}_int8"))
        graph.initializer.append(numpy_helper.from_array(np.array(scales), f"{name}_scales"))
        steps = helper.make_node("Cast", [f"{name}_int8"], [f"{name}_steps"], f"widen_{name}", to=TensorProto.FLOAT)
        widening += [steps, helper.make_node("Mul", [f"{name}_steps", f"{name}_scales"], [name], f"scale_{name}")]
    nodes = [*widening, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def store_half(traced: Traced) -> None:
    """Rewrite a graph in place so that the weights of ``WEIGHTS`` are stored as float16.

    Raises:
        HalfError: a weight is too large for float16.
    """
    graph, recipes = traced.model.graph, traced.recipes
    wanted = {node.input[WEIGHTS[node.op_type]] for node in graph.node if node.op_type in WEIGHTS}
    casts: list[onnx.NodeProto] = []
    for tensor in graph.initializer:
        if tensor.name not in wanted or tensor.data_type != TensorProto.FLOAT:
            continue
        values = known(tensor, recipes)
        if values.size < SMALLEST:
            continue
        name = f"{tensor.name}_half"
        casts.append(helper.make_node("Cast", [name], [tensor.name], f"widen_{tensor.name}", to=TensorProto.FLOAT))
        stored = apply("half", values)
        recipes[name] = stored.recipe
        tensor.CopyFrom(numpy_helper.from_array(np.array(stored), name))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
