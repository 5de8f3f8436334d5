"""The files of a checkpoint that tell how words sound, which are copied into the model directory."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from codec.sounds.reader import Reader
from engines.manifest import ManifestError, Pronunciation
from export.checkpoint import Checkpoint, CheckpointError


def pronunciation(model: Checkpoint, extra: Mapping[str, Any]) -> Pronunciation | None:
    """The names of the files, in ``hearsay.text.sounds`` of config.json; None for a model that reads letters.

    Raises:
        CheckpointError: the value is no object with the three names.
    """
    text = extra.get("text")
    named = cast("Mapping[str, Any]", text).get("sounds") if isinstance(text, dict) else None
    if named is None:
        return None
    try:
        return msgspec.convert(named, Pronunciation)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{model.directory}/config.json: hearsay.text.sounds: {error}") from None


def write_sounds(model: Checkpoint, parts: Pronunciation, out: Path) -> None:
    """Copy the files ``parts`` to ``out``.

    Raises:
        CheckpointError: a file is missing, or the runtime cannot read it.
    """
    for name in msgspec.structs.astuple(parts):
        if Path(name).name != name:
            raise CheckpointError(f"{model.directory}/config.json: hearsay.text.sounds: {name!r} is no file beside it")
        try:
            shutil.copyfile(model.directory / name, out / name)
        except OSError as error:
            raise CheckpointError(f"{model.directory / name} cannot be read: {error.strerror}") from None
    try:
        Reader.load(parts, out)
    except ManifestError as error:
        raise CheckpointError(str(error)) from None
