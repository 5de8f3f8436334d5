"""A Qwen3-ASR checkpoint directory, read without torch.

Two layouts are published: the original one (``thinker.*`` tensors, ``thinker_config`` in config.json) and that of
transformers (``model.audio_tower.*``, ``model.language_model.*``, ``model.multi_modal_projector.*``). Both are read
under the original names without the ``thinker.`` prefix. Weights lie in one ``model.safetensors`` or in the shards that
``model.safetensors.index.json`` names. Tensors stay on disk until asked for.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RENAMED = (
    ("model.language_model.", "model."),
    ("model.audio_tower.", "audio_tower."),
    ("model.multi_modal_projector.linear_1.", "audio_tower.proj1."),
    ("model.multi_modal_projector.linear_2.", "audio_tower.proj2."),
    ("score.", "lm_head."),
)
"""transformers' prefixes → the original ones (transformers, convert_qwen3_asr_to_hf.py)."""

HEADS = ("ctc.",)
"""Prefix of our own small models' head, the same in both layouts; no official model has it."""

TRAINING = ("phones.",)
"""Prefix of what serves our own models' training alone and is no part of what is exported."""


class CheckpointError(ValueError):
    """A checkpoint cannot be exported; the message names the file, the config key or the tensor."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where one tensor lies: file, offset of its first byte, dtype name of the safetensors format, shape."""

    file: Path
    offset: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many values."""
        return math.prod(self.shape)

    def read(self) -> NDArray[np.float32]:
        """The values as float32 (exact for the three formats that checkpoints use)."""
        raw = np.memmap(self.file, WIDTHS[self.dtype], "r", self.offset, (self.size,))
        if self.dtype == "BF16":
            values = (raw.astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.asarray(raw, np.float32)
        return values.reshape(self.shape)


WIDTHS: Mapping[str, type[np.generic]] = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened checkpoint: its raw configuration and where its tensors lie, under the original names."""

    directory: Path
    layout: str
    """``original`` or ``transformers``."""
    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]

    def tensor(self, name: str, *shape: int) -> NDArray[np.float32]:
        """Read a tensor and hold it to the shape that the configuration asks for.

        Raises:
            CheckpointError: no such tensor, or another shape.
        """
        self.require(name, *shape)
        return self.tensors[name].read()

    def require(self, name: str, *shape: int) -> None:
        """Raise CheckpointError unless tensor ``name`` exists with ``shape`` and a float dtype."""
        stored = self.tensors.get(name)
        if stored is None:
            raise CheckpointError(f"{self.directory}: tensor {self.published(name)} is missing")
        if stored.shape != shape:
            raise CheckpointError(
                f"{self.directory}: tensor {self.published(name)} has shape {list(stored.shape)}, "
                f"the configuration asks for {list(shape)}"
            )
        if stored.dtype not in WIDTHS:
            raise CheckpointError(
                f"{self.directory}: tensor {self.published(name)} has dtype {stored.dtype}, "
                f"not one of {', '.join(WIDTHS)}"
            )

    def published(self, name: str) -> str:
        """The name as it stands in this checkpoint's own layout."""
        if self.layout == "original":
            return name if name.startswith(HEADS) else f"thinker.{name}"
        if self.layout == "funasr":
            return f"llm.{name}" if name.startswith(("model.", "lm_head.")) else name
        for theirs, ours in RENAMED[2:4] + RENAMED[:2]:
            if name.startswith(ours):
                return theirs + name.removeprefix(ours)
        return name


def open_checkpoint(directory: Path) -> Checkpoint:
    """Open a checkpoint directory of either layout.

    Raises:
        CheckpointError: no config.json or weights, or not a Qwen3-ASR checkpoint.
    """
    config = read_json(directory / "config.json")
    if config.get("model_type") != "qwen3_asr":
        raise CheckpointError(f"{directory}/config.json: model_type is {config.get('model_type')!r}, not 'qwen3_asr'")
    layout = "original" if "thinker_config" in config else "transformers"
    return Checkpoint(directory, layout, config, read_headers(directory))


def extras(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """The key ``hearsay`` of config.json, by which our own small models say what is not official about them.

    Raises:
        CheckpointError: it is no object.
    """
    value = checkpoint.config.get("hearsay", {})
    if not isinstance(value, dict):
        raise CheckpointError(f"{checkpoint.directory}/config.json: hearsay: not an object")
    return value


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of the checkpoint."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} holds no {path.name}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return value


def read_headers(directory: Path) -> dict[str, Stored]:
    """Every tensor of the checkpoint under its original name, without those of ``TRAINING``."""
    index = directory / "model.safetensors.index.json"
    if index.exists():
        files = sorted({directory / name for name in read_json(index).get("weight_map", {}).values()})
    else:
        files = [directory / "model.safetensors"]
    tensors: dict[str, Stored] = {}
    for file in files:
        try:
            found = read_header(file).items()
            tensors.update({canonical(name): stored for name, stored in found if not name.startswith(TRAINING)})
        except FileNotFoundError:
            raise CheckpointError(f"{directory} holds no {file.name}") from None
        except (ValueError, KeyError, struct.error) as error:
            raise CheckpointError(f"{file}: not a safetensors file ({error})") from None
    return tensors


def read_header(file: Path) -> dict[str, Stored]:
    """The tensors of one safetensors file under the names it gives them."""
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        size = file.stat().st_size
        if length > size - 8:
            raise ValueError("the header is longer than the file")
        header = json.loads(stream.read(length))
    stored: dict[str, Stored] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if 8 + length + end > size:
            raise ValueError(f"tensor {name} ends beyond the file: it is cut off")
        stored[name] = Stored(file, 8 + length + begin, entry["dtype"], tuple(entry["shape"]))
    return stored


def canonical(name: str) -> str:
    """A published tensor name → the original one without ``thinker.``."""
    if name.startswith("thinker."):
        return name.removeprefix("thinker.")
    for theirs, ours in RENAMED:
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name
