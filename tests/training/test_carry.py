"""A checkout is made small enough to be carried beside a bundle, and whole again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the script is for machines with bash")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with what the script asks of one, a model of 8 MB and a test."""
    folder = tmp_path / "repository"
    for name in ("training/__init__.py", "training/bundles.py", "training/clones.py", "training/card"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, folder / name)
    for name, size in (("models/__init__.py", 1), ("models/pocket/weights", 8 << 20), ("tests/test_x.py", 9)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"#" * size)
    about = ("-c", "user.name=n", "-c", "user.email=e")
    for command in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x")):
        subprocess.run(["git", *about, *command], cwd=folder, check=True)
    return folder


def carry(repository: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the script. Python writes nothing beside the modules that it imports."""
    command = ["bash", str(repository / "training/card/carry.sh"), *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    )


def test_what_a_machine_does_not_need_leaves_and_comes_back(repository: Path, tmp_path: Path) -> None:
    """In a worktree of its own and in the checkout itself; Git sees no change."""
    for place in (tmp_path / "worktree", repository):
        made = carry(repository, "small", place)
        assert made.returncode == 0, made.stderr
        assert not (place / "models/pocket").exists() and not (place / "tests").exists()
        assert (place / "models/__init__.py").exists() and (place / "training/card/hearing.sh").exists()
        assert not subprocess.run(["git", "status", "--short"], cwd=place, capture_output=True, check=True).stdout
        assert carry(repository, "whole", place).returncode == 0
        assert (place / "models/pocket/weights").stat().st_size == 8 << 20 and (place / "tests/test_x.py").exists()


def test_a_checkout_that_leaves_no_room_for_a_bundle_is_refused(repository: Path) -> None:
    """A file that Git does not know travels too."""
    (repository / "notes.bin").write_bytes(bytes(7 << 20))
    made = carry(repository, "small")
    assert made.returncode == 1 and "more than 6291 kB" in made.stderr
