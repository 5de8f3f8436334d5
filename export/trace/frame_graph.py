"""The code predictor as one ONNX graph that makes a whole frame: all passes, heads and draws in one call.

A pass of the predictor is short. With a call of llama.cpp for each pass much of the time goes into joining threads
after every operator, into Python between passes, and into heads in float32. In this graph the passes follow each other
and share the weights. codec/frame_graph.py runs it. It uses ONNX Runtime's own operators, which differ from provider to
provider, so there is a graph for each:

- for processors matrices are in 4 bits with blocks of 32 (``MatMulNBits``), heads in 8 bits, everything else in
  float32;
- for CUDA matrices, heads and attention are in float16; sums of layers, norms over them and draws stay in float32.

Inputs: ``hidden`` float [B, width], the talker's state, projected; ``first`` float [B, width], the row of code 0;
``rows`` [table, width], the table of rows; ``uniform`` float [B, G] in [0, 1), a number for each draw, 0 for the
likeliest code; ``temperature`` and ``top_p`` float [B, 1]; ``top_k`` int64 [1]. Output: ``codes`` int64 [B, G].
"""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.checkpoint import Checkpoint
from export.dims import DecoderDims
from export.names import FrameWeights
from export.trace.graphs import Traced
from export.trace.rules import IR_VERSION, OPSET
from export.trace.weights import Read, reader
from export.transforms import BLOCK, Recipe, apply
from export.tts.dims import TtsDims

Floats = NDArray[np.float32]

STACK = "talker.code_predictor.model."
"""The prefix of the names of the predictor's layers."""
CONTRIB = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""
ACCURACY = 4
"""The level of MatMulNBits at which products are those of 8-bit integers, with rows rounded in the same blocks."""


Matrix = Callable[[str], str]
"""Adds the product ``rows @ weight.T`` to the graph: it takes the name of the rows and returns that of the product."""


class Writer:
    """Nodes and weights of the graph that is being written, whose products and attention are in float16 if ``half``."""

    def __init__(self, half: bool) -> None:
        self.half = half
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self._count = 0
        self.recipes: dict[str, Recipe] = {}
        self._kept: set[str] = set()

    def weight(self, name: str, value: NDArray[np.generic]) -> str:
        """Keep a tensor under ``name``, unless there is one, and return the name."""
        if name in self._kept:
            return name
        self._kept.add(name)
        self.weights.append(numpy_helper.from_array(np.array(value, order="C"), name))
        if (recipe := getattr(value, "recipe", None)) is not None:
            self.recipes[name] = recipe
        return name

    def op(
        self,
        kind: str,
        *inputs: str,
        outputs: int = 1,
        unused: Collection[int] = (),
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """Add a node and return the names of its outputs, empty for those in ``unused``."""
        self._count += 1
        names = [f"{kind.lower()}_{self._count}_{i}" if i not in unused else "" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names

    def one(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output and return its name."""
        return self.op(kind, *inputs, domain=domain, **attributes)[0]

    def operand(self, name: str, value: Floats) -> str:
        """Keep a tensor in the type of products."""
        return self.weight(name, apply("half", value) if self.half else value)

    def narrow(self, rows: str) -> str:
        """``rows``, which are float32, in the type of products."""
        return self.one("Cast", rows, to=TensorProto.FLOAT16) if self.half else rows

    def widen(self, rows: str) -> str:
        """``rows``, which are in the type of products, in float32."""
        return self.one("Cast", rows, to=TensorProto.FLOAT) if self.half else rows

    def matrix(self, name: str, weight: Floats, bits: int) -> Matrix:
        """Keep a matrix [n, k], rounded to 4 or 8 ``bits``, or in the type of products with more."""
        if bits > 8:
            plain = self.operand(name, apply("transpose", weight))
            return lambda rows: self.one("MatMul", rows, plain)
        made = apply("rounded", weight, bits)
        names = tuple(
            self.weight(f"{name}.{part}", apply("item", made, place)) for place, part in enumerate(("codes", "scales"))
        )
        shape = {"N": weight.shape[0], "K": weight.shape[1], "bits": bits, "block_size": BLOCK}
        return lambda rows: self.one("MatMulNBits", rows, *names, domain=CONTRIB, accuracy_level=ACCURACY, **shape)


class Layer:
    """A layer of the predictor. Each call adds its nodes for one pass."""

    def __init__(self, writer: Writer, index: int, tensors: Read, dims: DecoderDims, bits: int) -> None:
        self._writer, self._dims = writer, dims

        def read(name: str) -> Floats:
            return tensors(f"{STACK}layers.{index}.{name}.weight")

        projections = [read(f"self_attn.{each}_proj") for each in ("q", "k", "v")]
        self._entry = writer.matrix(f"{index}.qkv", apply("join", *projections), bits)
        self._exit = writer.matrix(f"{index}.o", read("self_attn.o_proj"), bits)
        self._rise = writer.matrix(f"{index}.up", apply("join", read("mlp.gate_proj"), read("mlp.up_proj")), bits)
        self._fall = writer.matrix(f"{index}.down", read("mlp.down_proj"), bits)
        self._norms = {
            name: keep(f"{index}.{name}", read(name))
            for keep, names in (
                (writer.weight, ("input_layernorm", "post_attention_layernorm")),
                (writer.operand, ("self_attn.q_norm", "self_attn.k_norm")),
            )
            for name in names
        }
        q, kv = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
        self._parts = writer.weight(f"{index}.qkv.parts", np.array([q, kv, kv], np.int64))
        self._shapes = {
            name: writer.weight(f"{index}.{name}.shape", np.array(shape, np.int64))
            for name, shape in (
                ("q", [0, 0, dims.heads, dims.head_dim]),
                ("k", [0, 0, dims.kv_heads, dims.head_dim]),
                ("flat q", [0, 0, q]),
                ("flat k", [0, 0, kv]),
            )
        }
        self._past: tuple[str, str] = ("", "")

    @property
    def first_norm(self) -> str:
        """The weight of the norm at the layer's beginning."""
        return self._norms["input_layernorm"]

    def __call__(self, state: str, normal: str, lengths: tuple[str, str], tables: tuple[str, str]) -> tuple[str, str]:
        """(state, normed state) → (state before the MLP's sum, what the MLP adds)."""
        w, dims = self._writer, self._dims
        q, k, v = w.op("Split", self._entry(w.narrow(normal)), self._parts, outputs=3, axis=-1)
        q, k = self._per_head(q, "q"), self._per_head(k, "k")
        mixed, *past = w.op(
            "GroupQueryAttention", q, k, v, *self._past, *lengths, *tables, outputs=3, domain=CONTRIB,
            num_heads=dims.heads, kv_num_heads=dims.kv_heads, do_rotary=1, rotary_interleaved=0,
        )  # fmt: skip
        self._past = past[0], past[1]
        normal, _, _, state = w.op(
            "SkipSimplifiedLayerNormalization", state, w.widen(self._exit(mixed)),
            self._norms["post_attention_layernorm"], outputs=4, unused=(1, 2), domain=CONTRIB, epsilon=dims.epsilon,
        )  # fmt: skip
        gate, up = w.op("Split", self._rise(w.narrow(normal)), outputs=2, axis=-1, num_outputs=2)
        return state, w.widen(self._fall(w.one("Mul", w.one("QuickGelu", gate, domain=CONTRIB, alpha=1.0), up)))

    def _per_head(self, rows: str, name: str) -> str:
        """Normalise queries or keys head by head."""
        heads = self._writer.one("Reshape", rows, self._shapes[name])
        return self._writer.one("Reshape", self._norm(heads, f"self_attn.{name}_norm"), self._shapes[f"flat {name}"])

    def _norm(self, rows: str, name: str) -> str:
        return self._writer.one(
            "SimplifiedLayerNormalization", rows, self._norms[name], axis=-1, epsilon=self._dims.epsilon
        )


class Draw:
    """Draws a code from each row's logits as ``codec.sampling.draw`` does: by temperature, top-k, top-p and a uniform
    number."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._axis = writer.weight("draw.axis", np.array(1, np.int64))
        self._axes = writer.weight("draw.axes", np.array([1], np.int64))
        self._none = writer.weight("draw.none", np.array([1e30], np.float32))
        self._one = writer.weight("draw.one", np.array([1], np.int64))

    def __call__(self, logits: str, uniform: str) -> str:
        """``logits`` [B, E] and ``uniform`` [B, 1] → codes int64 [B, 1]."""
        w = self._writer
        best, places = w.op("TopK", w.one("Div", logits, "temperature"), "top_k", outputs=2, axis=1)
        mass = w.one("CumSum", w.one("Softmax", best, axis=1), self._axis)
        whole = w.one("ReduceMax", mass, self._axes, keepdims=1)
        # Nothing is drawn beyond the last member of the smallest set whose mass reaches top_p.
        beyond = w.one("GreaterOrEqual", mass, w.one("Mul", whole, "top_p"))
        kept = w.one("ReduceMin", w.one("Where", beyond, mass, self._none), self._axes, keepdims=1)
        below = w.one("LessOrEqual", mass, w.one("Mul", uniform, w.one("Min", kept, whole)))
        place = w.one("ReduceSum", w.one("Cast", below, to=TensorProto.INT64), self._axes, keepdims=1)
        last = w.one("Sub", "top_k", self._one)
        return w.one("GatherElements", places, w.one("Min", place, last), axis=1)


def frame_graph(model: Checkpoint, dims: TtsDims, weights: FrameWeights, *, half: bool) -> Traced:
    """The graph of a checkpoint's predictor, its matrices stored as ``weights`` says. ``half`` tells whether the table
    of rows is float16."""
    small, groups = dims.predictor, dims.codec.codebooks - 1
    w, read = Writer(weights == "fp16"), reader(model)
    bits, head_bits = {"int4": (4, 8), "fp16": (16, 16), "fp32": (32, 32)}[weights]
    layers = [Layer(w, index, read, small, bits) for index in range(small.layers)]
    heads = [w.matrix(f"head.{g}", read(f"talker.code_predictor.lm_head.{g}.weight"), head_bits) for g in range(groups)]
    final = w.weight("norm", read(f"{STACK}norm.weight"))
    tables = rotations(w, small, groups + 1)
    draw, middle = Draw(w), w.weight("middle", np.array([1], np.int64))
    batch = w.one("Shape", "hidden", start=0, end=1)
    state = w.one("Concat", *(w.one("Unsqueeze", name, middle) for name in ("hidden", "first")), axis=1)
    last = w.weight("last", np.array(-1, np.int64))
    codes: list[str] = []
    for g in range(groups):
        count = g + 2  # How many positions there are, those of this pass included.
        seen = w.one("Expand", w.weight(f"seen.{g}", np.array([count - 1], np.int32)), batch)
        lengths = seen, w.weight(f"count.{g}", np.array(count, np.int32))
        normal = w.one("SimplifiedLayerNormalization", state, layers[0].first_norm, axis=-1, epsilon=small.epsilon)
        for layer, following in zip(layers, [*(each.first_norm for each in layers[1:]), final], strict=True):
            state, more = layer(state, normal, lengths, tables)
            normal, _, _, state = w.op(
                "SkipSimplifiedLayerNormalization", state, more, following, outputs=4, unused=(1, 2), domain=CONTRIB,
                epsilon=small.epsilon,
            )  # fmt: skip
        logits = w.widen(heads[g](w.narrow(w.one("Gather", normal, last, axis=1))))
        ends = (w.weight(f"draw.{place}", np.array([place], np.int64)) for place in (g, g + 1))
        codes.append(draw(logits, w.one("Slice", "uniform", *ends, middle)))
        if g + 1 < groups:
            table_start = np.array([dims.talker.vocabulary + g * dims.codec.entries], np.int64)
            place = w.one("Add", codes[-1], w.weight(f"table.{g}", table_start))
            state = w.one("Gather", "rows", place, axis=0)
            state = w.one("Cast", state, to=TensorProto.FLOAT) if half else state
    w.nodes.append(helper.make_node("Concat", codes, ["codes"], axis=1))
    table = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    entry = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("hidden", TensorProto.FLOAT, ["batch", small.width]),
            ("first", TensorProto.FLOAT, ["batch", small.width]),
            ("rows", table, ["table", small.width]),
            ("uniform", TensorProto.FLOAT, ["batch", groups]),
            ("temperature", TensorProto.FLOAT, ["batch", 1]),
            ("top_p", TensorProto.FLOAT, ["batch", 1]),
            ("top_k", TensorProto.INT64, [1]),
        )
    ]
    exits = [helper.make_tensor_value_info("codes", TensorProto.INT64, ["batch", groups])]
    graph = helper.make_graph(w.nodes, "frame", entry, exits, w.weights)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = IR_VERSION
    return Traced(made, w.recipes)


def rotations(writer: Writer, dims: DecoderDims, positions: int) -> tuple[str, str]:
    """The cosines and the sines of the rotary embedding, each [positions, head_dim / 2]."""
    steps = dims.rope_theta ** (-np.arange(0, dims.head_dim, 2, dtype=np.float64) / dims.head_dim)
    angles = np.arange(positions)[:, None] * steps
    return (
        writer.operand("cosines", np.cos(angles).astype(np.float32)),
        writer.operand("sines", np.sin(angles).astype(np.float32)),
    )
