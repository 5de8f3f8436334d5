"""The rule checker: every exported graph passes, and a graph that breaks a rule is caught by that rule."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.trace.rules import RULES, RuleError, check, violations

pytestmark = pytest.mark.reference

F, H, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64


def graph(
    nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: dict[str, Any], **constants: Any
) -> onnx.ModelProto:
    """A model of ``nodes``; ports are name → (type, shape)."""
    ports = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in each.items()]
        for each in (inputs, outputs)
    ]
    weights = [numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()]
    made = helper.make_graph(nodes, "test", *ports, weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def attention(kind: int = F, rows: int | str = 104) -> onnx.ModelProto:
    """A graph that breaks nothing: reshape, masked scores, softmax."""
    return graph(
        [
            helper.make_node("Reshape", ["x", "target"], ["scores"]),
            helper.make_node("Add", ["scores", "mask"], ["masked"]),
            helper.make_node("Softmax", ["masked"], ["y"], axis=-1),
        ],
        {"x": (kind, ["windows", 1, rows, rows]), "mask": (kind, ["windows", 1, 1, rows])},
        {"y": (kind, ["windows", 1, rows, rows])},
        target=np.array([0, 1, 104, 104] if rows == 104 else [0, 1, -1, 104]),
    )


def insert(model: onnx.ModelProto, *nodes: onnx.NodeProto, **constants: Any) -> onnx.ModelProto:
    """``model`` with nodes put before all others."""
    before = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *before])
    for name, values in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
    return model


def control_flow() -> onnx.ModelProto:
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["z"])], "branch", [], [helper.make_tensor_value_info("z", F, None)]
    )
    node = helper.make_node("If", ["choice"], ["w"], then_branch=branch, else_branch=copy.deepcopy(branch))
    return insert(attention(), node, choice=np.array(True))


def nested_function() -> onnx.ModelProto:
    model = attention()
    body = [helper.make_node("Identity", ["a"], ["b"])]
    model.functions.append(helper.make_function("local", "f", ["a"], ["b"], body, [helper.make_opsetid("", 18)]))
    return model


def counting(operator: str) -> Callable[[], onnx.ModelProto]:
    inputs = ["zero", "ten", "one"] if operator == "Range" else ["ten", "one"]
    node = helper.make_node(operator, inputs, ["w"])
    return lambda: insert(attention(), node, zero=np.int64(0), ten=np.int64(10), one=np.int64(1))


def computed_reshape() -> onnx.ModelProto:
    model = insert(attention(), helper.make_node("Shape", ["x"], ["size"]))
    next(node for node in model.graph.node if node.op_type == "Reshape").input[1] = "size"
    return model


def vague_reshape() -> onnx.ModelProto:
    model = attention()
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([0, 0, 104, 104]), "target"))
    return model


def sliding_window() -> onnx.ModelProto:
    return attention(rows="length")


def selected_mask() -> onnx.ModelProto:
    model = attention()
    model.graph.node[1].CopyFrom(helper.make_node("Where", ["keep", "scores", "low"], ["masked"]))
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "keep"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(-1e4), "low"))
    return model


def no_mask() -> onnx.ModelProto:
    model = attention()
    model.graph.node[1].CopyFrom(helper.make_node("Mul", ["scores", "mask"], ["masked"]))
    return model


def cut(starts: str, ends: str) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        model = attention()
        model.graph.input.append(helper.make_tensor_value_info("where", I64, ["n"]))
        return insert(
            model,
            helper.make_node("Shape", ["x"], ["size"], start=0, end=1),
            helper.make_node("Slice", ["x", starts, ends, "axes"], ["w"]),
            zero=np.array([0]), last=np.array([2**62]), axes=np.array([0]),
        )  # fmt: skip

    return build


def value_dependent() -> onnx.ModelProto:
    return insert(attention(), helper.make_node("NonZero", ["x"], ["w"]))


def state(nodes: list[onnx.NodeProto], **constants: Any) -> Callable[[], onnx.ModelProto]:
    ports = {"history": (F, ["n", 8]), "place": (I64, ["n"])}
    return lambda: graph(nodes, ports, {"next_history": (F, None)}, **constants)


def empty_axis() -> onnx.ModelProto:
    return insert(
        attention(),
        helper.make_node("Concat", ["nothing", "x"], ["w"], axis=2),
        nothing=np.zeros((1, 1, 0, 104), np.float32),
    )


def convolution(operator: str, shape: list[int], kernel: bool) -> Callable[[], onnx.ModelProto]:
    node = helper.make_node(operator, ["x", "weight"], ["y"], **({"kernel_shape": shape[2:]} if kernel else {}))
    axes = ["n", shape[1 if operator == "Conv" else 0], *["l"] * (len(shape) - 2)]
    return lambda: graph([node], {"x": (F, axes)}, {"y": (F, None)}, weight=np.ones(shape, np.float32))


def short_indices() -> onnx.ModelProto:
    return insert(attention(), helper.make_node("Gather", ["x", "place"], ["w"]), place=np.array([0], np.int32))


def opset(version: int) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        model = attention()
        model.opset_import[0].version = version
        return model

    return build


def foreign_operators() -> onnx.ModelProto:
    model = attention()
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def new_ir() -> onnx.ModelProto:
    model = attention()
    model.ir_version = 11
    return model


def frozen_batch() -> onnx.ModelProto:
    model = attention()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    return model


def mixed_precision() -> onnx.ModelProto:
    model = attention()
    return (
        insert(model, helper.make_node("Cast", ["half"], ["w"], to=F), half=np.float16(1))
        if not model.graph.input.append(helper.make_tensor_value_info("h", H, ["n"]))
        else model
    )


BROKEN: list[tuple[int, str, Callable[[], onnx.ModelProto]]] = [
    (1, "a branch", control_flow),
    (1, "a function", nested_function),
    (2, "Range", counting("Range")),
    (2, "Mod", counting("Mod")),
    (3, "a computed Reshape target", computed_reshape),
    (3, "two zeros in a Reshape target", vague_reshape),
    (4, "attention over a dynamic length", sliding_window),
    (5, "a selected mask", selected_mask),
    (5, "no mask", no_mask),
    (6, "a cut on the right by a shape", cut("zero", "size")),
    (6, "a cut on the right by a value", cut("zero", "where")),
    (6, "a cut on the left by a value", cut("where", "last")),
    (6, "NonZero", value_dependent),
    (7, "a state cut from the front", state(
        [helper.make_node("Slice", ["history", "start", "end"], ["next_history"])],
        start=np.array([2]), end=np.array([9]))),
    (7, "a state gathered at unclamped places", state(
        [helper.make_node("Add", ["place", "one"], ["at"]),
         helper.make_node("Gather", ["history", "at"], ["next_history"])],
        one=np.array([1]))),
    (8, "an empty history", empty_axis),
    (9, "a convolution without kernel_shape", convolution("Conv", [4, 2, 3, 3], False)),
    (9, "a one-dimensional ConvTranspose", convolution("ConvTranspose", [2, 4, 3], True)),
    (10, "int32 indices", short_indices),
    (11, "opset 17", opset(17)),
    (11, "opset 20", opset(20)),
    (11, "contrib operators", foreign_operators),
    (11, "a newer IR version", new_ir),
    (11, "a frozen batch axis", frozen_batch),
    (12, "float16 and float32 inputs", mixed_precision),
    (12, "a softmax in float16", lambda: attention(H)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "build"), [each[::2] for each in BROKEN], ids=[f"{each[0]}: {each[1]}" for each in BROKEN]
)
def test_a_graph_that_breaks_a_rule_is_caught_by_that_rule(rule: int, build: Callable[[], onnx.ModelProto]) -> None:
    """And by none that it keeps, but where one fault breaks two."""
    found = {each.rule for each in violations(build(), window_rows=104 if rule == 4 else None)}
    assert rule in found
    assert found <= {rule, *({10} if rule == 7 else ())}
    with pytest.raises(RuleError, match=f"rule {rule}, "):
        check(build(), "broken.onnx", window_rows=104 if rule == 4 else None)


def test_every_rule_has_a_graph_that_breaks_it() -> None:
    """No rule that cannot fail."""
    assert {each[0] for each in BROKEN} == set(RULES)


def test_cuts_on_the_left_by_a_shape_and_states_cut_by_constants_are_fine() -> None:
    """What the rules recommend."""
    check(attention(), "good.onnx", window_rows=104)
    check(cut("size", "last")(), "left.onnx")
    keep = [helper.make_node("Slice", ["history", "start", "end"], ["next_history"])]
    check(state(keep, start=np.array([-72]), end=np.array([2**62]))(), "state.onnx")
    clamped = [
        helper.make_node("Clip", ["place", "low", "high"], ["at"]),
        helper.make_node("Gather", ["history", "at"], ["next_history"]),
    ]  # fmt: skip
    check(state(clamped, low=np.int64(0), high=np.int64(7))(), "gathered.onnx")


def test_every_exported_graph_keeps_the_rules(case: Any) -> None:
    """Read back from disk, weights elsewhere."""
    for path in sorted(Path(case.model).glob("*.onnx")):
        model = onnx.load(path, load_external_data=False)
        assert not violations(
            model, window_rows=case.exported.manifest.encoder.window_rows if path.stem == "clip" else None
        )
