"""The real command: in this process, and as a person runs it, in a process of its own."""

import io
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from commands.main import main
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
    """``hearsay("verb", …)`` runs the command to its end in this process, which has its libraries already; further
    variables as keywords."""

    def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        command, chosen = ["hearsay", *map(str, arguments)], {**environment, **variables}
        out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
            patch.setattr(sys, "argv", command)
            for name in os.environ.keys() - chosen.keys():
                patch.delenv(name)
            for name, value in chosen.items():
                patch.setenv(name, value)
            code = ended(main)
        printed, complained = (stream.buffer.getvalue().decode() for stream in (out, errors))
        return subprocess.CompletedProcess(command, code, printed, complained)

    return run


def ended(command: Callable[[], None]) -> int:
    """The exit code that Python gives ``command``; what it did not catch is printed as Python prints it."""
    try:
        command()
    except SystemExit as asked:
        return asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


@pytest.fixture
def process(environment: dict[str, str]) -> Run:
    """The same in a process of its own, for what changes a process or reads its variables when it is imported."""

    def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "commands.main", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, env={**environment, **variables})

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
