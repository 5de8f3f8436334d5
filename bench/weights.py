"""Size on disk of the shipped models: the files that their manifests name, and the manifest."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.material import Material
from bench.row import Row
from engines import integrity
from engines.manifest import NAME
from engines.store import ModelNotFound

LIMIT: Final = 45e6
"""The goal for the bytes of a model."""


def size_rows(material: Material) -> list[Row]:
    """A row for each model."""
    return [_row("hearing", lambda: material.hearing_model), _row("speaking", lambda: material.speaking_model)]


def _row(kind: str, find: Callable[[], Path]) -> Row:
    goal = f"≤ {LIMIT / 1e6:.0f} MB"
    try:
        directory = find()
    except ModelNotFound as reason:
        return Row(f"size on disk, {kind}", "no model", goal, False, (str(reason),))
    size = model_bytes(directory)
    return Row(f"size on disk, {kind}", f"{size / 1e6:.1f} MB", goal, size <= LIMIT)


def model_bytes(directory: Path) -> int:
    """Bytes of a model's files.

    Raises:
        ManifestError: the manifest or a file that it names is missing.
    """
    manifest = integrity.load_manifest(directory)
    return (directory / NAME).stat().st_size + sum(file.bytes for file in manifest.files.values())
