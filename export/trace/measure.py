"""Measuring how fast and how exact the encoder's precisions are at Qwen3-ASR-0.6B's dimensions
(notes/2026-11-export.md).

The weights are random, scaled as in the parity checks. Besides what ``--encoder`` offers, two ways are measured that
were not taken: ``MatMulNBits`` with 8-bit weights in blocks, an operator of ONNX Runtime's own whose rows are
independent too; and ``DynamicQuantizeLinear``, which is fastest but has one range for the whole tensor, so that windows
in the same call change each other.

usage: python -m export.trace.measure [--threads 2] [--rows 13 52 104]
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.columns import quantize_columns
from export.dims import EncoderDims, encoder_shapes
from export.trace import graphs
from export.trace.encoder import Body, Stem
from export.trace.quantize import quantize_graph

Floats = NDArray[np.float32]

DIMS = EncoderDims(
    bins=128, channels=480, bands=16, width=896, layers=18, heads=14, head_dim=64, ffn=3584, output=1024,
    chunk_frames=100, chunk_rows=13, window_rows=104, ctc=None,
)  # fmt: skip


def weights() -> Callable[[str], Floats]:
    """A reader of random tensors: convolutions are scaled as by Kaiming, other matrices to a gain of one."""
    shapes, random = dict(encoder_shapes(DIMS)), np.random.default_rng(0)

    def read(name: str) -> Floats:
        shape = shapes[name]
        values = random.standard_normal(shape, np.float32)
        if len(shape) == 1:
            return 0.1 * values + (1.0 if "norm.weight" in name or name.endswith("ln_post.weight") else 0.0)
        return values * np.float32((2.0 if "conv2d" in name else 1.0) / np.prod(shape[1:])) ** 0.5

    return read


def each_product(model: onnx.ModelProto, replace: Callable[[str, str, Floats, str], Sequence[onnx.NodeProto]]) -> None:
    """Replace every product with a weight by the nodes that ``replace(input, name, values, output)`` gives."""
    graph = model.graph
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        weight = initializers.get(node.input[1]) if node.op_type == "MatMul" else None
        if weight is None:
            nodes.append(node)
        else:
            nodes += replace(node.input[0], weight.name, numpy_helper.to_array(weight), node.output[0])
    del graph.node[:]
    graph.node.extend(nodes)
    graphs.drop_dead(graph)


def blocks(traced: graphs.Traced, size: int) -> None:
    """Rewrite products to 8-bit ``MatMulNBits`` in blocks of ``size`` inputs."""
    model = traced.model
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))

    def replace(source: str, name: str, values: Floats, output: str) -> list[onnx.NodeProto]:
        inputs, outputs = values.shape
        count = -(-inputs // size)
        blocked = np.pad(values, ((0, count * size - inputs), (0, 0))).reshape(count, size, outputs)
        scales = np.abs(blocked).max(1) / 127
        integers = np.clip(np.rint(blocked / scales[:, None]), -127, 127) + 128
        for suffix, array in (
            ("q", integers.transpose(2, 0, 1).astype(np.uint8)),
            ("s", np.ascontiguousarray(scales.T)),
        ):
            model.graph.initializer.append(numpy_helper.from_array(array, f"{name}/{suffix}"))
        return [
            helper.make_node(
                "MatMulNBits", [source, f"{name}/q", f"{name}/s"], [output], domain="com.microsoft",
                K=inputs, N=outputs, bits=8, block_size=size, accuracy_level=4,
            )
        ]  # fmt: skip

    each_product(model, replace)


def whole_tensor(traced: graphs.Traced) -> None:
    """Rewrite products to those of 8-bit integers, with ``DynamicQuantizeLinear`` over whole activations."""
    model = traced.model
    done: set[str] = set()

    def replace(source: str, name: str, values: Floats, output: str) -> list[onnx.NodeProto]:
        integers, scales = quantize_columns(values, multiplied=True)
        for suffix, array in (("q", integers), ("s", scales)):
            model.graph.initializer.append(numpy_helper.from_array(array, f"{name}/{suffix}"))
        rows = [f"{source}/{suffix}" for suffix in ("q", "s", "z")]
        nodes = [] if source in done else [helper.make_node("DynamicQuantizeLinear", [source], rows)]
        done.add(source)
        return [
            *nodes,
            helper.make_node("MatMulInteger", [rows[0], f"{name}/q", rows[2]], [f"{output}/i"]),
            helper.make_node("Cast", [f"{output}/i"], [f"{output}/f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [rows[1], f"{name}/s"], [f"{output}/s"]),
            helper.make_node("Mul", [f"{output}/f", f"{output}/s"], [output]),
        ]

    each_product(model, replace)


def integer_convolutions(traced: graphs.Traced) -> None:
    """Rewrite the second and third convolution to ``ConvInteger`` with a scale for each chunk."""
    graph = traced.model.graph
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    constants = {"axes": np.array([1, 2, 3]), "step": np.float32(1 / 127), "zero": np.uint8(128)}
    graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items())
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type != "Conv" or initializers[node.input[1]].dims[1] == 1:
            nodes.append(node)
            continue
        source, name, output = node.input[0], node.input[1], node.output[0]
        values = numpy_helper.to_array(initializers[name])
        integers, scales = quantize_columns(values.reshape(len(values), -1).T, multiplied=True)
        extra = {
            f"{name}/q": np.ascontiguousarray(integers.T).reshape(values.shape),
            f"{name}/s": (scales / 127)[:, None, None],
        }
        extra[f"{name}/b"] = numpy_helper.to_array(initializers[node.input[2]])[:, None, None]
        graph.initializer.extend(numpy_helper.from_array(array, each) for each, array in extra.items())
        convolution = helper.make_node("ConvInteger", [f"{output}/q", f"{name}/q", "zero"], [f"{output}/i"])
        convolution.attribute.extend(node.attribute)
        nodes += [
            helper.make_node("Abs", [source], [f"{output}/a"]),
            helper.make_node("ReduceMax", [f"{output}/a", "axes"], [f"{output}/m"], keepdims=1),
            helper.make_node("Div", [source, f"{output}/m"], [f"{output}/u"]),
            helper.make_node("QuantizeLinear", [f"{output}/u", "step", "zero"], [f"{output}/q"]),
            convolution,
            helper.make_node("Cast", [f"{output}/i"], [f"{output}/f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{output}/f", f"{name}/s"], [f"{output}/c"]),
            helper.make_node("Mul", [f"{output}/c", f"{output}/m"], [f"{output}/w"]),
            helper.make_node("Add", [f"{output}/w", f"{name}/b"], [output]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)
    graphs.drop_dead(graph)


def open_session(model: graphs.Traced, folder: Path, name: str, threads: int) -> tuple[ort.InferenceSession, float]:
    """A session of ``model``, and how many megabytes its weights have."""
    with graphs.WeightFile(folder / f"{name}.weights") as file:
        file.save(model, folder / f"{name}.onnx")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    session = ort.InferenceSession(str(folder / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
    return session, (folder / f"{name}.weights").stat().st_size / 1e6


def best(call: Callable[[], object]) -> float:
    """How many milliseconds the fastest of 15 calls takes, which is the one least disturbed by other programs."""
    times: list[float] = []
    for _ in range(15):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times) * 1e3


def copied(traced: graphs.Traced) -> graphs.Traced:
    """A copy of a graph, which can be rewritten."""
    other = onnx.ModelProto()
    other.CopyFrom(traced.model)
    return graphs.Traced(other, dict(traced.recipes))


def measure_body(folder: Path, threads: int, lengths: Sequence[int]) -> None:
    """Print for each variant of the body the times, the distance from float32, and by how much a window changes beside
    a loud one."""
    body = graphs.body_graph(Body(DIMS, weights(), torch.float32).eval(), DIMS, torch.float32)
    rows = np.random.default_rng(1).standard_normal((1, DIMS.window_rows, DIMS.width), np.float32)
    variants: dict[str, Callable[[graphs.Traced], None]] = {
        "fp32": lambda model: None,
        "int8 (a scale per row)": quantize_graph,
        "MatMulNBits, blocks of 32": lambda model: blocks(model, 32),
        "MatMulNBits, blocks of 64": lambda model: blocks(model, 64),
        "MatMulNBits, blocks of 128": lambda model: blocks(model, 128),
        "DynamicQuantizeLinear": whole_tensor,
    }
    print(f"body, {threads} threads: milliseconds a window of {' / '.join(map(str, lengths))} rows")
    exact: Floats | None = None
    for name, rewrite in variants.items():
        model = copied(body)
        rewrite(model)
        session, size = open_session(model, folder, "body", threads)
        times = [
            best(lambda n=n: session.run(None, {"rows": rows[:, :n], "mask": np.ones((1, n), np.float32)}))
            for n in lengths
        ]
        half = rows[:, :52]
        alone: Floats = np.asarray(session.run(None, {"rows": half, "mask": np.ones((1, 52), np.float32)})[0])
        pair = {"rows": np.concatenate([half, 5 * rows[:, 52:]]), "mask": np.ones((2, 52), np.float32)}
        moved = float(np.abs(np.asarray(session.run(None, pair)[0])[:1] - alone).max() / alone.std())
        exact = alone if exact is None else exact
        distance = float(np.sqrt(((alone - exact) ** 2).mean() / (exact**2).mean()))
        cosine = float(
            ((alone * exact).sum(-1) / np.linalg.norm(alone, axis=-1) / np.linalg.norm(exact, axis=-1)).min()
        )
        print(
            f"  {name:<28}{' / '.join(f'{each:.0f}' for each in times):>16} ms {size:>6.0f} MB   "
            f"RMS error {distance:.4f}, least cosine {cosine:.5f}; beside a loud window moved by {moved:.3f}",
            flush=True,
        )


def measure_stem(folder: Path, threads: int) -> None:
    """Print for each variant of the stem the times of one chunk and of four."""
    stem = graphs.stem_graph(Stem(DIMS, weights(), torch.float32).eval(), DIMS, torch.float32, whole=True)
    mel = np.random.default_rng(2).standard_normal((4, DIMS.bins, DIMS.chunk_frames), np.float32)
    print(f"stem, {threads} threads: milliseconds for 1 / 4 chunks of 1 s")
    for name, rewrite in {
        "fp32": lambda model: None,
        "int8 (products of patches)": quantize_graph,
        "ConvInteger": integer_convolutions,
    }.items():
        model = copied(stem)
        rewrite(model)
        session, size = open_session(model, folder, "stem", threads)
        times = [best(lambda n=n: session.run(None, {"mel": mel[:n]})) for n in (1, 4)]
        print(f"  {name:<28}{' / '.join(f'{each:.1f}' for each in times):>16} ms {size:>6.0f} MB", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", default=[13, 52, 104])
    arguments = parser.parse_args()
    print(f"onnxruntime {ort.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        measure_stem(Path(folder), arguments.threads)
        measure_body(Path(folder), arguments.threads, arguments.rows)


if __name__ == "__main__":
    main()
