"""A Qwen3-ASR checkpoint directory, read without torch.

Two layouts are published: the original one (``thinker.*`` tensors, ``thinker_config`` in config.json) and that of
transformers (``model.audio_tower.*``, ``model.language_model.*``, ``model.multi_modal_projector.*``). Here tensors of
both have the original names without the prefix ``thinker.``. Weights lie in one ``model.safetensors`` or in the shards
that ``model.safetensors.index.json`` names. A tensor is read from disk only when it is asked for.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from export.mlx import unpacked
from export.stored import WIDTHS, CheckpointError, Stored, read_header, read_json

RENAMED = (
    ("model.language_model.", "model."),
    ("model.audio_tower.", "audio_tower."),
    ("model.multi_modal_projector.linear_1.", "audio_tower.proj1."),
    ("model.multi_modal_projector.linear_2.", "audio_tower.proj2."),
    ("score.", "lm_head."),
)
"""The prefixes of transformers' layout, each with the original one (transformers, convert_qwen3_asr_to_hf.py)."""

HEADS = ("ctc.",)
"""The prefix of the CTC head of our own small models, which has the same name in both layouts. No official model has
such a head."""

TRAINING = ("phones.",)
"""The prefix of tensors that only the training of our own models uses; they are not exported."""


_SHARD = re.compile(r"[A-Za-z0-9._-]{1,200}\.safetensors")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened checkpoint: its configuration as it stands, and where its tensors lie, under the original names."""

    directory: Path
    layout: str
    """The layout of the files: ``original``, ``transformers``, ``mlx``, ``gguf``, ``funasr`` or ``tts``. Messages use
    its names of tensors."""
    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]
    tokenizer: Mapping[str, Any] | None = None
    """The contents of a tokenizer.json if the directory has no such file (a GGUF holds its own), else None."""

    def tensor(self, name: str, *shape: int) -> NDArray[np.float32]:
        """Read a tensor as float32.

        Raises:
            CheckpointError: there is no such tensor, or it does not have ``shape``, which the configuration asks for.
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
        """The name of a tensor in this checkpoint's own layout."""
        if self.layout == "original":
            return name if name.startswith(HEADS) else f"thinker.{name}"
        if self.layout in ("mlx", "gguf"):
            return name
        if self.layout == "funasr":
            return f"llm.{name}" if name.startswith(("model.", "lm_head.")) else name
        for theirs, ours in RENAMED[2:4] + RENAMED[:2]:
            if name.startswith(ours):
                return theirs + name.removeprefix(ours)
        return name


def open_checkpoint(directory: Path) -> Checkpoint:
    """Open a checkpoint directory of either layout.

    Raises:
        CheckpointError: there is no config.json or there are no weights, or it is no Qwen3-ASR checkpoint.
    """
    config = read_json(directory / "config.json")
    if config.get("model_type") != "qwen3_asr":
        raise CheckpointError(f"{directory}/config.json: model_type is {config.get('model_type')!r}, not 'qwen3_asr'")
    tensors = unpacked(found := read_headers(directory), config)
    official = "original" if "thinker_config" in config else "transformers"
    return Checkpoint(directory, official if tensors == found else "mlx", config, tensors)


def extras(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """The object ``hearsay`` in config.json, in which our own small models tell how they differ from official ones;
    empty for other checkpoints.

    Raises:
        CheckpointError: it is no object.
    """
    value = checkpoint.config.get("hearsay", {})
    if not isinstance(value, dict):
        raise CheckpointError(f"{checkpoint.directory}/config.json: hearsay: not an object")
    return cast("Mapping[str, Any]", value)


def read_headers(directory: Path) -> dict[str, Stored]:
    """Every tensor of the checkpoint under its original name, but for those that only training uses."""
    index = directory / "model.safetensors.index.json"
    if index.exists():
        files = _shards(index)
    else:
        files = [directory / "model.safetensors"]
    tensors: dict[str, Stored] = {}
    for file in files:
        try:
            found = read_header(file).items()
            tensors.update({canonical(name): stored for name, stored in found if not name.startswith(TRAINING)})
        except FileNotFoundError:
            raise CheckpointError(f"{directory} holds no {file.name}: download it from where the others came") from None
        except CheckpointError:
            raise
        except (ValueError, struct.error) as error:
            raise CheckpointError(f"{file} is damaged ({error}): download it again") from None
    return tensors


def _shards(index: Path) -> list[Path]:
    """The files that an index names, which lie beside it.

    Raises:
        CheckpointError: it names none, or something else.
    """
    named = read_json(index).get("weight_map")
    files = cast("dict[str, Any]", named).values() if isinstance(named, dict) else ()
    for file in files:
        if not isinstance(file, str) or not _SHARD.fullmatch(file):
            raise CheckpointError(f"{index} names {str(file)[:80]!r}, which is no file of weights beside it")
    if not files:
        raise CheckpointError(f"{index} names no file of weights: download it again")
    return sorted({index.parent / file for file in files})


def canonical(name: str) -> str:
    """The original name, without ``thinker.``, of a tensor whose published name is ``name``."""
    if name.startswith("thinker."):
        return name.removeprefix("thinker.")
    for theirs, ours in RENAMED:
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name
