"""Codec states that stay on a graphics card.

A stream's states are 2.6 MB in the released codec. Stacking those of many streams, and copying them to the card and
back at each call, takes longer than the call. So the graph of a codec in float16 reads and writes them itself: its
states are tables with a slot for each stream, ``from_slots`` int64 [B] tells the slot from which each stream of a call
begins, and ``to_slots`` [B] the one into which its next state is written. Whoever keeps the tables on the processor
stacks the states of a call and numbers them.
"""

from collections.abc import Mapping

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper, numpy_helper
from onnx import TensorProto as Kind

from export.names import FROM_SLOTS, TO_SLOTS

_SLOTS, _PLACES = "slots", f"{TO_SLOTS}.places"


def keep_states(graph: GraphProto, states: Mapping[str, str]) -> None:
    """Rewrite a graph in place so that its ``states`` (input → output) are tables of slots."""
    old, new = {name: f"{name}.old" for name in states}, {name: f"{name}.new" for name in states.values()}
    for node in graph.node:
        node.input[:] = [old.get(name, new.get(name, name)) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
    reads = [helper.make_node("Gather", [name, FROM_SLOTS], [old[name]], f"read_{name}", axis=0) for name in states]
    writes: list[NodeProto] = [helper.make_node("Cast", [TO_SLOTS], [_PLACES], _PLACES, to=Kind.INT32)]
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.input}
    for rank in sorted({ranks[name] for name in states}):
        axes = f"{_PLACES}.{rank}.axes"
        graph.initializer.append(numpy_helper.from_array(np.arange(1, rank, dtype=np.int64), axes))
        writes.append(helper.make_node("Unsqueeze", [_PLACES, axes], [f"{_PLACES}.{rank}"], f"{_PLACES}.{rank}"))
    for name, after in states.items():
        # ScatterND would do without the places of all values, but writes a state in one thread on CUDA: 35 ms a call.
        size, places = f"{after}.size", f"{after}.places"
        writes += [
            helper.make_node("Shape", [new[after]], [size], size),
            helper.make_node("Expand", [f"{_PLACES}.{ranks[name]}", size], [places], places),
            helper.make_node("ScatterElements", [name, places, new[after]], [after], f"write_{name}", axis=0),
        ]
    nodes: list[NodeProto] = [*reads, *graph.node, *writes]
    del graph.node[:]
    graph.node.extend(nodes)
    _widen(graph, {*states, *states.values()})


def _widen(graph: GraphProto, tables: set[str]) -> None:
    """Tell the new shapes, and the two new inputs."""
    batch = ""
    values: list[ValueInfoProto] = [*graph.input, *graph.output]
    for value in values:
        if value.name in tables:
            first = value.type.tensor_type.shape.dim[0]
            batch = first.dim_param
            first.dim_param = _SLOTS
    for name in (FROM_SLOTS, TO_SLOTS):
        graph.input.append(helper.make_tensor_value_info(name, Kind.INT64, [batch]))
    # What was inferred of the old outputs is of other shapes.
    kept = [value for value in graph.value_info if value.name not in tables]
    del graph.value_info[:]
    graph.value_info.extend(kept)
