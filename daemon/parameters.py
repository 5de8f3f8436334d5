"""What callers ask for in a query, read strictly, and how they are told what is not quite as they asked."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from daemon.fields import Fields
from daemon.names import Does, check_model, means_model
from daemon.refusal import Refused

SEED_BITS: Final = 53
"""Bits of the seeds that are drawn here: a whole number of so many bits is kept exactly by every reader of JSON."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query's parameters, checked.

    Attributes:
        given: every parameter with all its values.
        one: every parameter with its only value.
        warnings: what was ignored, for the caller.
    """

    given: Mapping[str, list[str]]
    one: Mapping[str, str]
    warnings: list[str]


def asked(
    query_string: bytes, fields: Fields, model: str, does: Does, *, strict: bool, many: Collection[str] = ()
) -> Query:
    """Read and check a query.

    Args:
        fields: the parameters that the endpoint understands.
        model: the name of the loaded model, of which messages say what it ``does``.
        strict: whether to refuse what would be ignored.
        many: the parameters that may be given several times.

    Raises:
        Refused: 400 naming a parameter that was given twice or must not be ignored, or for another model.
    """
    pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)
    found = fields.understood(pairs, strict=strict)
    for name, values in found.values.items():
        if len(values) > 1 and name not in many:
            raise wrong(name, f"{found.name(name)}: given {len(values)} times")
    one = {name: values[-1] for name, values in found.values.items()}
    wanted = one.get("model", "")
    told = check_model(wanted, model, does, strict=strict, status=400)
    # A client of the protocol's own cloud always names a model of that cloud, so that deserves no warning.
    return Query(found.values, one, found.warnings + ([] if means_model(wanted, does, strict=True) else told))


def wrong(name: str, message: str) -> Refused:
    """The refusal of the parameter ``name``."""
    return Refused(400, "invalid_query", message, param=name)


def flag(one: Mapping[str, str], name: str, default: bool) -> bool:
    """The value of a parameter that is ``true`` or ``false``."""
    text = one.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise wrong(name, f"{name}: {one[name]!r} is not true or false")
    return text == "true"


def whole(one: Mapping[str, str], name: str, default: int, digits: int = 9) -> int:
    """The value of a parameter that is a whole number, not negative."""
    text = one.get(name, str(default))
    # int() also takes "1_6", " 16" and the digits of other scripts.
    if not (text.isascii() and text.isdigit()):
        raise wrong(name, f"{name}: {text[:80]!r} is not a whole number of 0 or more")
    if len(text) > digits:
        raise wrong(name, f"{name}: a number of {len(text)} digits, the limit is {digits}")
    return int(text)


def number(one: Mapping[str, str], name: str, default: float) -> float:
    """The value of a parameter that is a decimal number, not negative."""
    text = one.get(name, str(default))
    before, _, after = text.partition(".")
    if not ((before + after).isascii() and (before + after).isdigit() and len(text) < 20):
        raise wrong(name, f"{name}: {text!r} is not a number of 0 or more")
    return float(text)


def warning_header(warnings: Collection[str]) -> list[tuple[bytes, bytes]]:
    """The header that tells the warnings of an answer; none where there are none."""
    text = "; ".join(warnings).encode("ascii", "backslashreplace")
    return [(b"hearsay-warning", text[:1000])] if warnings else []
