"""Weights back from a shipped model directory: int8 ONNX encoder and q8_0 GGUF decoder -> float tensors.

It needs `onnx` and `gguf`. What comes back is what was shipped, with every weight within half a quantisation step of
the checkpoint's.
"""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor

from export.dims import EncoderDims
from export.trace.encoder import Body, Stem
from training.asr.checkpoint import save_checkpoint
from training.asr.config import Shape
from training.asr.model import PocketASR
from training.shipped import Array, graph_tensors, stack_weights

_HEAD = 64  # An encoder's head has this width in every released Qwen3-ASR and in Whisper.


def encoder_dims(shape: Shape) -> EncoderDims:
    """Give that shape in the exporter's words."""
    return EncoderDims(
        bins=shape.mel_bins, channels=shape.conv_channels, bands=shape.mel_bins // 8, width=shape.d_model,
        layers=shape.encoder_layers, heads=shape.encoder_heads, head_dim=shape.d_model // shape.encoder_heads,
        ffn=shape.encoder_ffn, output=shape.hidden, chunk_frames=shape.chunk_frames, chunk_rows=shape.chunk_rows,
        window_rows=shape.window_rows, ctc=shape.vocab + 1, placed=shape.placed,
    )  # fmt: skip


def shipped_shape(folder: Path) -> Shape:
    """Give the shape of a model directory. model.json tells some of it, and the tensors tell the rest."""
    told = json.loads((folder / "model.json").read_text())
    encoder, decoder = told["encoder"], told["decoder"]
    stem, body = (graph_tensors(folder / f"{name}.onnx") for name in ("stem", "body"))
    ups = [value for name, value in body.items() if name.endswith(".up.bias")]
    ffn = gguf.GGUFReader(folder / decoder["file"]).fields["qwen3.feed_forward_length"].contents()
    return Shape(
        vocab=decoder["vocabulary"], mel_bins=told["mel"]["bins"], conv_channels=len(stem["convolutions.0.bias"]),
        d_model=encoder["stem_width"], encoder_layers=len(ups), encoder_heads=encoder["stem_width"] // _HEAD,
        encoder_ffn=len(ups[0]), hidden=encoder["width"], decoder_layers=decoder["layers"], heads=decoder["heads"],
        kv_heads=decoder["kv_heads"], head_dim=decoder["head_dim"], decoder_ffn=int(ffn),
        chunk_frames=encoder["chunk_frames"],
        window_frames=encoder["window_rows"] // encoder["chunk_rows"] * encoder["chunk_frames"],
        placed="positions" in body,
    )  # fmt: skip


def shipped_weights(folder: Path, shape: Shape) -> dict[str, Tensor]:
    """Read the state dict of a `PocketASR` of that shape, float32, from a model directory (stem.onnx, body.onnx,
    decoder.gguf).

    The exporter is given the place of a name in place of each tensor of the encoder. Where the places come out of it
    tells which tensor each name in a graph is.
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
            # Positions are a checkpoint's own or constants; the exporter turns all other matrices round.
            if name != "positions" or shape.placed:
                value = graph[name].T if graph[name].ndim == 2 and name != "positions" else graph[name]
                weights[names[int(found)]] = torch.from_numpy(np.ascontiguousarray(value))
    stack = {name.removeprefix("thinker."): name for name in names if name.startswith("thinker.model.")}
    return weights | stack_weights(folder / "decoder.gguf", stack, shape.decoder_layers)


def save_shipped(model: Path, out: Path) -> None:
    """Write a checkpoint to go on from, out of a shipped model directory."""
    shape = shipped_shape(model)
    save_checkpoint("pocket-asr-en", shape, shipped_weights(model, shape), model, out)
