"""A Fun-ASR-Nano checkpoint directory, read without torch: config.yaml, model.pt, and a directory for the decoder.

Tensors keep their published names, except that the decoder's lose the prefix ``llm.``, so that they have the same names
as in a Qwen3-ASR checkpoint.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from export.checkpoint import Checkpoint, CheckpointError, read_json
from export.funasr.pickled import read_tensors

CONFIG, WEIGHTS = "config.yaml", "model.pt"
LAYOUT = "funasr"


@dataclass(frozen=True, slots=True)
class FunAsrCheckpoint:
    """An opened checkpoint. ``whole`` has the configuration of the whole model, ``llm`` that of the decoder, in whose
    directory the tokenizer lies too; both have all tensors."""

    whole: Checkpoint
    llm: Checkpoint


def is_funasr(directory: Path) -> bool:
    """Whether ``directory`` holds a checkpoint of FunASR, which has a config.yaml and no config.json."""
    return (directory / CONFIG).exists() and not (directory / "config.json").exists()


def open_funasr(directory: Path) -> FunAsrCheckpoint:
    """Open a checkpoint directory.

    Raises:
        CheckpointError: a file is missing or unreadable, or the model is no FunASRNano.
    """
    try:
        config: Any = yaml.safe_load((directory / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{directory} holds no {CONFIG}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{directory / CONFIG}: {error}") from None
    if not isinstance(config, dict) or cast(dict[str, Any], config).get("model") != "FunASRNano":
        raise CheckpointError(f"{directory / CONFIG}: model is not FunASRNano")
    values = cast(dict[str, Any], config)
    tensors = {name.removeprefix("llm."): stored for name, stored in read_tensors(directory / WEIGHTS).items()}
    folder = llm_folder(directory, values)
    return FunAsrCheckpoint(
        Checkpoint(directory, LAYOUT, values, tensors),
        Checkpoint(folder, LAYOUT, {"": read_json(folder / "config.json")}, tensors),
    )


def llm_folder(directory: Path, config: dict[str, Any]) -> Path:
    """The decoder's directory inside the checkpoint, which ``llm_conf.init_param_path`` names.

    Raises:
        CheckpointError: the key is missing, or there is no such directory.
    """
    value = (config.get("llm_conf") or {}).get("init_param_path")
    if not isinstance(value, str):
        raise CheckpointError(f"{directory / CONFIG}: llm_conf.init_param_path: missing")
    for folder in (directory / value, directory / Path(value).name):
        if (folder / "config.json").exists():
            return folder
    raise CheckpointError(f"{directory} holds no {Path(value).name}/config.json, which llm_conf.init_param_path names")
