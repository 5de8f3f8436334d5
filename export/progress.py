"""How far a conversion is, told after every tensor."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a conversion is: ``done`` of ``total`` bytes of the new model directory are written, and ``part`` names
    what is being written."""

    part: str
    done: int
    total: int


Report = Callable[[Progress], None]
"""A function that is called after every tensor, or block of one. Whatever it raises ends the conversion, of which
nothing is left then."""


class Meter:
    """Adds up the bytes that are written and calls ``report``."""

    def __init__(self, total: int = 0, report: Report | None = None) -> None:
        self.total, self.done, self.part = total, 0, ""
        self._report = report

    def begin(self, part: str) -> None:
        """Name what is written from now on."""
        self.part = part
        self.wrote(0)

    def wrote(self, count: int) -> None:
        """Add ``count`` bytes. The sum never goes beyond the total, which is an estimate."""
        self.done = min(self.done + count, self.total)
        if self._report is not None:
            self._report(Progress(self.part, self.done, self.total))

    def finish(self) -> None:
        """Tell that all is written."""
        self.wrote(self.total)


SILENT = Meter()
"""A meter that tells nobody."""
