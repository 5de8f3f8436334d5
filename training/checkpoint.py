"""Weights as files, and folders in the official layout around them."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"


def halved(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give the weights in float16."""
    return {name: value.detach().to(torch.float16) for name, value in weights.items()}


def save_weights(weights: Mapping[str, Tensor], path: Path) -> None:
    """Write weights in float16 as a safetensors file. The file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = {k: v.cpu().contiguous() for k, v in halved(weights).items()}
    temporary = path.with_suffix(".part")
    save_file(half, temporary, {"format": "pt"})
    temporary.rename(path)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read all tensors, in float32, of a file that `save_weights` wrote or of a folder that `parts.save_parts`
    wrote."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    return {name: value.float() for file in files for name, value in load_file(file).items()}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an indented JSON file, which appears whole or not at all."""
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    temporary.rename(path)


def save_folder(folder: Path, config: Mapping[str, Any], weights: Mapping[str, Tensor], tokenizer: Path) -> None:
    """Write config.json and model.safetensors into a folder, and copy the tokenizer.json of the folder `tokenizer`
    there."""
    save_weights(weights, folder / WEIGHTS)
    write_json(folder / CONFIG, config)
    if tokenizer.resolve() != folder.resolve():
        shutil.copy(tokenizer / TOKENIZER, folder / TOKENIZER)
