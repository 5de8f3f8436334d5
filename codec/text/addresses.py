"""Addresses of the web, of mail, of networks and of files, read by their parts: names, signs and every digit."""

import re
from typing import Final

from codec.text import numbers

_SIGNS: Final = str.maketrans({
    "@": " at ", ".": " dot ", "/": " slash ", "-": " dash ", "_": " underscore ", ":": " colon ",
    "?": " question mark ", "=": " equals ", "&": " and ", "%": " percent ", "+": " plus ",
    "~": " tilde ", "#": " hash ", "{": " ", "}": " ",
})  # fmt: skip
_PATH: Final = re.compile(r"(?:~|\.{1,2}|\.[\w-]+)?(?:/:?[\w.@+{}-]+)+/?")
_DOT_NAME: Final = re.compile(r"\.([a-z]+(?:-[a-z]+)*|[A-Z]{2,})")
_NETWORK: Final = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})(:\d+|/\d+)?")
_ADDRESSES: Final = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"(?:[a-z]+://|www\.)\S+",
        r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
        r"[\w.-]*[a-z][\d_]*\.[a-z]{2,}(?::\d+)?(?:[/?#]\S*)?",
        r"localhost(?::\d+)?(?:/\S*)?|[a-z][\w-]*:\d{4,5}",
    )
)


def say_address(core: str) -> str | None:
    """A word without the marks around it as an address; None where it is none."""
    if not any(pattern.fullmatch(core) for pattern in _ADDRESSES):
        return None
    return say_parts(core.split("://", 1)[-1].removeprefix("www.").rstrip("/"))


def say_network(core: str) -> str | None:
    """An IPv4 address, with the length of its network's prefix or with a port; None where it is none."""
    m = _NETWORK.fullmatch(core)
    if m is None or not m[2]:
        return say_parts(core) if m else None
    return f"{say_parts(m[1])} {_port(m[2][1:]) if m[2][0] == ':' else f'slash {numbers.cardinal(m[2][1:])}'}"


def _port(digits: str) -> str:
    return f"colon {numbers.cardinal(digits) if len(digits) == 2 else numbers.digits(digits)}"


def say_path(text: str) -> str | None:
    """A path of files; None where ``text`` is none."""
    return say_parts(text.rstrip("/")) if _PATH.fullmatch(text) else None


def say_dot_name(core: str) -> str | None:
    """A name that begins with a dot, ".env" and ".NET"; None where it is none."""
    name = _DOT_NAME.fullmatch(core)
    return f"dot {name[1]}" if name else None


def say_parts(text: str) -> str:
    """Names, signs and every digit of an address."""
    runs = re.findall(r"\d+|[^\d\s]+", text.translate(_SIGNS))
    return " ".join(numbers.digits(run) if run[0].isdecimal() else run for run in runs)
