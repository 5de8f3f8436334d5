"""Finding a checkpoint in what a user names, or telling why there is none and what to do."""

from collections.abc import Sequence
from pathlib import Path

from export.checkpoint import CheckpointError, read_json

SUPPORTED = "Qwen3-ASR, Qwen3-ForcedAligner, Qwen3-TTS-12Hz or Fun-ASR-Nano"
"""The checkpoints that can be converted, for messages."""
CODECS = ("qwen3_tts_tokenizer_12hz", "qwen3_tts_tokenizer_25hz")
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "model.pt")


def locate(source: Path) -> Path:
    """The directory that holds the checkpoint: ``source`` itself, or a snapshot if ``source`` is a model's folder in
    the hub's cache.

    Raises:
        CheckpointError: there is no checkpoint; the message tells what is there instead.
    """
    if not source.exists():
        raise CheckpointError(
            f"{source}: there is no such directory; if it is a repository's name, `hearsay models pull` brings it"
        )
    if source.is_file():
        raise CheckpointError(f"{source} is a file, not a checkpoint: give the directory that holds it")
    if (source / "model.json").exists():
        raise CheckpointError(f"{source} is a model already, not a checkpoint: give it to `hearsay serve --asr-model`")
    if (source / "snapshots").is_dir():
        return snapshot(source)
    if found := names(source, "models--*"):
        one = found[0].removeprefix("models--").replace("--", "/")
        raise CheckpointError(
            f"{source} is the hub's cache of {counted(found, 'model')}, not one checkpoint: give one of them, "
            f"as {source / found[0]}, or the name {one}"
        )
    if not (source / "config.json").exists() and not (source / "config.yaml").exists():
        raise CheckpointError(foreign(source))
    return source


def snapshot(cache: Path) -> Path:
    """The snapshot in a model's folder of the hub's cache: that of the branch main, or the only one.

    Raises:
        CheckpointError: there is none, or it is not clear which of several is meant.
    """
    found = names(cache / "snapshots", "*")
    main = cache / "refs" / "main"
    if main.exists() and (chosen := main.read_text(encoding="utf-8").strip()) in found:
        return locate(cache / "snapshots" / chosen)
    if len(found) == 1:
        return locate(cache / "snapshots" / found[0])
    if not found:
        raise CheckpointError(f"{cache} is the hub's cache of a model that was not downloaded: download it again")
    raise CheckpointError(f"{cache} holds {counted(found, 'snapshot')}: give one, as {cache / 'snapshots' / found[0]}")


def foreign(directory: Path) -> str:
    """A sentence that tells what a directory without a configuration seems to be, and what to do."""
    if names(directory, "*.gguf"):
        return (
            f"{directory} holds a GGUF without its audio encoder: put the mmproj file beside it, or pull the official "
            "checkpoint"
        )
    if names(directory, "*.onnx"):
        return (
            f"{directory} is another program's ONNX export, which hearsay does not run: pull the official checkpoint "
            "(`hearsay models list --available` names them)"
        )
    if any(names(directory, pattern) for pattern in WEIGHTS):
        return f"{directory} holds weights but no config.json: download it from where they came"
    return f"{directory} holds no checkpoint: neither config.json nor config.yaml is in it"


def check_architecture(source: Path) -> str:
    """The ``model_type`` in a checkpoint's config.json.

    Raises:
        CheckpointError: it cannot be converted; the message tells what it is.
    """
    kind = read_json(source / "config.json").get("model_type")
    if kind in CODECS:
        raise CheckpointError(
            f"{source} is the codec of a Qwen3-TTS checkpoint, not the model: give the directory that holds "
            "config.json and speech_tokenizer/ together"
        )
    if kind not in ("qwen3_asr", "qwen3_tts"):
        raise CheckpointError(f"{source}/config.json: model_type is {kind!r}, which is no {SUPPORTED}")
    return str(kind)


def names(directory: Path, pattern: str) -> list[str]:
    """The names in ``directory`` that match ``pattern``, sorted."""
    return sorted(path.name for path in directory.glob(pattern))


def counted(found: Sequence[str], noun: str) -> str:
    """The number of ``found`` with the noun in the right number: "1 model", "2 models"."""
    return f"{len(found)} {noun}{'s' if len(found) > 1 else ''}"
