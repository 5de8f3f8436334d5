"""How far something is that takes more than two seconds: bars on a terminal, a line for each part elsewhere."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Timer
from types import TracebackType
from typing import Any, Self

from commands.console import complain

LATE_SECONDS = 2.0
"""Seconds after which whoever sees nothing else is told what goes on."""


@contextmanager
def late(line: str) -> Generator[None]:
    """Write ``line`` to stderr if what is done meanwhile lasts longer than two seconds."""
    timer = Timer(LATE_SECONDS, complain, [line])
    timer.daemon = True  # The process does not wait for it where it ends at once.
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Bars:
    """A bar on stderr for each part of a job: bytes, and the time left. Where stderr is no terminal, a line tells that
    a part begins."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._parts: dict[str, Any] = {}
        self._done: dict[str, int] = {}

    def add(self, part: str, total: int) -> None:
        """``part`` begins, of ``total`` bytes."""
        self._done[part] = 0
        if self._shown is None:
            complain(f"{part}, {_bytes(total)}")
        else:
            self._parts[part] = self._shown.add_task(part, total=total)

    def advance(self, part: str, more: int) -> None:
        """So many more bytes of it are done."""
        self.reach(part, self._done[part] + more)

    def reach(self, part: str, done: int, of: int | None = None) -> None:
        """So many bytes of it are done; ``of``: how many there are after all."""
        self._done[part] = done
        if self._shown is not None:
            self._shown.update(self._parts[part], completed=done, **({} if of is None else {"total": of}))

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )

            self._shown = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown.stop()


class Seconds:
    """How many seconds of sound are done by now, on stderr and only where that is a terminal; the line goes in the
    end."""

    def __init__(self, what: str, total: float | None = None, *, shown: bool = True) -> None:
        """``total``: how many seconds there are, where that is known; then a bar tells how much is left."""
        self._what, self._total, self._shown = what, total, shown and sys.stderr.isatty()
        self._progress: Any = None
        self._task: Any = None

    def reach(self, seconds: float) -> None:
        """So many seconds are done."""
        if self._progress is not None:
            self._progress.update(self._task, completed=seconds)

    def __enter__(self) -> Self:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f} s")
            left = [] if self._total is None else [TimeRemainingColumn()]
            self._progress = Progress(*columns, *left, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self._what, total=self._total)
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
