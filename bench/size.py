"""What a run-time install weighs: the packages that hearsay needs, unpacked and downloaded, and the bundled models."""

import argparse
import re
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from bench.figures import lines
from engines.store import BUNDLED

GRAPHS = BUNDLED.parent / "export" / "graphs"
"""The released models' graphs without their weights (export/known.py)."""

ENGINE = "llama-cpp-python"
"""The package that is compiled where it is installed. Its source is downloaded, so only its unpacked size counts."""


class DownloadError(RuntimeError):
    """A package could not be fetched; the message is pip's last word."""


def measure(*, download: bool = False) -> dict[str, object]:
    """Add up the run-time dependencies of this environment, extras left out.

    Args:
        download: also fetch each package's file for this platform, as pip would, and weigh it.

    Raises:
        RuntimeError: hearsay is not installed here.
        DownloadError: a download failed.
    """
    packages = dependencies("hearsay")
    unpacked = {name: _unpacked(found) for name, found in sorted(packages.items())}
    bundled, graphs = (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) for folder in (BUNDLED, GRAPHS)
    )
    result: dict[str, object] = {
        "unpacked_mb": {
            name: round(size / 1e6, 2) for name, size in sorted(unpacked.items(), key=lambda item: -item[1])
        },
        "unpacked_total_mb": round(sum(unpacked.values()) / 1e6, 1),
        "bundled_models_mb": round(bundled / 1e6, 1),
        "graphs_without_weights_mb": round(graphs / 1e6, 2),
    }
    if download:
        sizes = _downloads({name: found.version for name, found in packages.items()})
        result["downloads_mb"] = {
            name: round(size / 1e6, 2) for name, size in sorted(sizes.items(), key=lambda i: -i[1])
        }
        result["downloads_total_mb"] = round(sum(sizes.values()) / 1e6, 1)
        result["downloads_without"] = ENGINE
    return result


def dependencies(root: str) -> dict[str, Distribution]:
    """Every installed distribution that ``root`` needs at run time, by normalised name, itself left out."""
    found: dict[str, Distribution] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(root, frozenset())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        key = (_normal(name), extras)
        if key in seen:
            continue
        seen.add(key)
        try:
            here = distribution(name)
        except PackageNotFoundError:
            raise RuntimeError(f"{name} is not installed here") from None
        found[_normal(name)] = here
        for line in here.requires or []:
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    found.pop(_normal(root), None)
    return found


def _unpacked(found: Distribution) -> int:
    """How many bytes the installed files have, without compiled Python."""
    total = 0
    for file in found.files or []:
        path = Path(str(found.locate_file(file)))
        if path.suffix != ".pyc" and path.is_file():
            total += path.stat().st_size
    return total


def _downloads(versions: dict[str, str]) -> dict[str, int]:
    """How many bytes the download of each package has, without that of the engine."""
    wanted = [f"{name}=={version}" for name, version in versions.items() if name != ENGINE]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "-q", "-d", folder, *wanted]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise DownloadError(f"pip download failed: {done.stderr.strip().splitlines()[-1]}")
        sizes: dict[str, int] = {}
        for path in Path(folder).iterdir():
            sizes[_normal(path.name.split("-")[0])] = path.stat().st_size
        return sizes


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(arguments: list[str] | None = None) -> int:
    """``python -m bench.size [--download]``: what ``hearsay bench size`` prints. Without a network, what is here."""
    parser = argparse.ArgumentParser(prog="bench.size", description="What a run-time install weighs.")
    parser.add_argument("--download", action="store_true", help="also fetch the packages anew and weigh the downloads")
    try:
        lines(measure(download=parser.parse_args(arguments).download))
    except DownloadError as error:
        lines(measure())
        print(f"bench.size: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
