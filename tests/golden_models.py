"""Model directories made of the golden files."""

from pathlib import Path

import msgspec
import numpy as np

from engines import manifest as manifests
from engines.integrity import sha256

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
    manifests.write(msgspec.structs.replace(manifest, encoder=encoder, files=listed(folder)), folder)
    return folder


def aligner(folder: Path) -> Path:
    """The golden int8 model as a ForcedAligner with a random time head, put together in the empty ``folder``."""
    manifest = manifests.read_asr(GOLDEN / "int8")
    for name in manifest.files:
        (folder / name).write_bytes((GOLDEN / "int8" / name).read_bytes())
    head = np.random.default_rng(4).standard_normal((300, manifest.decoder.width)).astype(np.float32)
    np.save(folder / "aligner.npy", head)
    entry = manifests.Aligner(len(head), 0.08, "aligner.npy")
    changed = msgspec.structs.replace(
        manifest, architecture="qwen3-forced-aligner", name="aligner", aligner=entry, files=listed(folder)
    )
    manifests.write(changed, folder)
    return folder


def listed(folder: Path) -> dict[str, manifests.File]:
    """What a manifest says of the files that lie in ``folder``."""
    files = sorted(file for file in folder.iterdir() if file.name != manifests.NAME)
    return {file.name: manifests.File(file.stat().st_size, sha256(file)) for file in files}
