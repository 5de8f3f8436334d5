"""Recorded music under free licences, from Debian packages that hold nothing but game data.

A package is looked for where Debian installs it, then in hearsay's cache; where ``apt-get`` and ``dpkg-deb`` are at
hand it is fetched into the cache (as ``make`` fetches what it needs), never installed.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr

from bench.noise import RATE

Floats = npt.NDArray[np.float32]
_soxr: Any = soxr  # soxr's types are incomplete.


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package with instrumental music: where its files lie, whose they are, under which licence."""

    name: str
    files: str
    author: str
    licence: str


PACKAGES: Final = (
    Package("torus-trooper-data", "usr/share/games/torus-trooper/sounds/musics/*.ogg", "Kenta Cho", "BSD-2-Clause"),
    Package("asc-music", "usr/share/games/asc/music/*.mp3", "Michael Kievernagel", "GPL-2+"),
)


def tracks() -> tuple[dict[str, Floats], list[Package]]:
    """Every track that can be had, float32 mono at ``bench.noise.RATE``, and the packages they come from."""
    found, used = dict[str, Floats](), list[Package]()
    for package in PACKAGES:
        paths = _paths(package)
        if paths:
            used.append(package)
        for path in paths:
            found[f"{path.name} ({package.name})"] = _read(path)
    return found, used


def excerpt(found: dict[str, Floats], seconds: float) -> dict[str, Floats]:
    """The same share of every track, from its middle, so that all together last ``seconds`` (or everything)."""
    share = min(1.0, seconds * RATE / max(sum(len(wave) for wave in found.values()), 1))
    cut = dict[str, Floats]()
    for name, wave in found.items():
        length = round(len(wave) * share)
        start = (len(wave) - length) // 2
        cut[name] = wave[start : start + length]
    return cut


def _read(path: Path) -> Floats:
    import soundfile

    with soundfile.SoundFile(str(path)) as file:
        wave: Floats = file.read(dtype="float32", always_2d=True).mean(axis=1)
        return np.asarray(_soxr.resample(wave, file.samplerate, RATE), dtype=np.float32)


def _paths(package: Package) -> list[Path]:
    cached = _cache() / package.name
    for root in (Path("/"), cached):
        if paths := sorted(root.glob(package.files)):
            return paths
    _fetch(package.name, cached)
    return sorted(cached.glob(package.files))


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hearsay" / "music"


def _fetch(name: str, target: Path) -> None:
    """Download and unpack a package beside ``target``, then give it its name; nothing where that is not possible."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        try:
            subprocess.run(
                ["apt-get", "-qq", "download", name], cwd=folder, check=True, capture_output=True, timeout=120
            )
            archive = next(Path(folder).glob("*.deb"))
            unpacked = Path(folder) / "root"
            subprocess.run(["dpkg-deb", "-x", str(archive), str(unpacked)], check=True, capture_output=True, timeout=60)
            unpacked.rename(target)
        except (OSError, subprocess.SubprocessError, StopIteration):
            return
