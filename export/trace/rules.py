"""The rules that a graph must keep so that it runs on DirectML, can be quantised, and is fast on a CPU.

Graphs are made on machines without DirectML, so instead of being run there every exported graph is read node by node.
Each rule is a function whose docstring begins with its number. A broken rule is an error that names the rule, the node
and what is wrong with it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx
from onnx import TensorProto, numpy_helper, shape_inference

from export.trace.graphs import without

OPSET = 18
IR_VERSION = 10
"""The versions of operators and file format that ONNX Runtime 1.24, its newest DirectML build, is sure to read."""

CONTROL = frozenset({"If", "Loop", "Scan", "SequenceMap", "SequenceConstruct", "SplitToSequence", "SequenceInsert"})
COUNTING = frozenset({"Range", "Mod"})
DATA_DEPENDENT = frozenset({"NonZero", "Compress", "Unique", "NonMaxSuppression"})
SHAPE_ARITHMETIC = frozenset(
    {
        "Shape",
        "Size",
        "Gather",
        "Squeeze",
        "Unsqueeze",
        "Reshape",
        "Concat",
        "Cast",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Min",
        "Max",
        "Neg",
    }
)
GATHERS = ("Gather", "GatherND", "GatherElements")
HALF, FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT


LARGEST_SHAPE = 64
"""How many values a constant may have to be taken for a shape or indices."""


class RuleError(ValueError):
    """A graph breaks rules; ``violations`` lists them all."""

    def __init__(self, name: str, violations: "list[Violation]") -> None:
        super().__init__(f"{name} breaks {len(violations)} rule(s):\n" + "\n".join(f"  {each}" for each in violations))
        self.violations = violations


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: its number, the node or value that breaks it, and what is wrong."""

    rule: int
    place: str
    message: str

    def __str__(self) -> str:
        return f"rule {self.rule}, {self.place}: {self.message}"


@dataclass
class Graph:
    """A graph prepared for reading, with its constants, producers, and inferred types and shapes."""

    model: onnx.ModelProto
    window_rows: int | None
    constants: dict[str, TensorProto] = field(init=False)
    producers: dict[str, onnx.NodeProto] = field(init=False)
    types: dict[str, int] = field(init=False)
    shapes: dict[str, list[int | str]] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                value = next((each.t for each in node.attribute if each.name == "value"), TensorProto())
                self.constants[node.output[0]] = value
        self.producers = {output: node for node in graph.node for output in node.output}
        self.types = {tensor.name: tensor.data_type for tensor in graph.initializer}
        self.shapes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
        try:
            # Weights are left out, since shapes do not depend on them and inference copies the model several times.
            weights = {tensor.name for tensor in graph.initializer if math.prod(tensor.dims) > LARGEST_SHAPE}
            light = without(self.model, weights)
            inferred = shape_inference.infer_shapes(light, strict_mode=False, data_prop=True).graph
        except (onnx.shape_inference.InferenceError, ValueError):
            inferred = graph
        for value in (*graph.input, *graph.output, *inferred.value_info, *inferred.output):
            kind = value.type.tensor_type
            self.types[value.name] = kind.elem_type
            if kind.HasField("shape"):
                self.shapes[value.name] = [axis.dim_param or axis.dim_value or "?" for axis in kind.shape.dim]
                if any(axis.HasField("dim_value") and axis.dim_value == 0 for axis in kind.shape.dim):
                    self.shapes[value.name] = [axis.dim_param or axis.dim_value for axis in kind.shape.dim]

    @property
    def nodes(self) -> Iterator[onnx.NodeProto]:
        return iter(self.model.graph.node)

    def integers(self, name: str) -> list[int] | None:
        """The values of an integer constant, or None if ``name`` is computed."""
        tensor = self.constants.get(name)
        if tensor is None:
            return None
        # Indices and sizes always lie in the graph itself, even if its weights lie in another file.
        return [int(value) for value in numpy_helper.to_array(tensor).reshape(-1)]

    def from_shapes(self, name: str) -> bool:
        """Whether integer ``name`` is computed from shapes and constants alone."""
        if name in self.constants or not name:
            return True
        node = self.producers.get(name)
        if node is None or node.op_type not in SHAPE_ARITHMETIC:
            return False
        return node.op_type in ("Shape", "Size") or all(self.from_shapes(each) for each in node.input)


Rule = Callable[[Graph], Iterator[Violation]]


def no_control_flow(graph: Graph) -> Iterator[Violation]:
    """1: there is no branch and no loop. They come from Python code that decided by a tensor while it was traced."""
    for node in graph.nodes:
        if node.op_type in CONTROL:
            yield Violation(1, label(node), "control flow")
    if graph.model.functions:
        yield Violation(1, "the model", "holds functions; everything must be one flat graph")


def no_counting(graph: Graph) -> Iterator[Violation]:
    """2: positions are cumulated from ones in the shape of another tensor, and never come from Range or Mod."""
    for node in graph.nodes:
        if node.op_type in COUNTING:
            yield Violation(2, label(node), "indices must be inherited: ones_like(x).cumsum(dim) - 1")


def constant_reshapes(graph: Graph) -> Iterator[Violation]:
    """3: every Reshape target is a constant with at most one 0 and one −1."""
    for node in graph.nodes:
        if node.op_type != "Reshape":
            continue
        target = graph.integers(node.input[1])
        if target is None:
            yield Violation(3, label(node), "the target is computed; use unflatten and flatten")
        elif target.count(0) > 1 or target.count(-1) > 1:
            yield Violation(3, label(node), f"the target {target} has more than one 0 or -1")


def fixed_windows(graph: Graph) -> Iterator[Violation]:
    """4: in a whole-clip graph every attention sees windows of one static length."""
    if graph.window_rows is None:
        return
    for node in graph.nodes:
        if node.op_type == "Softmax":
            shape = graph.shapes.get(node.input[0], [])
            if shape[-2:] != [graph.window_rows, graph.window_rows]:
                yield Violation(4, label(node), f"attends over {shape[-2:]}, not over windows of {graph.window_rows}")


def added_masks(graph: Graph) -> Iterator[Violation]:
    """5: masks are added, never selected."""
    for node in graph.nodes:
        if node.op_type == "Where":
            yield Violation(5, label(node), "selects; add (mask - 1) * 10000 to the scores")
        if node.op_type == "Softmax":
            before = graph.producers.get(node.input[0])
            if before is None or before.op_type not in ("Add", "Cast"):
                yield Violation(5, label(node), "no mask is added to the scores")


def no_data_dependent_cuts(graph: Graph) -> Iterator[Violation]:
    """6: no slice depends on values, and one that depends on a shape cuts on the left only."""
    for node in graph.nodes:
        if node.op_type in DATA_DEPENDENT:
            yield Violation(6, label(node), "the size of the result depends on values")
        if node.op_type != "Slice":
            continue
        if graph.integers(node.input[2]) is None:
            yield Violation(6, label(node), "cut on the right by a computed end; report the valid length instead")
        if not graph.from_shapes(node.input[1]):
            yield Violation(6, label(node), "cut at a place that depends on values")


def bounded_state(graph: Graph) -> Iterator[Violation]:
    """7: an output that is a state is cut by a constant negative slice, or gathered by clamped indices."""
    for value in graph.model.graph.output:
        node = graph.producers.get(value.name)
        if node is None or not value.name.startswith("next_"):
            continue
        if node.op_type == "Slice":
            start = graph.integers(node.input[1])
            if start is None or any(each >= 0 for each in start):
                yield Violation(7, label(node), "a state must be cut by a constant negative start")
        elif node.op_type in GATHERS:
            index = graph.producers.get(node.input[1])
            while index is not None and index.op_type in ("Expand", "Reshape", "Unsqueeze"):
                index = graph.producers.get(index.input[0])
            if node.input[1] not in graph.constants and (index is None or index.op_type not in ("Clip", "Min", "Max")):
                yield Violation(7, label(node), "the indices of a state must be clamped")


def no_empty_axes(graph: Graph) -> Iterator[Violation]:
    """8: no axis is ever 0."""
    for name, shape in graph.shapes.items():
        if 0 in shape:
            yield Violation(8, name, f"has an empty axis: {shape}")


def explicit_kernels(graph: Graph) -> Iterator[Violation]:
    """9: convolutions name their kernel; a transposed one is two-dimensional."""
    for node in graph.nodes:
        if node.op_type not in ("Conv", "ConvTranspose"):
            continue
        if not any(each.name == "kernel_shape" for each in node.attribute):
            yield Violation(9, label(node), "kernel_shape is missing")
        weight = graph.shapes.get(node.input[1], [])
        if node.op_type == "ConvTranspose" and len(weight) != 4:
            yield Violation(9, label(node), "must be a ConvTranspose2d of height 1")


def long_indices(graph: Graph) -> Iterator[Violation]:
    """10: indices are int64."""
    for node in graph.nodes:
        if node.op_type in GATHERS and graph.types.get(node.input[1]) != TensorProto.INT64:
            yield Violation(10, label(node), "the indices are not int64")


def opset_and_dynamic_axes(graph: Graph) -> Iterator[Violation]:
    """11: the opset is 18, the IR version is one that the newest DirectML build reads, and batch axes are dynamic."""
    domains = {each.domain: each.version for each in graph.model.opset_import}
    if domains.get("", domains.get("ai.onnx")) != OPSET:
        yield Violation(11, "the model", f"opset {domains.get('', domains.get('ai.onnx'))}, not {OPSET}")
    if others := set(domains) - {"", "ai.onnx"}:
        yield Violation(11, "the model", f"operators of {', '.join(sorted(others))}")
    if graph.model.ir_version > IR_VERSION:
        yield Violation(11, "the model", f"IR version {graph.model.ir_version}, beyond {IR_VERSION}")
    for value in graph.model.graph.input:
        axes = value.type.tensor_type.shape.dim
        # An input with a single value is a flag, which has no batch.
        if axes and not axes[0].dim_param and [axis.dim_value for axis in axes] != [1]:
            yield Violation(11, value.name, "the batch axis is frozen (onnxsim does that)")


def one_precision(graph: Graph) -> Iterator[Violation]:
    """12: float16 graphs take and give float16, and compute norms and softmax in float32."""
    ports = (*graph.model.graph.input, *graph.model.graph.output)
    kinds = {value.type.tensor_type.elem_type for value in ports} & {HALF, FLOAT}
    if len(kinds) > 1:
        yield Violation(12, "the model", "takes or gives float16 and float32 mixed")
    for node in graph.nodes:
        if node.op_type in ("Softmax", "LogSoftmax", "LayerNormalization") and graph.types.get(node.input[0]) == HALF:
            yield Violation(12, label(node), "computes in float16")


RULES: Mapping[int, Rule] = {
    1: no_control_flow,
    2: no_counting,
    3: constant_reshapes,
    4: fixed_windows,
    5: added_masks,
    6: no_data_dependent_cuts,
    7: bounded_state,
    8: no_empty_axes,
    9: explicit_kernels,
    10: long_indices,
    11: opset_and_dynamic_axes,
    12: one_precision,
}


def violations(model: onnx.ModelProto, *, window_rows: int | None = None) -> list[Violation]:
    """All violations of rules in ``model``. ``window_rows`` is the window's length in a whole-clip graph, None for
    others."""
    graph = Graph(model, window_rows)
    return [violation for rule in RULES.values() for violation in rule(graph)]


def check(model: onnx.ModelProto, name: str, *, window_rows: int | None = None) -> None:
    """Raise RuleError if ``model`` breaks a rule."""
    if found := violations(model, window_rows=window_rows):
        raise RuleError(name, found)


def label(node: onnx.NodeProto) -> str:
    """How messages call a node."""
    return f"{node.op_type} {node.name or '→ ' + node.output[0]}"
