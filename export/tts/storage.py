"""Weights that lie in the file as float16 or int8 although the graph computes in float32.

ONNX Runtime folds the Cast and the scale when it loads the graph, so this halves or quarters the file and costs neither
time nor precision beyond the one rounding of each weight.

The codec's activations stay in float32. Rounded to 8 bits they would cost its identity: on a GPU calls of another
length may sum in another order, and where the last bit of a value decides its step, samples move by 1 % of the RMS
(docs/export.md).
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.checkpoint import CheckpointError
from export.columns import quantize_columns

WEIGHTS = {"Conv": 1, "ConvTranspose": 1, "Gather": 0, "MatMul": 1}
"""Operators whose weight is stored as float16, and the place of it among their inputs."""

TAPS = ".taps"
"""Ends the name of a convolution's weight where the convolution is a product: float16, as those of other ones."""

SMALLEST = 1024
"""Values below which a tensor is not worth a node."""


def store_int8(model: onnx.ModelProto) -> None:
    """Rewrite ``model`` in place: matrices [inputs, outputs] as int8 with a float32 scale for every output."""
    graph = model.graph
    wanted = {node.input[1] for node in graph.node if node.op_type == "MatMul"}
    widening: list[onnx.NodeProto] = []
    for tensor in list(graph.initializer):
        name = tensor.name
        if name not in wanted or tensor.data_type != TensorProto.FLOAT or len(tensor.dims) != 2 or name.endswith(TAPS):
            continue
        values, scales = quantize_columns(numpy_helper.to_array(tensor), multiplied=False)
        tensor.CopyFrom(numpy_helper.from_array(values, f"{name}_int8"))
        graph.initializer.append(numpy_helper.from_array(scales, f"{name}_scales"))
        steps = helper.make_node("Cast", [f"{name}_int8"], [f"{name}_steps"], f"widen_{name}", to=TensorProto.FLOAT)
        widening += [steps, helper.make_node("Mul", [f"{name}_steps", f"{name}_scales"], [name], f"scale_{name}")]
    nodes = [*widening, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


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
