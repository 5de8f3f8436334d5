"""Weights back from the files of a shipped model directory, to train on from: what both recipes read alike."""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor


def stack_weights(path: Path, names: Mapping[str, str], layers: int) -> dict[str, Tensor]:
    """Tensors of a Qwen3 stack's GGUF, float32.

    names: their official names (`model.layers.0.mlp.up_proj.weight`), and what each is called here; what the file lacks
    is left out.
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
