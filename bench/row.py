"""Rows of the evaluation's table: what was measured, what was reached, what was promised."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


class NotMeasured(Exception):
    """A row cannot be measured here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        name: what was measured.
        reached: the figure, in words.
        goal: what it should be; empty where nothing was promised.
        met: whether it is (not, if it could not be measured); None where nothing was promised.
        notes: lines that belong below the table.
        details: figures and texts behind it, for ``--json``.
        others: the same figure of recognisers that are not ours, by their names.
    """

    name: str
    reached: str
    goal: str = ""
    met: bool | None = None
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    others: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def status(self) -> str:
        """met, open, or – where there is no goal."""
        return "–" if self.met is None else "met" if self.met else "open"


def at_most(name: str, value: float, limit: float, **more: Any) -> Row:
    """A row of a share that should not pass ``limit``; both are fractions and are shown in percent."""
    return Row(name, percent(value), f"≤ {100 * limit:.3g} %", value <= limit, **more)


def percent(value: float) -> str:
    """0.2784 → "27.8 %"; shares below a percent with two places."""
    return f"{100 * value:.2f} %" if 0 < abs(value) < 0.01 else f"{100 * value:.1f} %"


def table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table with columns of one width, one for each of the others; the notes below it."""
    rows = list(rows)
    others = list(dict.fromkeys(name for row in rows for name in row.others))
    cells = [("row", "reached", *others, "goal", "")]
    cells += [(r.name, r.reached, *(r.others.get(name, "") for name in others), r.goal, r.status) for r in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    notes = [f"{row.name}: {note}" for row in rows for note in row.notes]
    return "\n".join([*lines, *([""] if notes else []), *notes])
