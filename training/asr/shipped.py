"""Weights back from a shipped model directory: int8 ONNX encoder and q8_0 GGUF decoder -> float tensors to train on
from.

For the next run, where the float16 checkpoint is gone. Needs `onnx` and `gguf`. What comes back is what was shipped:
every weight within half a quantisation step of the checkpoint's.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from export.dims import EncoderDims
from export.encoder import Body, Stem
from training.asr.config import Shape
from training.asr.model import PocketASR
from training.shipped import Array, graph_tensors, stack_weights


def encoder_dims(shape: Shape) -> EncoderDims:
    """That shape in the exporter's words."""
    return EncoderDims(
        bins=shape.mel_bins, channels=shape.conv_channels, bands=shape.mel_bins // 8, width=shape.d_model,
        layers=shape.encoder_layers, heads=shape.encoder_heads, head_dim=shape.d_model // shape.encoder_heads,
        ffn=shape.encoder_ffn, output=shape.hidden, chunk_frames=shape.chunk_frames, chunk_rows=shape.chunk_rows,
        window_rows=shape.window_frames // shape.chunk_frames * shape.chunk_rows, ctc=shape.vocab + 1,
    )  # fmt: skip


def shipped_weights(folder: Path, shape: Shape) -> dict[str, Tensor]:
    """The state dict of a `PocketASR` of that shape from a model directory (stem.onnx, body.onnx, decoder.gguf),
    float32. The exporter is given a name's place for each tensor of the encoder: it tells what a graph's names are.
    """
    with torch.device("meta"):
        names = list(PocketASR(shape).state_dict())

    def place(name: str) -> Array:
        return np.full((1, 1), names.index(name if name.startswith("ctc.") else f"thinker.{name}"), np.float32)

    weights: dict[str, Tensor] = {}
    dims = encoder_dims(shape)
    for file, module in (("stem", Stem(dims, place, torch.float32)), ("body", Body(dims, place, torch.float32))):
        graph = graph_tensors(folder / f"{file}.onnx")
        for name, found in module.named_buffers():
            if name != "positions":
                value = graph[name].T if graph[name].ndim == 2 else graph[name]  # the exporter turns matrices round
                weights[names[int(found)]] = torch.from_numpy(np.ascontiguousarray(value))
    stack = {name.removeprefix("thinker."): name for name in names if name.startswith("thinker.model.")}
    return weights | stack_weights(folder / "decoder.gguf", stack, shape.decoder_layers)
