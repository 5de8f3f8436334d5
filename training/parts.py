"""Tensors lie in a folder of files that are each small enough to be carried, beside what is told of them."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from training.checkpoint import write_json

TOLD = "parts.json"
# Bytes of a file: with its header it stays below the 15 MiB that are carried in one piece.
_MOST = 14 << 20


def save_parts(folder: Path, tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> None:
    """Write the tensors as they are into files of at most 14 MiB, and into `parts.json` the list of these files and
    what is `told`. A tensor that is larger than that is alone in its file. The folder appears whole or not at all."""
    groups: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if size + tensor.nbytes > _MOST and groups[-1]:
            groups.append({})
            size = 0
        groups[-1][name] = tensor.detach().cpu().contiguous()
        size += tensor.nbytes
    new, old = (folder.with_name(f"{folder.name}.{end}") for end in ("new", "old"))
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    new.mkdir(parents=True)
    files = [f"part-{i}.safetensors" for i in range(len(groups))]
    for file, group in zip(files, groups, strict=True):
        save_file(group, new / file)
    write_json(new / TOLD, {"files": files, "told": told})
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def load_parts(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_parts` was given.

    Raises:
        ValueError: a part is missing.
    """
    listing = json.loads((folder / TOLD).read_text())
    if missing := [file for file in listing["files"] if not (folder / file).exists()]:
        raise ValueError(f"{folder}: without {', '.join(missing)}")
    tensors: dict[str, Tensor] = {}
    for file in listing["files"]:
        tensors |= load_file(folder / file)
    return tensors, listing["told"]


def told(folder: Path) -> dict[str, Any]:
    """Read what `save_parts` was told, without the tensors."""
    found: dict[str, Any] = json.loads((folder / TOLD).read_text())["told"]
    return found
