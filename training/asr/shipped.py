"""Weights back from a shipped model directory: int8 ONNX encoder and q8_0 GGUF decoder -> float tensors to train on
from.

For the next run, where the float16 checkpoint is gone. Needs `onnx` and `gguf`. What comes back is what was shipped:
every weight within half a quantisation step of the checkpoint's.
"""

import re
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor

from training.asr.config import Shape
from training.asr.model import PocketASR
from training.shipped import stack_weights

Array = NDArray[np.float32]
# Modules of the exported graphs -> the official names.
_STEM = {"convolutions.0": "conv2d1", "convolutions.1": "conv2d2", "convolutions.2": "conv2d3", "out": "conv_out"}
_BODY = {"norm": "ln_post", "first": "proj1", "second": "proj2"}
_LAYER = {
    "attention_norm": "self_attn_layer_norm",
    "ffn_norm": "final_layer_norm",
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.out": "self_attn.out_proj",
    "up": "fc1",
    "down": "fc2",
}
_QUANTISED = re.compile(r"(?P<module>.+)\.weight/int8")


def graph_tensors(path: Path) -> dict[str, Array]:
    """`module.weight` [out, in] and `module.bias` of an exported graph, int8 products multiplied out.

    A quantised weight stands as `module.weight/int8` [in, out] beside `module.weight/scaleN` [out]: rows are quantised
    to N steps, so that weight = int8 x scale x N.
    """
    values = {t.name: numpy_helper.to_array(t) for t in onnx.load(str(path)).graph.initializer}
    found: dict[str, Array] = {}
    for name, value in values.items():
        if quantised := _QUANTISED.fullmatch(name):
            module = quantised["module"]
            scale = next(k for k in values if k.startswith(f"{module}.weight/scale"))
            steps = float(scale.rsplit("scale", 1)[1])
            found[f"{module}.weight"] = (value.astype(np.float32) * (values[scale].astype(np.float32) * steps)).T
        elif name.endswith((".weight", ".bias")):
            found[name] = value.astype(np.float32)
    return found


def _encoder_name(name: str) -> str:
    module, _, kind = name.rpartition(".")
    if module == "ctc":
        return name
    if layer := re.fullmatch(r"layers\.(\d+)\.(.+)", module):
        return f"thinker.audio_tower.layers.{layer[1]}.{_LAYER[layer[2]]}.{kind}"
    return f"thinker.audio_tower.{(_STEM | _BODY)[module]}.{kind}"


def shipped_weights(folder: Path, shape: Shape) -> dict[str, Tensor]:
    """The state dict of a `PocketASR` of that shape from a model directory (stem.onnx, body.onnx, decoder.gguf),
    float32."""
    weights: dict[str, Tensor] = {}
    for file in ("stem.onnx", "body.onnx"):
        for name, value in graph_tensors(folder / file).items():
            weights[_encoder_name(name)] = torch.from_numpy(np.ascontiguousarray(value))
    with torch.device("meta"):
        wanted = PocketASR(shape).thinker.model.state_dict()
    names = {f"model.{name}": f"thinker.model.{name}" for name in wanted}
    weights |= stack_weights(folder / "decoder.gguf", names, shape.decoder_layers)
    return weights
