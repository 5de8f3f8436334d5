"""model.json: the contract between the exporter and the runtime.

A model directory holds a ``model.json`` of this shape and the files it names. Every dimension that the runtime needs
stands in it; the exporter reads them from the checkpoint, and the runtime assumes none. The parts of a manifest are
declared in engines/parts.py and engines/speaking_parts.py; other modules import them from here.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, Literal, get_args

import msgspec

from engines.parts import (
    MEMBER,
    Aligner,
    ClipFloor,
    Decoder,
    Encoder,
    File,
    FixedFloor,
    FunAsr,
    Mel,
    Member,
    Tokenizer,
)
from engines.speaking_parts import (
    CodecDecoder,
    CodecEncoder,
    CodecState,
    CodeSampling,
    Predictor,
    Pronunciation,
    SpeakerEncoder,
    TextRules,
    TtsSampling,
    TtsTokens,
    Voice,
)

__all__ = [
    "Aligner",
    "AsrManifest",
    "ClipFloor",
    "CodecDecoder",
    "CodecEncoder",
    "CodecState",
    "CodeSampling",
    "Decoder",
    "Encoder",
    "FORMAT",
    "File",
    "FixedFloor",
    "FunAsr",
    "Manifest",
    "ManifestError",
    "Mel",
    "NAME",
    "Predictor",
    "Pronunciation",
    "SpeakerEncoder",
    "TextRules",
    "Tokenizer",
    "TtsManifest",
    "TtsSampling",
    "TtsTokens",
    "Voice",
    "member",
    "read",
    "read_asr",
    "read_tts",
    "references",
    "write",
]

FORMAT = 1
"""The version of the format. It changes when an older runtime would misread a manifest."""
NAME = "model.json"


class ManifestError(ValueError):
    """A model directory is unusable; the message names the field or file and says why."""


class AsrManifest(msgspec.Struct, frozen=True, tag="asr", tag_field="kind"):
    """A hearing model, or an aligner, which then has ``aligner``. ``languages`` are ISO 639-1 codes (639-3 where there
    is none), ``licence`` is an SPDX name, ``source`` tells where the checkpoint came from."""

    format: int
    name: str
    architecture: str
    languages: tuple[str, ...]
    licence: str
    mel: Mel
    encoder: Encoder
    decoder: Decoder
    tokenizer: Tokenizer
    files: dict[str, File]
    aligner: Aligner | None = None
    source: str = ""
    family: str = "qwen3-asr"
    """The name of the model's family, which a file of ``streaming/families`` implements."""
    fun_asr: FunAsr | None = None
    """What models of the family fun-asr-nano have in addition."""


class TtsManifest(msgspec.Struct, frozen=True, tag="tts", tag_field="kind"):
    """A speaking model.

    ``text_rows`` is a .npy file, float [text vocabulary, talker width], of text embeddings that are already projected.
    ``code_rows`` is a .npy file, float [talker vocabulary + (codebooks − 1) · entries, talker width]: id i of the
    talker's vocabulary has row i, and code c of codebook g ≥ 1 has row talker vocabulary + (g − 1) · entries + c. The
    runtime maps both files instead of reading them.

    The talker's ids from ``codec.entries`` on are control ids. Of those only ``codec_eos``, the end, is ever sampled.
    ``layouts`` tells what the model was trained on: ``stream`` has one text token a frame, ``whole`` all text first.
    """

    format: int
    name: str
    architecture: str
    variant: Literal["base", "custom_voice", "voice_design"]
    languages: tuple[str, ...]
    licence: str
    talker: Decoder
    predictor: Predictor
    text_rows: Member
    code_rows: Member
    codec: CodecDecoder
    tokenizer: Tokenizer
    tokens: TtsTokens
    voices: dict[str, Voice]
    language_ids: dict[str, int]
    """The talker's id of each language, by ISO 639-1 code, and of each dialect, by its own name."""
    layouts: tuple[Literal["stream", "whole"], ...]
    instructions: bool
    """Whether the model understands an instruction before the text."""
    sampling: TtsSampling
    files: dict[str, File]
    speaker_encoder: SpeakerEncoder | None = None
    codec_encoder: CodecEncoder | None = None
    text: TextRules = TextRules()
    source: str = ""


Manifest = AsrManifest | TtsManifest


def member(path: Path, name: str) -> Path:
    """The path of a manifest's file. A name may use folders (with ``/``) but never leave the model directory.

    Raises:
        ManifestError: the name is absolute, or has a drive, a backslash, an empty part, a ``.`` or a ``..``.
    """
    parts = name.split("/")
    if (
        any(part in ("", ".", "..") for part in parts)
        or "\\" in name
        or "\0" in name
        or PurePosixPath(name).is_absolute()
        or PureWindowsPath(name).drive
    ):
        raise ManifestError(f"{path / NAME}: file name {name!r} leaves the model directory")
    return path.joinpath(*parts)


def references(part: msgspec.Struct, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The files that a manifest, or a part of one, names, each with the dotted name of its field before it."""
    for field in msgspec.structs.fields(part):
        value: object = getattr(part, field.name)
        if isinstance(value, msgspec.Struct):
            yield from references(value, f"{prefix}{field.name}.")
        elif isinstance(value, str) and _names_a_file(field.type):
            yield prefix + field.name, value


def _names_a_file(annotation: Any) -> bool:
    return MEMBER in getattr(annotation, "__metadata__", ()) or any(map(_names_a_file, get_args(annotation)))


_manifests: Final = msgspec.json.Decoder(Manifest)
"""The decoder is made at import: a daemon reads its manifests in two threads at the same time, and msgspec (0.22) lets
the process crash when two threads make a decoder of the same type."""


def read(directory: Path) -> Manifest:
    """Read ``directory/model.json``. Whether the files that it names are there is for engines/integrity.py to check.

    Raises:
        ManifestError: there is no such file, it is not of this shape or of another version, or a name leaves the
            directory.
    """
    path = directory / NAME
    try:
        manifest = _manifests.decode(path.read_bytes())
    except FileNotFoundError:
        raise ManifestError(f"{directory} holds no {NAME}: not a model directory") from None
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise ManifestError(f"{path}: {error}") from None
    if manifest.format != FORMAT:
        raise ManifestError(f"{path}: format {manifest.format}, this version reads {FORMAT}")
    for name in (*manifest.files, *(name for _, name in references(manifest))):
        member(directory, name)
    return manifest


def read_asr(directory: Path) -> AsrManifest:
    """Read the manifest of a hearing model.

    Raises:
        ManifestError: as ``read``, or the model is of another kind.
    """
    manifest = read(directory)
    if not isinstance(manifest, AsrManifest):
        raise ManifestError(f"{directory} holds a speaking model ({manifest.name}), not one that hears")
    return manifest


def read_tts(directory: Path) -> TtsManifest:
    """Read the manifest of a speaking model.

    Raises:
        ManifestError: as ``read``, or the model is of another kind.
    """
    manifest = read(directory)
    if not isinstance(manifest, TtsManifest):
        raise ManifestError(f"{directory} holds a hearing model ({manifest.name}), not one that speaks")
    return manifest


def write(manifest: Manifest, directory: Path) -> None:
    """Write ``directory/model.json``, indented, its keys in the order of their declaration."""
    (directory / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
