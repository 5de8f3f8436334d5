"""Weights as files, and folders in the official layout around them."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"


def save_weights(weights: Mapping[str, Tensor], path: Path, **about: str) -> None:
    """A safetensors file, float16, whole or not at all. about: what is noted in it beside the weights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = {k: v.detach().to("cpu", torch.float16).contiguous() for k, v in weights.items()}
    temporary = path.with_suffix(".part")
    save_file(half, temporary, {"format": "pt"} | about)
    temporary.rename(path)


def load_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of a file of `save_weights`, float32."""
    return {name: value.float() for name, value in load_file(path).items()}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Indented; whole or not at all."""
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    temporary.rename(path)


def save_folder(folder: Path, config: Mapping[str, Any], weights: Mapping[str, Tensor], tokenizer: Path) -> None:
    """config.json, model.safetensors and the tokenizer.json of the folder `tokenizer`."""
    save_weights(weights, folder / WEIGHTS)
    write_json(folder / "config.json", config)
    if tokenizer.resolve() != folder.resolve():
        shutil.copy(tokenizer / TOKENIZER, folder / TOKENIZER)
