"""A Qwen3-TTS-12Hz checkpoint directory, read without torch.

The directory holds the talker, its code predictor and, in a Base checkpoint, the speaker encoder (``model.safetensors``
or shards of it; tensors ``talker.*`` and ``speaker_encoder.*``), and in ``speech_tokenizer/`` the codec
(tensors ``decoder.*`` and ``encoder.*``). Both parts keep their published names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from export.checkpoint import Checkpoint, CheckpointError, read_headers, read_json
from export.mlx import unpacked

CODEC = "speech_tokenizer"
MODEL_TYPE, CODEC_TYPE = "qwen3_tts", "qwen3_tts_tokenizer_12hz"


@dataclass(frozen=True, slots=True)
class TtsCheckpoint:
    """An opened checkpoint: ``model`` has talker, code predictor and speaker encoder, ``codec`` the codec."""

    model: Checkpoint
    codec: Checkpoint


def open_tts(directory: Path) -> TtsCheckpoint:
    """Open a Qwen3-TTS-12Hz checkpoint directory.

    Raises:
        CheckpointError: ``directory`` or its ``speech_tokenizer`` has no config.json or no weights, or it is another
            kind of model.
    """
    model = open_part(directory, MODEL_TYPE)
    kind = model.config.get("tokenizer_type", CODEC_TYPE)
    if kind != CODEC_TYPE:
        raise CheckpointError(
            f"{directory}/config.json: tokenizer_type is {kind!r}; only {CODEC_TYPE!r} can be exported"
        )
    return TtsCheckpoint(model, open_part(directory / CODEC, CODEC_TYPE))


def open_part(directory: Path, kind: str) -> Checkpoint:
    """Open the part of a checkpoint in ``directory``, whose config.json must have the model type ``kind``. Its tensors
    keep their published names."""
    config = read_json(directory / "config.json")
    if config.get("model_type") != kind:
        raise CheckpointError(f"{directory}/config.json: model_type is {config.get('model_type')!r}, not {kind!r}")
    return Checkpoint(directory, "tts", config, unpacked(read_headers(directory), config))


def view(checkpoint: Checkpoint, names: Mapping[str, str]) -> Checkpoint:
    """``checkpoint`` with tensors under other names: ``names`` maps published prefixes to those of the view.

    Of several prefixes that fit, the longest counts. Tensors with no such prefix are left out.
    """
    order = sorted(names, key=len, reverse=True)
    tensors = {
        names[prefix] + name.removeprefix(prefix): stored
        for name, stored in checkpoint.tensors.items()
        if (prefix := next((prefix for prefix in order if name.startswith(prefix)), None)) is not None
    }
    return replace(checkpoint, tensors=tensors)


def section(checkpoint: Checkpoint, *path: str) -> Mapping[str, Any]:
    """The object at ``path`` of config.json.

    Raises:
        CheckpointError: it is missing or no object.
    """
    value: Any = checkpoint.config
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        raise CheckpointError(f"{checkpoint.directory}/config.json: {'.'.join(path)} is missing")
    return value
