"""A recipe's settings: one TOML file into nested frozen dataclasses; and what stages take on the command line."""

import argparse
import lzma
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

Settings = TypeVar("Settings")


def read_settings(kind: type[Settings], path: Path) -> Settings:
    """``path`` as a ``kind``; fields that are dataclasses are the file's tables, what is not named keeps its default.

    Raises:
        ValueError: an unknown setting; the message names it and those that are known.
    """
    return made(kind, tomllib.loads(path.read_text(encoding="utf-8")), path.name)


def made(kind: type[Settings], values: dict[str, Any], where: str) -> Settings:
    """A ``kind`` of ``values``; lists become tuples."""
    hints = get_type_hints(kind)
    known = sorted(each.name for each in fields(kind))  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"{where}.{name}: unknown setting; known are {', '.join(known)}")
        if is_dataclass(hints[name]):
            value = made(hints[name], value, name)
        found[name] = tuple(value) if isinstance(value, list) else value
    return kind(**found)


def share(text: str) -> tuple[int, int]:
    """ "K/N" as (K, N), for argparse: this process is the Kth of N."""
    number, _, count = text.partition("/")
    if not number.isdecimal() or not count.isdecimal() or not int(number) < int(count) <= 100:
        raise argparse.ArgumentTypeError(f"{text}, must be K/N with 0 <= K < N <= 100")
    return int(number), int(count)


def lines_of(path: Path) -> list[str]:
    """The lines of a text, plain or .xz."""
    return (lzma.open(path, "rt").read() if path.suffix == ".xz" else path.read_text()).splitlines()
