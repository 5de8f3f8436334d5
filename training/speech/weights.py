"""Kokoro's published ONNX weights as parameters of our modules, and the files in which they travel.

A file is safetensors in float16; with `int8` the large matrices are int8 with a float16 scale a row (`NAME.scale`).
Parts `kokoro-N.safetensors` hold at most PART bytes each.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.speech.kokoro import Kokoro

PART = 50_000_000
_MATRIX = 16_384  # entries from which a tensor of two and more dimensions may be int8
_SHORTER = (
    ("encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm", "attention_norm"),
    ("encoder.albert_layer_groups.0.albert_layers.0.attention.", ""),
    ("encoder.albert_layer_groups.0.albert_layers.0.", ""),
    ("bert.embeddings.", "bert."),
    ("bert.encoder.", "bert."),
    ("linear_layer.", ""),
    ("asr_res.0.", "asr_res."),
)


def _name(name: str) -> str:
    """Ours for the graph's name of a parameter."""
    name = name.removeprefix("decoder.") if name.startswith("decoder.decoder.") else name.removeprefix("encoder.")
    for theirs, ours in _SHORTER:
        name = name.replace(theirs, ours)
    return name


def _reordered(weight: Tensor) -> Tensor:
    """ONNX keeps an LSTM's gates in the order i, o, f, c; torch in i, f, c, o."""
    i, o, f, c = weight.chunk(4, 0)
    return torch.cat([i, f, c, o])


def convert(graph: Any) -> dict[str, Tensor]:
    """Parameters by our names (float32) from an onnx.GraphProto. Weights without a name of their own are named by the
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
        else:  # the convolutions of shortcuts have none
            name = where.replace("encoder.F0", "predictor.F0").replace("encoder.N", "predictor.N")
        state[f"{name}.weight"] = weight
    return state


def _after_casts(node: Any, readers: dict[str, Any]) -> Any:
    """The node that reads a product, past what changes its type."""
    node = readers[node.output[0]]
    return _after_casts(node, readers) if node.op_type == "Cast" else node


def quantised(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The large matrices as int8 and a scale a row."""
    made: dict[str, Tensor] = {}
    for name, value in state.items():
        if value.dim() < 2 or value.numel() < _MATRIX or "embedding" in name:
            made[name] = value
            continue
        scale = value.flatten(1).abs().amax(1).clamp(min=1e-8) / 127
        shape = (-1, *(1,) * (value.dim() - 1))
        made[name] = (value / scale.view(shape)).round().to(torch.int8)
        made[f"{name}.scale"] = scale
    return made


def save(state: dict[str, Tensor], folder: Path) -> list[Path]:
    """Write parts; floating values as float16."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[dict[str, Tensor]] = [{}]
    room = PART
    for name, value in state.items():
        kept = value.half() if value.is_floating_point() else value
        size = kept.numel() * kept.element_size()
        if size > room:
            parts.append({})
            room = PART
        parts[-1][name] = kept.contiguous()
        room -= size
    paths = [folder / f"kokoro-{i}.safetensors" for i in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        save_file(part, path)
    return paths


def load(folder: Path) -> Kokoro:
    """The network in float32, from the parts in `folder`."""
    files = sorted(folder.glob("kokoro-*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder}: no kokoro-*.safetensors (python -m training.speech convert makes them)")
    read: dict[str, Tensor] = {}
    for file in files:
        read |= load_file(file)
    state: dict[str, Tensor] = {}
    for name, value in read.items():
        if name.endswith(".scale"):
            continue
        scale = read.get(f"{name}.scale")
        value = value.float()
        state[name] = value if scale is None else value * scale.float().view(-1, *(1,) * (value.dim() - 1))
    with torch.device("meta"):
        model = Kokoro()
    model.load_state_dict(state, strict=True, assign=True)
    return model.requires_grad_(False).eval()
