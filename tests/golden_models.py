"""Model directories made of the golden files."""

from pathlib import Path

import msgspec

from engines import manifest as manifests

GOLDEN = Path(__file__).parent / "golden" / "asr"
"""Random weights, exported; what the official code makes of them (tests/reference/golden.py writes it)."""


def longer_chunks(folder: Path, frames: int) -> Path:
    """The golden int8 model with chunks of ``frames`` (200 or 400), put together in the empty ``folder``."""
    for file in (GOLDEN / "int8").iterdir():
        if file.name not in ("stem.onnx", "clip.onnx", manifests.NAME):
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "stem.onnx").write_bytes((GOLDEN / f"stem-{frames}.onnx").read_bytes())
    manifest = manifests.read_asr(GOLDEN / "int8")
    rows = frames // 8
    encoder = msgspec.structs.replace(
        manifest.encoder, chunk_frames=frames, chunk_rows=rows, window_rows=rows * (800 // frames), clip=None
    )
    manifests.write(msgspec.structs.replace(manifest, encoder=encoder), folder)
    return folder
