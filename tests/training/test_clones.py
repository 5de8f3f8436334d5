"""Files come out of a git directory that has no work tree and lacks some of its blobs."""

import subprocess
from pathlib import Path

from training.clones import files


def test_what_is_there_is_written_and_what_is_not_is_left_out(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "data" / "deep").mkdir(parents=True)
    contents = {"data/a.txt": b"one\ntwo 7\n", "data/deep/\u00e9 b.bin": bytes(range(256)), "data/empty": b""}
    for name, data in (contents | {"data/lost": b"lost", "other": b"other"}).items():
        (work / name).write_bytes(data)

    def git(*arguments: str) -> str:
        about = ("-c", "user.name=n", "-c", "user.email=e", "-c", "core.autocrlf=false")
        return subprocess.run(["git", *about, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "x")
    lost = git("rev-parse", "HEAD:data/lost").strip()
    (work / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    assert files(work / ".git", "data", tmp_path / "out") == 3
    found = {str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert found == contents
