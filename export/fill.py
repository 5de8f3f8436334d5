"""What ``hearsay models pull`` calls: turning a checkpoint into a model directory, without torch for released sizes.

The module can be imported in the default install, and prints nothing: callers are told of progress by a function.
"""

import errno
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engines import manifest
from export.checkpoint import CheckpointError
from export.names import Precision, Quantization
from export.pair import find_pair, native_quantization
from export.progress import Meter, Progress, Report
from export.stored import suspecting
from export.work import open_work

__all__ = [
    "FILES",
    "CheckpointError",
    "Estimate",
    "Progress",
    "Release",
    "convert",
    "estimate",
    "Precision",
    "Quantization",
    "leftovers",
    "native",
    "released",
]

UNWRITABLE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}
)
"""The errors of a full, limited or read-only disk, about which the user can do something."""

TEXTS = (
    "config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json", "tokenizer.json",
    "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json", "README.md",
)  # fmt: skip
"""The files that configure a checkpoint and its tokenizer."""
WEIGHTS = ("model.safetensors", "model-*.safetensors", "model.safetensors.index.json")

FILES: Mapping[str, tuple[str, ...]] = {
    "qwen3-asr": (*TEXTS, *WEIGHTS),
    "qwen3-forced-aligner": (*TEXTS, *WEIGHTS),
    "qwen3-tts": (*TEXTS, *WEIGHTS, *(f"speech_tokenizer/{name}" for name in ("config.json", *WEIGHTS))),
    "fun-asr-nano": ("config.yaml", "configuration.json", "model.pt", "am.mvn", "README.md", "Qwen3-0.6B/*"),
}
"""For each family the files that a conversion reads, as patterns of ``fnmatch``."""

MEMORY = {"qwen3-asr": 0.5e9, "qwen3-forced-aligner": 0.5e9, "qwen3-tts": 0.9e9, "fun-asr-nano": 0.7e9}
"""How many bytes a conversion of each family holds in memory at most: measured, with a margin. Tensors stream, so the
model's size changes little."""


@dataclass(frozen=True, slots=True)
class Release:
    """A released size of a family. Whatever checkpoint has its dimensions is of that size, fine-tuned models too."""

    family: str
    size: str
    parameters: int
    memory: int
    """How many bytes a conversion holds in memory at most."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a conversion needs: ``disk`` and ``memory`` in bytes, and whether torch, which traces the graphs of sizes
    that were not released."""

    disk: int
    memory: int
    torch: bool


def released(source: Path) -> Release | None:
    """Which released size a checkpoint has, or None.

    Raises:
        CheckpointError: ``source`` is no checkpoint, or cannot be converted.
    """
    work = open_work(source)
    if work.size is None:
        return None
    return Release(work.family, work.size, work.parameters, int(MEMORY[work.family]))


def estimate(source: Path, *, precision: Precision, quantization: Quantization, clip: bool = False) -> Estimate:
    """What converting ``source`` needs, by its headers. What ``convert`` would refuse is refused here too.

    Raises:
        CheckpointError: it cannot be converted.
    """
    work = open_work(source)
    traced = not work.known(precision, quantization)
    memory = 8 * work.traced if traced else int(MEMORY[work.family])
    return Estimate(work.disk(precision, quantization), memory, traced)


def convert(
    source: Path,
    target: Path,
    *,
    precision: Precision = "int8",
    quantization: Quantization = "q8_0",
    clip: bool = False,
    name: str | None = None,
    report: Report | None = None,
) -> manifest.AsrManifest | manifest.TtsManifest:
    """Make the model directory ``target``, whole or not at all: it is built in a folder beside it and moved into place.

    Args:
        precision: the precision of the audio encoder or the codec.
        quantization: the format of the decoders.
        clip: whether to write the whole-clip graph too, for other programs.
        name: the model's name; by default the checkpoint's own, else that of ``target``.
        report: a function that is called after every tensor. What it raises ends the conversion.

    Raises:
        CheckpointError: the checkpoint cannot be converted, or the disk is full or read-only.
        ExportUnavailable: the dimensions are no released model's and torch is not installed.
    """
    work = open_work(source)
    meter = Meter(work.disk(precision, quantization), report)
    try:
        with suspecting(source):
            work.write(target, precision, quantization, clip=clip, name=name, meter=meter)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise CheckpointError(unwritable(target, error, meter)) from None
    meter.finish()
    return manifest.read(target)


def unwritable(target: Path, error: OSError, meter: Meter) -> str:
    """A sentence for the user on why nothing could be written and what to do."""
    where = next((each for each in target.parents if each.is_dir()), Path(target.anchor))
    if error.errno == errno.EFBIG:
        return f"the disk of {target.parent} cannot hold files of that size: choose another directory"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(where).free
        return (
            f"the disk of {where} is full: {meter.total / 1e9:.1f} GB are needed and "
            f"{free / 1e9:.1f} GB are free; free some or choose another directory"
        )
    return f"{where} cannot be written to ({error.strerror}): choose another directory"


def leftovers(target: Path) -> list[Path]:
    """The folders that killed conversions to ``target`` have left."""
    return sorted(path for path in target.parent.glob(f".{target.name}.*") if path.is_dir())


def native(source: Path) -> Quantization | None:
    """The only quantisation that ``source`` can be converted to, or None if any can be chosen.

    Raises:
        CheckpointError: ``source`` is a GGUF in a format that the runtime does not know.
    """
    pair = find_pair(source)
    return None if pair is None else native_quantization(pair[0])
