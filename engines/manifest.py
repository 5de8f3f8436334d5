"""model.json: the contract between the exporter and the runtime.

A model directory holds a ``model.json`` of this shape and the files it names. Every dimension the runtime needs stands
here, read from the checkpoint by the exporter; the runtime assumes none. ``sha256`` and ``bytes`` guard each file. Its
parts are declared in engines/parts.py and engines/speaking_parts.py, and imported from here.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, get_args

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
NAME = "model.json"


class ManifestError(ValueError):
    """A model directory is unusable; the message says which field or file and why."""


class AsrManifest(msgspec.Struct, frozen=True, tag="asr", tag_field="kind"):
    """A hearing model. ``fun_asr`` stands in those of the family fun-asr-nano."""

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
    family: Literal["qwen3-asr", "fun-asr-nano"] = "qwen3-asr"
    fun_asr: FunAsr | None = None


class TtsManifest(msgspec.Struct, frozen=True, tag="tts", tag_field="kind"):
    """A speaking model.

    ``text_rows``: .npy, float [text vocabulary, talker width], text embeddings already projected. ``code_rows``: .npy,
    float [talker vocabulary + (codebooks − 1) · entries, talker width]: the row of id i of the talker's vocabulary is
    i, that of code c of codebook g ≥ 1 is talker vocabulary + (g − 1) · entries + c. Both are made to be mapped.

    The talker's ids from ``codec.entries`` on are control ids: never sampled, but ``codec_eos``, the end.
    ``layouts``: ``stream`` (one text token a frame) and ``whole`` (all text first), what the model was trained for.
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
    """By ISO 639-1 code; dialects by their own name."""
    layouts: tuple[Literal["stream", "whole"], ...]
    instructions: bool
    """Whether an instruction may go before the text."""
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
        ManifestError: the name is absolute, has a drive, a backslash, an empty part or a ``..``.
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
    """What a manifest, or a part of one, needs: dotted names of fields, and the file that each names."""
    for field in msgspec.structs.fields(part):
        value: object = getattr(part, field.name)
        if isinstance(value, msgspec.Struct):
            yield from references(value, f"{prefix}{field.name}.")
        elif isinstance(value, str) and _names_a_file(field.type):
            yield prefix + field.name, value


def _names_a_file(annotation: Any) -> bool:
    return MEMBER in getattr(annotation, "__metadata__", ()) or any(map(_names_a_file, get_args(annotation)))


def read(directory: Path) -> Manifest:
    """Read ``directory/model.json``. The files that it names lie inside the directory, if they are there at all
    (engines/integrity.py looks).

    Raises:
        ManifestError: no such file, not of this shape, of another format version, or a name leaves the directory.
    """
    path = directory / NAME
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
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
    """Write ``directory/model.json``, indented, keys in order of declaration."""
    (directory / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
