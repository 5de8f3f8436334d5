"""Whether a model directory is whole: what its manifest names lies inside it, is there, and holds what it should."""

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from engines.manifest import NAME, Manifest, ManifestError, TtsManifest, read

_BLOCK = 1 << 20


def load_manifest(path: Path) -> Manifest:
    """Read a model directory's manifest and check that it names only files inside the directory, and all it needs.

    Reads no file but ``model.json``: cheap at every start. ``verify`` checks the contents.

    Raises:
        ManifestError: the manifest is unusable, or a file that it names is absent.
    """
    manifest = read(path)
    for name in manifest.files:
        member(path, name)
    for field, name in _references(manifest):
        if name not in manifest.files:
            raise ManifestError(f"{path / NAME}: {field} names {name!r}, which files does not list")
        if not member(path, name).is_file():
            raise ManifestError(f"{path}: {name} ({field}) is missing")
    return manifest


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


def verify(path: Path) -> Manifest:
    """Check size and SHA-256 of every file of a model directory.

    Raises:
        ManifestError: naming the first file that is missing or differs, and how.
    """
    manifest = load_manifest(path)
    for name, expected in manifest.files.items():
        file = member(path, name)
        if not file.is_file():
            raise ManifestError(f"{path}: {name} is missing")
        size = file.stat().st_size
        if size != expected.bytes:
            raise ManifestError(f"{path}: {name} has {size} bytes, the manifest says {expected.bytes}")
        digest = sha256(file)
        if digest != expected.sha256:
            raise ManifestError(f"{path}: {name} has SHA-256 {digest}, the manifest says {expected.sha256}")
    return manifest


def sha256(file: Path) -> str:
    """The SHA-256 of a file, in lower-case hexadecimal; constant memory."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _references(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "tokenizer.file", manifest.tokenizer.file
    if isinstance(manifest, TtsManifest):
        yield from _speaking_references(manifest)
        return
    yield "mel.filters", manifest.mel.filters
    yield "encoder.stem", manifest.encoder.stem
    yield "encoder.body", manifest.encoder.body
    if manifest.encoder.clip is not None:
        yield "encoder.clip", manifest.encoder.clip
    yield "decoder.file", manifest.decoder.file


def _speaking_references(manifest: TtsManifest) -> Iterator[tuple[str, str]]:
    predictor = manifest.predictor
    yield "talker.file", manifest.talker.file
    yield "predictor.decoder.file", predictor.decoder.file
    yield "predictor.heads", predictor.heads
    for field, name in (
        ("rows", predictor.rows),
        ("weight", predictor.weight),
        ("bias", predictor.bias),
        ("graph", predictor.graph),
    ):
        if name is not None:
            yield f"predictor.{field}", name
    yield "text_rows", manifest.text_rows
    yield "code_rows", manifest.code_rows
    yield "codec.file", manifest.codec.file
    if manifest.speaker_encoder is not None:
        yield "speaker_encoder.file", manifest.speaker_encoder.file
        yield "speaker_encoder.filters", manifest.speaker_encoder.filters
    if manifest.codec_encoder is not None:
        yield "codec_encoder.file", manifest.codec_encoder.file
