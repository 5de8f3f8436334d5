"""The parity table, which has a row for each measurement and its limit; and the blocks that reports are made of."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. A row whose ``limit`` is None is only shown."""

    stage: str
    measure: str
    value: float
    limit: float | None
    at_least: bool = False
    """Whether the limit is a least value instead of a greatest."""

    @property
    def passed(self) -> bool:
        """Whether the value keeps the limit. NaN never does."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"{'≥' if self.at_least else '≤'} {self.limit:.7g}"
        verdict = "" if self.limit is None else "ok" if self.passed else "FAILED"
        return f"{self.stage:<38}{self.measure:<44}{self.value:>12.7g}  {limit:<14}{verdict}"


@dataclass(frozen=True, slots=True)
class Table:
    """All measurements of one model."""

    title: str
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether every limit is kept."""
        return all(row.passed for row in self.rows)

    def __str__(self) -> str:
        failed = sum(not row.passed for row in self.rows)
        return "\n".join([self.title, *map(str, self.rows), "parity holds" if not failed else f"{failed} rows FAILED"])


def titled(title: str, values: Mapping[str, object]) -> list[str]:
    """A titled block of ``name value`` lines."""
    return [
        title,
        *(f"  {name.replace('_', ' '):<16}{'–' if value is None else value}" for name, value in values.items()),
    ]
