"""Writes data/published.onnx: a tiny causal "codec" behind the 21 inputs and outputs of the published stateful decoder.

Needs the onnx package: ``python tests/codec/published.py``. The test of the compatibility path computes the same sound
in numpy, for the whole talker at once (tests/codec/test_published.py). Like the published graphs (names and order of
HaujetZhao/Qwen3-TTS-GGUF, 13-Export-Decoder.py) it has states that grow from length 0, holds back four frames until
``is_last``, and returns more than ``valid_samples``.
"""

from pathlib import Path

import numpy as np

Q, ENTRIES, WIDTH, HEADS, DIM, LAYERS, SAMPLES, WINDOW, AHEAD = 4, 16, 8, 2, 4, 8, 12, 8, 4
KEPT = 72
FILE = Path(__file__).parent / "data" / "published.onnx"


def weights() -> dict[str, np.ndarray]:
    """The graph's numbers; the test uses the same."""
    random = np.random.default_rng(21)

    def make(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    found = {"table": make(Q * ENTRIES, WIDTH), "pre": make(WIDTH, WIDTH, 3), "conv": make(SAMPLES, WIDTH, 5)}
    for layer in range(LAYERS):
        found[f"k{layer}"], found[f"v{layer}"] = make(WIDTH, WIDTH), make(WIDTH, WIDTH)
    return found


def build() -> None:
    """Write the graph."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[onnx.NodeProto] = []
    constants = {
        **weights(),
        "first": (np.arange(Q) * ENTRIES).astype(np.int64),
        "zero1": np.array([0], np.int64),
        "two": np.array([2], np.int64),
        "end": np.array([2**31], np.int64),
        "minus2": np.array([-2], np.int64),
        "minus4": np.array([-4], np.int64),
        "kept": np.array([-KEPT], np.int64),
        "axis2": np.array([2], np.int64),
        "axis": np.array(2, np.int64),
        "four": np.array([AHEAD], np.int64),
        "samples": np.array([SAMPLES], np.int64),
        "window": np.array([WINDOW], np.int64),
        "pad2": np.array([0, 0, 2, 0, 0, 0], np.int64),
        "pad4": np.array([0, 0, 4, 0, 0, 0], np.int64),
        "padw": np.array([0, 0, WINDOW, 0, 0, 0, 0, 0], np.int64),
        "heads": np.array([0, HEADS, DIM, -1], np.int64),
        "flat": np.array([0, WIDTH, -1], np.int64),
        "wave": np.array([0, -1], np.int64),
        "tenth": np.array(0.1, np.float32),
    }

    def op(kind: str, inputs: list[str], name: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def cut(x: str, start: str, stop: str, name: str) -> str:
        return op("Slice", [x, start, stop, "axis2"], name)

    def length(x: str, name: str) -> str:
        return op("Gather", [op("Shape", [x], f"{name}_shape"), "axis2"], name, axis=0)

    rows = op("Gather", ["table", op("Add", ["audio_codes", "first"], "ids")], "rows", axis=0)
    summed = op("ReduceSum", [rows, "axis2"], "summed", keepdims=0)
    quantised = op("Transpose", [summed], "quantised", perm=[0, 2, 1])
    frames = length(quantised, "frames")
    start = op("Neg", [frames], "minus_frames")
    seen = op("Concat", ["pre_conv_history", quantised], "seen", axis=2)
    pre = op("Conv", [op("Pad", [seen, "pad2"], "seen_padded"), "pre"], "pre_all")
    x = cut(pre, start, "end", "x0")
    cut(seen, "minus2", "end", "next_pre_conv_history")
    for layer in range(LAYERS):
        parts: list[str] = []
        for kind in ("key", "value"):
            one = f"{kind}{layer}"
            product = op("MatMul", [f"{kind[0]}{layer}", x], f"{one}_flat")
            split = op("Reshape", [product, "heads"], f"{one}_split")
            turned = op("Transpose", [split], f"{one}_turned", perm=[0, 1, 3, 2])
            joined = op("Concat", [f"past_{kind}_{layer}", turned], f"{one}_joined", axis=2)
            cut(joined, "kept", "end", f"next_{kind}_{layer}")
            padded = op("Pad", [op("CumSum", [joined, "axis"], f"{one}_sum"), "padw"], f"{one}_padded")
            late = cut(padded, "window", "end", f"{one}_late")
            before = cut(padded, "zero1", length(joined, f"{one}_length"), f"{one}_before")
            recent = cut(op("Sub", [late, before], f"{one}_window"), start, "end", f"{one}_recent")
            back = op("Transpose", [recent], f"{one}_back", perm=[0, 1, 3, 2])
            parts.append(op("Reshape", [back, "flat"], f"{one}_out"))
        gated = op("Mul", [op("Tanh", [parts[0]], f"gate{layer}"), parts[1]], f"gated{layer}")
        x = op("Add", [x, op("Mul", [gated, "tenth"], f"small{layer}")], f"x{layer + 1}")
    held = op("Concat", ["latent_buffer", x], "held", axis=2)
    size = length(held, "held_length")
    ready = op("Max", [op("Sub", [size, "four"], "less"), "zero1"], "ready")
    last = op("Cast", ["is_last"], "last", to=TensorProto.INT64)
    final = op("Add", [ready, op("Mul", [last, op("Sub", [size, ready], "rest")], "released")], "final")
    cut(held, "minus4", "end", "next_latent_buffer")
    context = op("Concat", ["conv_history", held], "context", axis=2)
    done = op("Add", [length("conv_history", "history_length"), final], "done")
    cut(cut(context, "zero1", done, "finished"), "minus4", "end", "next_conv_history")
    sound = op("Conv", [op("Pad", [context, "pad4"], "context_padded"), "conv"], "sound_all")
    sound = cut(sound, op("Neg", [size], "minus_size"), "end", "sound")
    op("Reshape", [op("Transpose", [sound], "turned", perm=[0, 2, 1]), "wave"], "final_wav")
    op("Mul", [final, "samples"], "valid_samples")

    def value(name: str, *shape: int | str, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, dtype, shape)

    kv = [f"{kind}_{layer}" for kind in ("key", "value") for layer in range(LAYERS)]
    inputs = [
        value("audio_codes", "b", "n", Q, dtype=TensorProto.INT64),
        value("pre_conv_history", "b", WIDTH, "p"),
        value("latent_buffer", "b", WIDTH, "l"),
        value("conv_history", "b", WIDTH, "c"),
        *(value(f"past_{name}", "b", HEADS, f"s_{name}", DIM) for name in kv),
        value("is_last", 1),
    ]
    outputs = [
        value("final_wav", "b", "t"),
        value("valid_samples", 1, dtype=TensorProto.INT64),
        value("next_pre_conv_history", "b", WIDTH, "np"),
        value("next_latent_buffer", "b", WIDTH, "nl"),
        value("next_conv_history", "b", WIDTH, "nc"),
        *(value(f"next_{name}", "b", HEADS, f"n_{name}", DIM) for name in kv),
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "published_form", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    build()
