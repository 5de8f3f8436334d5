"""Checkpoints converted for MLX give the same tensors, quantised ones within a step."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from export.checkpoint import CheckpointError, open_checkpoint
from export.dims import read_dims
from tests.export.checkpoints import AUDIO, TEXT, tensors, train_tokenizer

Floats = NDArray[np.float32]


def quantized(weight: Floats, bits: int, group: int) -> dict[str, NDArray[Any]]:
    """The words, scales and biases that mlx.core.quantize makes of a matrix."""
    grouped = weight.reshape(len(weight), -1, group)
    low, high = grouped.min(-1), grouped.max(-1)
    scales = np.maximum((high - low) / ((1 << bits) - 1), 1e-7).astype(np.float32)
    steps = np.rint((grouped - low[..., None]) / scales[..., None]).astype(np.uint32).reshape(len(weight), -1)
    fields = steps.reshape(len(weight), -1, 32 // bits) << np.arange(0, 32, bits, dtype=np.uint32)
    return {"weight": fields.sum(-1, dtype=np.uint32), "scales": scales, "biases": low.astype(np.float32)}


def write_mlx(directory: Path, values: dict[str, Floats], bits: int | None, group: int = 32) -> Path:
    """Write a directory as MLX programs publish it: no ``thinker.``, inputs last, the decoder's matrices quantised."""
    directory.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, NDArray[Any]] = {}
    for published, array in values.items():
        name = published.removeprefix("thinker.")
        if "conv2d" in name and array.ndim == 4:
            arrays[name] = np.moveaxis(array, 1, -1)
        elif bits is not None and array.ndim == 2 and name.startswith("model."):
            base = name.removesuffix("weight")
            arrays |= {f"{base}{part}": made for part, made in quantized(array, bits, group).items()}
        else:
            arrays[name] = array
    header: dict[str, Any] = {}
    at = 0
    for name, array in arrays.items():
        kind = "U32" if array.dtype == np.uint32 else "F32"
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    encoded = json.dumps(header).encode()
    data = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(encoded)) + encoded + data)
    thinker = {"audio_config": AUDIO, "text_config": TEXT}
    config: dict[str, Any] = {"model_type": "qwen3_asr", "thinker_config": thinker}
    if bits is not None:
        config["quantization"] = {"group_size": group, "bits": bits}
    (directory / "config.json").write_text(json.dumps(config))
    train_tokenizer().save(str(directory / "tokenizer.json"))
    return directory


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_the_tensors_are_the_official_ones(tmp_path: Path, bits: int | None) -> None:
    """Convolutions are equal to the bit, quantised matrices to half a step, and every dimension is as configured."""
    values = tensors()
    checkpoint = open_checkpoint(write_mlx(tmp_path, values, bits))
    read_dims(checkpoint)
    assert checkpoint.layout == "mlx"
    for published, array in values.items():
        name = published.removeprefix("thinker.")
        found = checkpoint.tensors[name].read()
        if bits is None or array.ndim == 1 or not name.startswith("model."):
            np.testing.assert_array_equal(found, array)
        else:
            groups = array.reshape(len(array), -1, 32)
            step = (groups.max(-1) - groups.min(-1)) / ((1 << bits) - 1)
            assert (np.abs(found - array).reshape(groups.shape).max(-1) <= 0.51 * step + 1e-6).all(), name


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 9), groups=st.integers(1, 3), bits=st.sampled_from([2, 4, 8]), data=st.data())
def test_any_rows_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, rows: int, groups: int, bits: int, data: st.DataObject
) -> None:
    """Rows that are read in blocks are those of the whole matrix."""
    weight = np.random.default_rng(rows).standard_normal((rows, 32 * groups)).astype(np.float32)
    values = {**tensors(), "thinker.model.layers.0.self_attn.k_norm.weight": weight}
    values = {"thinker.model.extra.weight": weight} | values
    directory = write_mlx(tmp_path_factory.mktemp("rows"), values, bits)
    stored = open_checkpoint(directory).tensors["model.extra.weight"]
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    np.testing.assert_array_equal(stored.rows(start, stop), stored.read()[start:stop])
    np.testing.assert_array_equal(np.concatenate(list(stored.blocks(40))), stored.read())


def test_formats_that_are_not_read_are_refused(tmp_path: Path) -> None:
    """The error names the tensor and what to take instead. A group size that is not the stated one makes other bits."""
    directory = write_mlx(tmp_path, tensors(), 4)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"quantization": {"group_size": 48, "bits": 4}}))
    with pytest.raises(
        CheckpointError, match=r"model\.\S+weight is quantised to .*take the bf16, 8-bit or 4-bit model"
    ):
        open_checkpoint(directory)
