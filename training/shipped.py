"""Weights are read back from the files of a shipped model directory, so that a run can begin from them. This is what
both recipes do alike."""

import re
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor

Array = NDArray[np.float32]


def graph_tensors(path: Path) -> dict[str, Array]:
    """Give the constants of an exported graph, float32, under the names and in the layout of the exporter's modules.

    A matrix of int8 has scales beside it, in `NAME/scaleN`, divided by the N steps to which it is quantised.
    """
    values = {t.name: numpy_helper.to_array(t).astype(np.float32) for t in onnx.load(str(path)).graph.initializer}
    scales = {m[1]: v * float(m[2] or 1) for n, v in values.items() if (m := re.fullmatch(r"(.+)[/_]scales?(\d*)", n))}
    plain = {re.sub(r"[/_](int8|half)$", "", name): value for name, value in values.items()}
    return {name: value * scales.get(name, 1) for name, value in plain.items()}


def stack_weights(path: Path, names: Mapping[str, str], layers: int) -> dict[str, Tensor]:
    """Give the tensors of a Qwen3 stack's GGUF, float32.

    names: the tensors' official names (`model.layers.0.mlp.up_proj.weight`), and what each is called here. A tensor
    that the file lacks is left out.
    """
    theirs = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, layers)
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    found: dict[str, Tensor] = {}
    for official, ours in names.items():
        tensor = stored.get(theirs.get_name(official, (".weight",)) or "")
        if tensor is not None:
            value = gguf.dequantize(tensor.data, tensor.tensor_type)
            found[ours] = torch.from_numpy(np.array(value, np.float32))
    return found
