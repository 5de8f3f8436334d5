"""The real command, as a person runs it: a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.conftest import (  # noqa: F401  (fixtures)
    daemon,
    offline,
    sound,
    speech,
    talking,
    talking_url,
    unhurried,
    url,
)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment whose user's data directory is empty and which is no terminal of any size."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEARSAY_", "COLUMNS"))}
    found = {**kept, "XDG_DATA_HOME": str(tmp_path / "share"), "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    if "HEARSAY_MODELS" in os.environ:
        found["HEARSAY_MODELS"] = os.environ["HEARSAY_MODELS"]
    return found


@pytest.fixture
def hearsay(environment: dict[str, str]) -> Run:
    """``hearsay("verb", …)`` runs the command to its end; ``cwd`` and further variables as keywords."""

    def run(*arguments: object, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "commands.main", *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=600, cwd=cwd, env={**environment, **variables}
        )

    return run


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``start("verb", …)`` starts the command, ``stdin=True`` with a pipe to it; what runs at the end is killed."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: object, stdin: bool = False, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "commands.main", *map(str, arguments)]
        pipe = subprocess.PIPE
        given = pipe if stdin else None
        running.append(
            subprocess.Popen(
                command, stdin=given, stdout=pipe, stderr=pipe, text=True, env={**environment, **variables}
            )
        )
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()
