"""`python3 collect.py OUT TO SECONDS` copies what a run left in portions that can be carried. It needs only Python.

It waits for SECONDS at most, until a state or weights are new or the run is done. TO gets the end of the log and a few
parts: those of one state or of one set of weights, the newest first, over as many calls as it takes, weights before
states.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

FILES, COPIES, BYTES = (
    4,
    2,
    58 << 20,
)  # A call gets so many parts, of so many states or sets of weights, in so many bytes.
_LOG = 60_000  # So many bytes of the log's end come along.
_TOLD = "parts.json"


def held(out: Path) -> list[Path]:
    """Give the copies that are not wholly sent, weights first. New copies are made while none waits. When the run is
    done they are made at once, and what is older is given up.
    """
    store = out / "held"
    store.mkdir(exist_ok=True)
    waiting = sorted((path.parent for path in store.glob("*/left")), key=lambda copy: "weights" not in copy.name)
    if waiting and (not (out / "done").exists() or (store / "last").exists()):
        return waiting
    if (out / "done").exists():
        (store / "last").touch()
        for copy in waiting:
            (copy / "left").unlink()
            copy.rename(store / f"{copy.name}.given-up")
        waiting = []
    found = {path.parent for path in out.rglob(_TOLD) if store not in path.parents and not path.parent.suffix}
    for folder in sorted(found, key=lambda one: (one.name != "weights", str(one))):
        before = (folder / _TOLD).read_bytes()
        steps = json.loads(before)["told"].get("steps", 0)
        copy = store / f"{'-'.join(folder.relative_to(out).parts)}-{steps}"
        if copy.exists():
            continue
        new = store / "new"
        shutil.rmtree(new, ignore_errors=True)
        try:
            shutil.copytree(folder, new, copy_function=os.link)
        except (OSError, shutil.Error):  # Another one takes its place just now.
            continue
        if (new / _TOLD).read_bytes() != before:
            continue
        (new / "left").write_text("\n".join(json.loads(before)["files"]))
        new.rename(copy)
        waiting.append(copy)
    return waiting


def collect(out: Path, to: Path) -> int:
    """Copy one portion, and give the number of its parts."""
    to.mkdir(parents=True, exist_ok=True)
    sent = size = 0
    for copy in held(out)[:COPIES]:
        left = (copy / "left").read_text().split()
        while left and sent < FILES and size + (copy / left[0]).stat().st_size <= BYTES:
            place = to / copy.name
            place.mkdir(exist_ok=True)
            shutil.copy(copy / _TOLD, place)
            size += (copy / left[0]).stat().st_size
            shutil.copy(copy / left.pop(0), place)
            sent += 1
        (copy / "left").write_text("\n".join(left))
        if not left:
            (copy / "left").unlink()
    if (out / "log").exists():
        with (out / "log").open("rb") as log:
            log.seek(max((out / "log").stat().st_size - _LOG, 0))
            (to / "log").write_bytes(log.read())
    return sent


def main() -> None:
    """Run from the command line."""
    out, to, until = Path(sys.argv[1]), Path(sys.argv[2]), time.time() + float(sys.argv[3])
    while not (sent := collect(out, to)) and time.time() < until and not (out / "done").exists():
        time.sleep(2)
    print(f"{sent} parts; {'done' if (out / 'done').exists() else 'goes on'}; waiting: {[p.name for p in held(out)]}")
    print((to / "log").read_text(errors="replace")[-4000:] if (to / "log").exists() else "no log yet")


if __name__ == "__main__":
    main()
