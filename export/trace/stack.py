"""Making the graph of many equal layers from one of three, since each layer takes long to trace.

``python -m export.trace.keep --check`` traces all layers and compares.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from export.trace.graphs import GraphError, Traced, renumber
from export.transforms import Maker, Recipe

LAYERS = 3
"""How many layers are traced: the first, whose input is another node's, a second to copy, and a last, whose output goes
into the rest of the graph."""


def grow(traced: Traced, prefix: str, count: int, read: Callable[[str], Any]) -> Traced:
    """``traced`` with ``count`` layers instead of ``LAYERS``.

    Args:
        prefix: the prefix of the layers' weights, before the layer's number.
        count: how many layers the graph gets.
        read: reads a tensor of the checkpoint, in which layers have the same numbers.

    Raises:
        GraphError: the traced layers are not equal, or their nodes do not follow each other.
    """
    graph = traced.model.graph
    nodes = list(graph.node)
    pattern = re.compile(rf"{re.escape(prefix)}(\d+)\.")
    first: dict[int, int] = {}
    for place, node in enumerate(nodes):
        for name in node.input:
            if found := pattern.match(name):
                first.setdefault(int(found[1]), place)
    begins = [first[layer] for layer in range(LAYERS)]
    length = begins[1] - begins[0]
    layers = [nodes[begin : begin + length] for begin in begins]
    kinds = {tuple(node.op_type for node in layer) for layer in layers}
    if begins != [begins[0] + length * layer for layer in range(LAYERS)] or len(kinds) != 1:
        raise GraphError(f"the layers {prefix} are not equal, or do not stand one after another")
    made, outputs = list(layers[0]), values(layers[0])
    before, own = values(layers[0]), values(layers[1])
    for layer in range(1, count):
        names = dict(zip(before, outputs, strict=True)) | {name: f"{name} of {prefix}{layer}" for name in own}
        for node in layers[1]:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for field in (copy.input, copy.output):
                field[:] = [names.get(name, renamed(name, prefix, layer)) for name in field]
            made.append(copy)
        outputs = [names[name] for name in own]
    after = dict(zip(values(layers[-1]), outputs, strict=True))
    rest = nodes[begins[-1] + length :]
    for node in rest:
        node.input[:] = [after.get(name, name) for name in node.input]
    whole = [*nodes[: begins[0]], *made, *rest]
    del graph.node[:]
    graph.node.extend(whole)
    add_weights(traced, prefix, count, read)
    renumber(graph)
    return traced


def values(nodes: list[onnx.NodeProto]) -> list[str]:
    """The names of all outputs of ``nodes``, in order."""
    return [name for node in nodes for name in node.output]


def renamed(name: str, prefix: str, layer: int) -> str:
    """The name that a weight of the second layer has in layer ``layer``; other names stay."""
    second = f"{prefix}1."
    return f"{prefix}{layer}.{name.removeprefix(second)}" if name.startswith(second) else name


def add_weights(traced: Traced, prefix: str, count: int, read: Callable[[str], Any]) -> None:
    """Add the weights of the layers that were not traced, made by the second layer's recipes."""
    maker = Maker(read)
    second = {name: recipe for name, recipe in traced.recipes.items() if name.startswith(f"{prefix}1.")}
    kinds = {tensor.name: tensor.data_type for tensor in traced.model.graph.initializer}
    for layer in range(LAYERS, count):
        for name, recipe in second.items():
            if name in kinds:
                new = renamed(name, prefix, layer)
                traced.recipes[new] = elsewhere(recipe, layer)
                values = np.ascontiguousarray(maker.make(traced.recipes[new]))
                traced.model.graph.initializer.append(numpy_helper.from_array(values, new))


def elsewhere(recipe: Recipe, layer: int) -> Recipe:
    """The recipe that a weight of the second layer has in layer ``layer``."""
    if isinstance(recipe, str):
        return re.sub(r"(layers|blocks|encoders)\.1\.", rf"\g<1>.{layer}.", recipe, count=1)
    return recipe if isinstance(recipe, int) else [recipe[0], *(elsewhere(each, layer) for each in recipe[1:])]
