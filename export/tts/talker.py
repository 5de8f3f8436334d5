"""Talker and code predictor as GGUFs, and the tables of rows that go into them.

Both are llama.cpp's arch ``qwen3`` without a vocabulary. The talker's GGUF carries its codec table and head. The
predictor has one head a codebook: as one stacked matrix llama.cpp would evaluate all of them in each of a frame's
passes, so the heads stand in a .npy file beside it and its own table is a stub of a few rows (docs/export.md has
the times).

Rows are written as the models take them: text embeddings already projected, code rows for the predictor too.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from export.checkpoint import WIDTHS, Checkpoint, Stored
from export.decoder import as_half, write_decoder
from export.tts.dims import TtsDims, predictor_view, talker_view

Floats = NDArray[np.float32]

TALKER, PREDICTOR, FRAME = "talker.gguf", "predictor.gguf", "predictor_frame.onnx"
TEXT_ROWS, CODE_ROWS, PREDICTOR_ROWS = "text_rows.npy", "code_rows.npy", "predictor_rows.npy"
HEADS, WEIGHT, BIAS = "predictor_heads.npy", "predictor_weight.npy", "predictor_bias.npy"

STUB_ROWS = 32
"""Of the predictor GGUF's own table, which nothing reads."""

LARGE_TABLE = 32768
"""Rows from which on the predictor's table is worth its bytes on disk."""

BLOCK_ROWS = 4096
"""Rows of the text table in memory at a time: the whole is 1.2 GB in float32."""


def write_talker(model: Checkpoint, dims: TtsDims, out: Path, quantization: str, *, name: str) -> None:
    """Write ``talker.gguf`` into ``out``."""
    write_decoder(talker_view(model), dims.talker, out / TALKER, quantization, name=name, head=True)


def write_predictor(model: Checkpoint, dims: TtsDims, out: Path, quantization: str, *, name: str) -> None:
    """Write ``predictor.gguf`` into ``out``."""
    stub = replace(model.tensors["talker.code_predictor.lm_head.0.weight"], shape=(STUB_ROWS, dims.predictor.width))
    view = predictor_view(model)
    view = replace(view, tensors={**view.tensors, "model.embed_tokens.weight": stub})
    stack = replace(dims.predictor, vocabulary=STUB_ROWS)
    write_decoder(view, stack, out / PREDICTOR, quantization, name=f"{name} code predictor", head=False)


def write_tables(model: Checkpoint, dims: TtsDims, out: Path, *, half: bool) -> None:
    """Write the tables into ``out``, in float16 if ``half``.

    Raises:
        CheckpointError: a value is beyond float16.
    """
    talker, predictor = dims.talker.width, dims.predictor.width
    text = model.tensors["talker.model.text_embedding.weight"]
    project = projection(model)
    blocks = (project(block) for block in row_blocks(text))
    save_rows(out / TEXT_ROWS, blocks, (dims.text_vocabulary, talker), half)
    count = dims.talker.vocabulary + (dims.codec.codebooks - 1) * dims.codec.entries
    save_rows(out / CODE_ROWS, code_blocks(model, dims), (count, talker), half)
    heads = (
        model.tensors[f"talker.code_predictor.lm_head.{index}.weight"].read()[None] for index in range(groups(dims))
    )
    save_rows(out / HEADS, heads, (groups(dims), dims.codec.entries, predictor), half)
    if dims.projected:
        prefix = "talker.code_predictor.small_to_mtp_projection."
        weight, bias = model.tensors[f"{prefix}weight"].read().T, model.tensors[f"{prefix}bias"].read()
        if projects(dims):
            rows = (rows @ weight + bias for rows in code_blocks(model, dims))
            save_rows(out / PREDICTOR_ROWS, rows, (count, predictor), half)
        np.save(out / WEIGHT, np.ascontiguousarray(weight))
        np.save(out / BIAS, bias)


def projects(dims: TtsDims) -> bool:
    """Whether the predictor's rows are written projected; a small table is projected by who reads it."""
    return dims.projected and dims.talker.vocabulary + groups(dims) * dims.codec.entries >= LARGE_TABLE


def groups(dims: TtsDims) -> int:
    """Codebooks that the predictor fills."""
    return dims.codec.codebooks - 1


def projection(model: Checkpoint) -> Callable[[Floats], Floats]:
    """text_projection: two linear layers with a SiLU between (modeling_qwen3_tts.py:808-816)."""
    prefix = "talker.text_projection."
    first, second = (model.tensors[f"{prefix}{name}.weight"].read().T for name in ("linear_fc1", "linear_fc2"))
    first_bias, second_bias = (model.tensors[f"{prefix}{name}.bias"].read() for name in ("linear_fc1", "linear_fc2"))

    def project(rows: Floats) -> Floats:
        inner = rows @ first + first_bias
        with np.errstate(over="ignore"):  # exp(-inner) may be infinite: the quotient is then 0, as it should be
            return (inner / (1.0 + np.exp(-inner))) @ second + second_bias

    return project


def row_blocks(stored: Stored) -> Iterator[Floats]:
    """The rows of a matrix on disk, a block at a time."""
    count, width = stored.shape
    item = np.dtype(WIDTHS[stored.dtype]).itemsize
    for start in range(0, count, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, count - start)
        yield replace(stored, offset=stored.offset + start * width * item, shape=(rows, width)).read()


def code_blocks(model: Checkpoint, dims: TtsDims) -> Iterator[Floats]:
    """The talker's codec table, then that of every later codebook."""
    yield model.tensors["talker.model.codec_embedding.weight"].read()
    for index in range(groups(dims)):
        yield model.tensors[f"talker.code_predictor.model.codec_embedding.{index}.weight"].read()


def save_rows(path: Path, blocks: Iterator[Floats], shape: tuple[int, ...], half: bool) -> None:
    """Write ``blocks``, one after the other along the first axis, as one .npy file of ``shape``."""
    table = np.lib.format.open_memmap(path, "w+", np.float16 if half else np.float32, shape)
    start = 0
    for block in blocks:
        table[start : start + len(block)] = as_half(block, path.stem) if half else block
        start += len(block)
    assert start == shape[0], f"{path.name}: {start} rows of {shape[0]}"
    table.flush()
