"""Counters of a session's work that can be summed over sessions."""

from dataclasses import dataclass, fields
from typing import Self


@dataclass(slots=True)
class Counts:
    """Base of dataclasses whose fields are all numbers."""

    def add(self, other: Self) -> None:
        """Sum ``other`` into this one."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
