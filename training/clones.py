"""Files are read out of clones of public repositories that have no work tree and may lack their largest files."""

import subprocess
from pathlib import Path


def files(repository: Path, under: str, out: Path) -> int:
    """Write the newest files that a git directory has in a folder below `out`, and give their number. Files that the
    clone lacks are left out."""
    git = ["git", f"--git-dir={repository}"]
    listed = subprocess.run([*git, "ls-tree", "-r", "-z", "HEAD", "--", under], check=True, capture_output=True).stdout
    entries = [entry.decode().partition("\t") for entry in listed.split(b"\0") if entry]
    blobs = [(about.split()[2], name) for about, _, name in entries if about.split()[1] == "blob"]
    asked = "".join(f"{blob}\n" for blob, _ in blobs).encode()
    answer = subprocess.run([*git, "cat-file", "--batch"], check=True, capture_output=True, input=asked).stdout
    at = found = 0
    for _, name in blobs:
        end = answer.index(b"\n", at)
        *_, last = answer[at:end].split()
        at = end + 1
        if not last.isdigit():  # Git answers "missing" for a file that the clone lacks.
            continue
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(answer[at : at + int(last)])
        at += int(last) + 1
        found += 1
    return found
