"""Arrays are read from a CTranslate2 `model.bin`, and Whisper's get the names that Hugging Face gives them.

The format's source is OpenNMT/CTranslate2, python/ctranslate2/specs/model_spec.py (binary version 6): a header, then
for each variable its name, shape, type and bytes.
"""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_VERSION = 6
_TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)
_ATTENTION = {"self_attention": "self_attn", "attention": "encoder_attn"}
_ENDS = {"gamma": "weight", "beta": "bias"}


def variables(data: bytes) -> dict[str, Array]:
    """Give every variable by its name (`encoder/layer_0/ffn/linear_0/weight`).

    Raises:
        ValueError: the data are of another version or end too early.
    """
    at = 0

    def read(kind: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(kind, data, at)
        at += struct.calcsize(kind)
        return value

    def text() -> str:
        nonlocal at
        size = read("<H")
        at += size
        return data[at - size : at].rstrip(b"\0").decode()

    try:
        version, _, _, count = read("<I"), text(), read("<I"), read("<I")
        if version != _VERSION:
            raise ValueError(f"model.bin: binary version {version}, only {_VERSION} can be read")
        found: dict[str, Array] = {}
        for _ in range(count):
            name, dims = text(), tuple(read("<I") for _ in range(read("<B")))
            kind, size = _TYPES[read("<B")], read("<I")
            if at + size > len(data):
                raise IndexError(f"{name} has {size} bytes")
            found[name] = np.frombuffer(data, kind, size // np.dtype(kind).itemsize, at).reshape(dims)
            at += size
    except (struct.error, IndexError) as error:
        raise ValueError(f"model.bin: ends or breaks off at byte {at}: {error}") from error
    return found


def whisper(found: Mapping[str, Array], side: str) -> dict[str, Array]:
    """Give Whisper's encoder or decoder (`side`) under the names of Hugging Face's modules, without the side's own
    name.

    CTranslate2 stacks the query, key and value of a layer's own attention, and the key and value of the attention that
    looks at the encoder. A key has no bias, which stands there as zeros.
    """
    out: dict[str, Array] = {}
    for name, value in found.items():
        first, *path = name.split("/")
        end = _ENDS.get(path[-1], path[-1])
        if first != side or value.ndim == 0:
            continue
        if path[0].startswith("layer_") and path[0] != "layer_norm":
            out |= _layer(f"layers.{path[0].removeprefix('layer_')}", path[1], path[2], end, value)
        elif path[0] == "position_encodings":
            out["embed_positions.weight"] = value
        else:
            out[f"{'embed_tokens' if path[0] == 'embeddings' else path[0]}.{end}"] = value
    return out


def _layer(layer: str, block: str, part: str, end: str, value: Array) -> dict[str, Array]:
    """Give what one variable of a layer holds."""
    if block == "ffn":
        ours = {"linear_0": "fc1", "linear_1": "fc2", "layer_norm": "final_layer_norm"}[part]
        return {f"{layer}.{ours}.{end}": value}
    attention = f"{layer}.{_ATTENTION[block]}"
    if part == "layer_norm":
        return {f"{attention}_layer_norm.{end}": value}
    stacked = {
        ("self_attention", "linear_0"): "qkv", ("self_attention", "linear_1"): "o",
        ("attention", "linear_0"): "q", ("attention", "linear_1"): "kv", ("attention", "linear_2"): "o",
    }[block, part]  # fmt: skip
    names = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
    parts = zip(stacked, np.split(value, len(stacked)), strict=True)
    return {f"{attention}.{names[one]}.{end}": part for one, part in parts if (one, end) != ("k", "bias")}
