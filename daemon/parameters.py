"""The query parameters of a WebSocket: read strictly, unknown names refused."""

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qsl

from daemon.refusal import Refused

Given = Mapping[str, list[str]]

_OFF: Final = frozenset({"", "false", "0", "none"})


def read(
    query_string: bytes, honoured: Collection[str], not_honoured: Collection[str], many: Collection[str] = ()
) -> Given:
    """Every name and its values; of those in ``many`` there may be several.

    Raises:
        Refused: 400 naming a parameter that nobody knows or that was given twice.
    """
    given: dict[str, list[str]] = {}
    for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
        given.setdefault(name, []).append(value)
    unknown = sorted(name for name in given if name not in honoured and name not in not_honoured)
    if unknown:
        raise wrong(unknown[0], f"{', '.join(unknown)}: no such parameter")
    for name, values in given.items():
        if len(values) > 1 and name in honoured and name not in many:
            raise wrong(name, f"{name}: given {len(values)} times")
    return given


def last(given: Given) -> dict[str, str]:
    """One value of each."""
    return {name: values[-1] for name, values in given.items()}


def not_honoured(given: Given, names: Collection[str]) -> list[str]:
    """A warning for each of ``names`` that asks for something."""
    return [f"{name}: not honoured" for name in sorted(given) if name in names and given[name][-1].lower() not in _OFF]


def wrong(name: str, message: str) -> Refused:
    """400 for the parameter ``name``."""
    return Refused(400, "invalid_query", message, param=name)


def flag(one: Mapping[str, str], name: str, default: bool) -> bool:
    """``true`` or ``false``."""
    text = one.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise wrong(name, f"{name}: {one[name]!r} is not true or false")
    return text == "true"


def whole(one: Mapping[str, str], name: str, default: int, digits: int = 9) -> int:
    """A whole number, not negative."""
    text = one.get(name, str(default))
    # int() would also take "1_6", " 16" and other scripts' digits.
    if not (text.isascii() and text.isdigit()):
        raise wrong(name, f"{name}: {text[:80]!r} is not a whole number")
    if len(text) > digits:
        raise wrong(name, f"{name}: a number of {len(text)} digits, the limit is {digits}")
    return int(text)


def number(one: Mapping[str, str], name: str, default: float) -> float:
    """A decimal number, not negative."""
    text = one.get(name, str(default))
    before, _, after = text.partition(".")
    if not ((before + after).isascii() and (before + after).isdigit() and len(text) < 20):
        raise wrong(name, f"{name}: {text!r} is not a number")
    return float(text)
