"""Bundles hold what a run needs, in tars that are small enough to be carried one by one to a machine without a network.

Contract: bundles can be unpacked in any order (`python3 bundles.py FOLDER BUNDLE`). A file that does not fit into one
lies in several as slices (`NAME.START-of-SIZE`), which become the file when the last of them comes, so a file that is
there is whole. This module imports nothing but the standard library, because it is what unpacks the others.
"""

import re
import sys
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

# A bundle has at most so many bytes, the tar's own included. A call to a machine carries 64 MiB, and the code travels
# beside the bundle (training/card/carry.sh).
MOST = 58 << 20
# A tar's block in bytes, and the least bytes of a slice, so that no bundle ends in crumbs; a file's last slice may be
# smaller.
_BLOCK, _LEAST = 512, 1 << 20
# Bytes that are set aside for what a tar adds at its end: two empty blocks, rounded up to a record of 10 KiB.
_FRAME = 20 << 10
_SLICE = re.compile(r"(.+)\.(\d+)-of-(\d+)")


def pack(files: Mapping[str, Path], out: Path, name: str, most: int = MOST) -> list[Path]:
    """Pack files into `out/NAME-0.tar` and so on, and give the tars' paths. files: each file by its name in the tars.
    Their order is kept, so that what is needed first comes first."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(f"{name}-*.tar"):
        old.unlink()
    made: list[Path] = []
    tar: tarfile.TarFile | None = None
    room = 0
    for inside, path in files.items():
        size, at = path.stat().st_size, 0
        with path.open("rb") as file:
            while at < size or not at:
                if tar is None or room < min(size - at, _LEAST):
                    if tar is not None:
                        tar.close()
                    made.append(out / f"{name}-{len(made)}.tar")
                    tar, room = tarfile.open(made[-1], "w"), most - _FRAME
                data = file.read(min(size - at, room))
                entry = tarfile.TarInfo(inside if len(data) == size else f"{inside}.{at}-of-{size}")
                entry.size, entry.mode = len(data), 0o644
                tar.addfile(entry, BytesIO(data))
                at += len(data) or 1
                room = max(room - len(data) - 4 * _BLOCK, 0)
    if tar is not None:
        tar.close()
    return made


def unpack(bundle: Path, folder: Path) -> None:
    """Write what a bundle holds below `folder`."""
    with tarfile.open(bundle) as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f"{path.name}.unpacked")
            new.write_bytes(content.read())
            new.rename(path)
    joined(folder)


def joined(folder: Path) -> None:
    """Put those files together whose slices all lie below `folder`."""
    found: dict[tuple[Path, int], dict[int, Path]] = {}
    for path in folder.rglob("*-of-*"):
        if parsed := _SLICE.fullmatch(path.name):
            found.setdefault((path.with_name(parsed[1]), int(parsed[3])), {})[int(parsed[2])] = path
    for (whole, size), slices in found.items():
        if sum(path.stat().st_size for path in slices.values()) < size:
            continue
        first, *rest = (slices[start] for start in sorted(slices))
        with first.open("ab") as file:
            for path in rest:
                file.write(path.read_bytes())
                path.unlink()
        first.rename(whole)


if __name__ == "__main__":
    for given in sys.argv[2:]:
        unpack(Path(given), Path(sys.argv[1]))
