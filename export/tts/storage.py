"""Weights that lie in the file as float16 although the graph computes in float32.

ONNX Runtime folds the Cast when it loads the graph, so this halves the file and costs neither time nor precision beyond
the one rounding of each weight. What the 8-bit rewriting leaves in float32 (convolutions, codebooks) is stored so.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.checkpoint import CheckpointError

WEIGHTS = {"Conv": 1, "ConvTranspose": 1, "Gather": 0}
"""Operators whose weight is stored so, and the place of it among their inputs."""

SMALLEST = 1024
"""Values below which a tensor is not worth a node."""


def store_half(model: onnx.ModelProto) -> None:
    """Rewrite ``model`` in place.

    Raises:
        CheckpointError: a weight is beyond float16.
    """
    graph = model.graph
    wanted = {node.input[WEIGHTS[node.op_type]] for node in graph.node if node.op_type in WEIGHTS}
    casts: list[onnx.NodeProto] = []
    for tensor in graph.initializer:
        if tensor.name not in wanted or tensor.data_type != TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(tensor)
        if values.size < SMALLEST:
            continue
        peak = float(np.abs(values).max())
        if peak > float(np.finfo(np.float16).max):
            raise CheckpointError(f"weight {tensor.name} reaches {peak:g}, beyond float16: choose fp32")
        name = f"{tensor.name}_half"
        casts.append(helper.make_node("Cast", [name], [tensor.name], f"widen_{tensor.name}", to=TensorProto.FLOAT))
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), name))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
