"""The families of hearing models, a file each: what a family does in its own way.

A file bears the name that manifests give the family, with underscores for hyphens, and holds a class ``Family``.
Nothing else asks which family a model is of, and a further one is a further file.
"""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from engines.lane import Steps
from engines.manifest import AsrManifest, ManifestError
from streaming.encoder import AudioEncoder, Encoded
from streaming.mel import LogMel
from streaming.prompt import Prompt
from streaming.work import Work

Floats = npt.NDArray[np.float32]


class Clip(Protocol):
    """The audio half of a segment: samples in, encoded rows out. One piece of work at a time."""

    length: int
    """Samples so far."""

    def extend(self, samples: Floats) -> None:
        """Append samples, float32 mono at the model's rate."""
        ...

    def audio(self, start: int, stop: int) -> Floats:
        """A view of the samples ``start … stop``, as far as they are there."""
        ...

    def take(self) -> Steps[Encoded]:
        """Encode the oldest complete window that was not taken: later samples change nothing of it."""
        ...

    def tail(self, end: int, quiet: int = 0) -> Steps[Encoded]:
        """The rows after the windows that were taken, for the clip that ends at sample ``end``, with ``quiet`` zeros
        behind it where the family wants them."""
        ...


class Family(Protocol):
    """What one model does in the way of its family; its sessions share it."""

    log_mel: LogMel
    """The front end."""
    prompt: Prompt
    """The conversation."""

    def __init__(self, directory: Path, manifest: AsrManifest, tokenizer: Tokenizer) -> None:
        """
        Raises:
            ManifestError: the family needs what the manifest or a file of ``directory`` does not hold.
        """
        ...

    def rows(self, encoded: int) -> int:
        """How many of ``encoded`` rows of a clip go into the decoder."""
        ...

    def clip(self, encoder: AudioEncoder, work: Work, mel_maximum: float | None = None) -> Clip:
        """The audio half of a new segment; ``mel_maximum``: of the whole clip, where it is known
        (``ListenOptions.mel_maximum``)."""
        ...


def load(directory: Path, manifest: AsrManifest, tokenizer: Tokenizer) -> Family:
    """What the model of ``directory`` does in the way of its family.

    Raises:
        ManifestError: no file here has the family's name; or as ``Family``.
    """
    known = sorted(module.name for module in iter_modules(__path__))
    name = manifest.family.replace("-", "_")
    if name not in known:
        offered = ", ".join(each.replace("_", "-") for each in known)
        raise ManifestError(f"{directory}: family {manifest.family!r} is none of {offered}")
    family = cast("type[Family]", import_module(f"{__name__}.{name}").Family)
    return family(directory, manifest, tokenizer)
