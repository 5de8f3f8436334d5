"""Figures for people: nested measurements, one a line."""

from collections.abc import Mapping
from typing import Any


def lines(figures: Mapping[str, Any], indent: str = "") -> None:
    """Print ``figures`` to stdout, a name and its value a line, groups indented."""
    for name, entry in figures.items():
        if isinstance(entry, dict):
            print(f"{indent}{name}")
            lines(entry, indent + "  ")  # pyright: ignore[reportUnknownArgumentType]
        else:
            shown = f"{entry:.4g}" if isinstance(entry, float) else entry
            print(f"{indent}{name:<{max(36 - len(indent), 1)}} {shown}")
