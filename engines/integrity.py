"""Whether a model directory is whole: the files that its manifest names are there, and hold what they should."""

import hashlib
from pathlib import Path

from engines.manifest import NAME, Manifest, ManifestError, member, read, references

_BLOCK = 1 << 20
"""How many bytes are read at a time: 1 MiB bounds the memory, and larger blocks are no faster."""


def load_manifest(path: Path) -> Manifest:
    """Read a model directory's manifest and :func:`check` its files.

    Raises:
        ManifestError: the manifest is unusable, or a file is missing or of another size.
    """
    manifest = read(path)
    check(path, manifest)
    return manifest


def check(path: Path, manifest: Manifest) -> None:
    """Check that the manifest lists every file that it names, and that each is there and has its size.

    No file is read, so this is cheap at every start; ``verify`` checks the contents.

    Raises:
        ManifestError: a file is not listed, missing or of another size; the message names the first.
    """
    for field, name in references(manifest):
        if name not in manifest.files:
            raise ManifestError(f"{path / NAME}: {field} names {name!r}, which files does not list")
    for name, expected in manifest.files.items():
        try:
            size = member(path, name).stat().st_size
        except FileNotFoundError:
            raise ManifestError(f"{path}: {name} is missing") from None
        except OSError as error:
            raise ManifestError(f"{path}: {name} cannot be read: {error.strerror}") from None
        if size != expected.bytes:
            raise ManifestError(f"{path}: {name} has {size} bytes, the manifest says {expected.bytes}")


def verify(path: Path) -> Manifest:
    """Check the size and SHA-256 of every file of a model directory.

    Raises:
        ManifestError: a file is missing or differs; the message names the first and says how.
    """
    manifest = load_manifest(path)
    for name, expected in manifest.files.items():
        digest = sha256(member(path, name))
        if digest != expected.sha256:
            raise ManifestError(f"{path}: {name} has SHA-256 {digest}, the manifest says {expected.sha256}")
    return manifest


def sha256(file: Path) -> str:
    """The SHA-256 of a file, in lower-case hexadecimal."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
