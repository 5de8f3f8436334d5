"""Writing talker and code predictor as GGUFs, and the tables of rows that go into them.

Both GGUFs have llama.cpp's architecture ``qwen3`` without a vocabulary. The talker's holds its codec table and head.
The predictor has a head for each codebook. If they were one stacked matrix, llama.cpp would evaluate all of them in
every pass of a frame, so they lie in a .npy file beside the GGUF, whose own table is a stub of a few rows
(docs/export.md has the times).

Rows are written as the models take them: text embeddings already projected, and code rows also projected for the
predictor.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from export.blocks import as_half
from export.checkpoint import Checkpoint
from export.decoder import write_decoder
from export.dims import DecoderDims
from export.progress import SILENT, Meter
from export.tts.dims import TtsDims, predictor_view, talker_view

Floats = NDArray[np.float32]

TALKER, PREDICTOR = "talker.gguf", "predictor.gguf"
TEXT_ROWS, CODE_ROWS, PREDICTOR_ROWS = "text_rows.npy", "code_rows.npy", "predictor_rows.npy"
HEADS, WEIGHT, BIAS = "predictor_heads.npy", "predictor_weight.npy", "predictor_bias.npy"

STUB_ROWS = 32
"""How many rows the predictor GGUF's own table has. llama.cpp asks for one and nothing reads it, so it is small."""

LARGE_TABLE = 32768
"""From how many rows on the predictor's table is written projected. A smaller one, of our own models, takes the runtime
milliseconds to project; those of released models have 33,792 rows."""

BLOCK_ROWS = 4096
"""How many rows of the text table are in memory at a time: the whole table takes 1.2 GB in float32."""


def write_talker(
    model: Checkpoint, dims: TtsDims, out: Path, quantization: str, *, name: str, meter: Meter = SILENT
) -> None:
    """Write ``talker.gguf`` into ``out``."""
    write_decoder(talker_view(model), dims.talker, out / TALKER, quantization, name=name, head=True, meter=meter)


def write_predictor(
    model: Checkpoint, dims: TtsDims, out: Path, quantization: str, *, name: str, meter: Meter = SILENT
) -> None:
    """Write ``predictor.gguf`` into ``out``."""
    stub = replace(model.tensors["talker.code_predictor.lm_head.0.weight"], shape=(STUB_ROWS, dims.predictor.width))
    view = predictor_view(model)
    view = replace(view, tensors={**view.tensors, "model.embed_tokens.weight": stub})
    write_decoder(
        view,
        predictor_stub(dims),
        out / PREDICTOR,
        quantization,
        name=f"{name} code predictor",
        head=False,
        meter=meter,
    )


def predictor_stub(dims: TtsDims) -> DecoderDims:
    """The predictor's dimensions in its GGUF, with the stub as its table."""
    return replace(dims.predictor, vocabulary=STUB_ROWS)


def table_size(dims: TtsDims, *, half: bool) -> int:
    """About how many bytes ``write_tables`` writes."""
    rows = dims.talker.vocabulary + groups(dims) * dims.codec.entries
    values = (dims.text_vocabulary + rows) * dims.talker.width + groups(
        dims
    ) * dims.codec.entries * dims.predictor.width
    values += rows * dims.predictor.width if projects(dims) else 0
    own = dims.talker.width * dims.predictor.width if dims.projected else 0
    return values * (2 if half else 4) + 4 * own


def write_tables(model: Checkpoint, dims: TtsDims, out: Path, *, half: bool, meter: Meter = SILENT) -> None:
    """Write the tables into ``out``, in float16 if ``half``.

    Raises:
        CheckpointError: a value is too large for float16.
    """
    talker, predictor = dims.talker.width, dims.predictor.width
    text = model.tensors["talker.model.text_embedding.weight"]
    project = projection(model)
    blocks = (project(block) for block in text.blocks(BLOCK_ROWS * dims.text_width))
    save_rows(out / TEXT_ROWS, blocks, (dims.text_vocabulary, talker), half, meter)
    count = dims.talker.vocabulary + (dims.codec.codebooks - 1) * dims.codec.entries
    save_rows(out / CODE_ROWS, code_blocks(model, dims), (count, talker), half, meter)
    heads = (
        model.tensors[f"talker.code_predictor.lm_head.{index}.weight"].read()[None] for index in range(groups(dims))
    )
    save_rows(out / HEADS, heads, (groups(dims), dims.codec.entries, predictor), half, meter)
    if dims.projected:
        prefix = "talker.code_predictor.small_to_mtp_projection."
        weight, bias = model.tensors[f"{prefix}weight"].read().T, model.tensors[f"{prefix}bias"].read()
        if projects(dims):
            rows = (rows @ weight + bias for rows in code_blocks(model, dims))
            save_rows(out / PREDICTOR_ROWS, rows, (count, predictor), half, meter)
        np.save(out / WEIGHT, np.ascontiguousarray(weight))
        np.save(out / BIAS, bias)


def projects(dims: TtsDims) -> bool:
    """Whether the predictor's rows are written projected. The runtime projects a small table itself."""
    return dims.projected and dims.talker.vocabulary + groups(dims) * dims.codec.entries >= LARGE_TABLE


def groups(dims: TtsDims) -> int:
    """How many codebooks the predictor fills: all but the first."""
    return dims.codec.codebooks - 1


def projection(model: Checkpoint) -> Callable[[Floats], Floats]:
    """The function that projects text embeddings: two linear layers with a SiLU in between
    (modeling_qwen3_tts.py:808-816)."""
    prefix = "talker.text_projection."
    first, second = (model.tensors[f"{prefix}{name}.weight"].read().T for name in ("linear_fc1", "linear_fc2"))
    first_bias, second_bias = (model.tensors[f"{prefix}{name}.bias"].read() for name in ("linear_fc1", "linear_fc2"))

    def project(rows: Floats) -> Floats:
        inner = rows @ first + first_bias
        with np.errstate(over="ignore"):  # If exp(-inner) is infinite, the quotient is 0, as it should be.
            return (inner / (1.0 + np.exp(-inner))) @ second + second_bias

    return project


def code_blocks(model: Checkpoint, dims: TtsDims) -> Iterator[Floats]:
    """The talker's table of codes, then the table of every later codebook."""
    yield model.tensors["talker.model.codec_embedding.weight"].read()
    for index in range(groups(dims)):
        yield model.tensors[f"talker.code_predictor.model.codec_embedding.{index}.weight"].read()


def save_rows(path: Path, blocks: Iterator[Floats], shape: tuple[int, ...], half: bool, meter: Meter) -> None:
    """Write ``blocks``, one after the other along the first axis, as one .npy file of ``shape``."""
    kind = np.dtype(np.float16 if half else np.float32)
    # The file is written, not mapped: on a full disk a mapping ends the process instead of raising an error.
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        start = 0
        for block in blocks:
            rows = np.ascontiguousarray(as_half(block, path.stem) if half else block)
            file.write(rows.data)
            meter.wrote(rows.nbytes)
            start += len(block)
    assert start == shape[0], f"{path.name}: {start} rows of {shape[0]}"
