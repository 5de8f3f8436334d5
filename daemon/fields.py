"""What becomes of each field that a request brings: in a query, a form or a JSON object alike.

A client that was made for another server says more than is understood here. Each of its fields is one of four:

- what has a meaning here under another name is taken under ours (``hotwords`` are keyterms);
- what changes nothing here, as it should, is passed over in silence (``user``);
- what must not be ignored is refused, because the answer would look like what was asked for and would not be
  (``redact``: the numbers are still there);
- everything else is ignored, and the answer names it. A strict daemon refuses it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Generic, TypeVar

from daemon.refusal import Refused

V = TypeVar("V")

_UNSAFE: Final = (
    (("*redact*", "pii*", "*_pii", "*mask_pii*"), "nothing is redacted here, so what was said would stand in the text"),
    (("*profan*", "*censor*"), "no words are filtered here, so what was said would stand in the text"),
    (("replace", "*find_and_replace*", "*custom_spelling*"), "no words are replaced here"),
    (("translate", "translate_to", "*translation*", "target_lang*"), "speech is written down in its own language here"),
)
"""Patterns of names that are refused where they ask for something, each with the reason."""

_OFF: Final = frozenset({"", "false", "0", "0.0", "none", "null", "off", "no", "disabled"})
_MOST_NAMED: Final = 16
"""Ignored fields that one answer names: enough to find the mistake, few enough for a header."""
_LONGEST_NAME: Final = 64
"""Characters of a field's name that an answer repeats."""


@dataclass(frozen=True, slots=True)
class Understood(Generic[V]):
    """A request's fields under the names of the door.

    Attributes:
        values: every value of each field, in their order.
        given_as: the name that a field came under, where that is not its own.
        warnings: what was ignored, for the caller.
    """

    values: dict[str, list[V]]
    given_as: dict[str, str]
    warnings: list[str]

    def name(self, ours: str) -> str:
        """The name under which the caller gave ``ours``."""
        return self.given_as.get(ours, ours)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields that a door understands.

    Attributes:
        honoured: names of its own.
        others: what other servers call them → ours.
        idle: what changes nothing here, as it should be.
        code: of a refusal, short and for machines.
    """

    honoured: frozenset[str]
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    idle: frozenset[str] = frozenset()
    code: str = "invalid_field"

    def understood(self, given: Iterable[tuple[str, V]], *, strict: bool) -> Understood[V]:
        """Sort the fields that came. Brackets behind a name (``keywords[]``, ``file[0]``) only say that there may be
        several.

        Raises:
            Refused: 400 for what must not be ignored, and where the daemon is strict for what would be.
        """
        own: dict[str, list[V]] = {}
        foreign: dict[str, tuple[str, list[V]]] = {}
        ignored: dict[str, None] = {}
        given_as: dict[str, str] = {}
        for name, value in given:
            plain = name.partition("[")[0] or name
            if plain in self.honoured:
                own.setdefault(plain, []).append(value)
                if name != plain:
                    given_as[plain] = name
            elif plain.lower() in self.others:
                foreign.setdefault(self.others[plain.lower()], (name, []))[1].append(value)
            elif plain.lower() not in self.idle and asks(value):
                self._check(plain)
                ignored[name[:_LONGEST_NAME]] = None
        for ours, (name, values) in foreign.items():
            if ours in own:
                ignored[name[:_LONGEST_NAME]] = None
            else:
                own[ours], given_as[ours] = values, name
        if ignored and strict:
            first = next(iter(ignored))
            raise Refused(400, self.code, f"{', '.join(ignored)}: no such field here (strict)", param=first)
        warnings = [f"{name}: not honoured" for name in list(ignored)[:_MOST_NAMED]]
        if len(ignored) > _MOST_NAMED:
            warnings.append(f"{len(ignored) - _MOST_NAMED} more fields: not honoured")
        return Understood(own, given_as, warnings)

    def _check(self, name: str) -> None:
        why = unsafe(name)
        if why is not None:
            raise Refused(400, self.code, f"{name[:_LONGEST_NAME]}: {why}; leave it out", param=name[:_LONGEST_NAME])


def asks(value: object) -> bool:
    """Whether a field's value asks for something, rather than switching it off."""
    if isinstance(value, str):
        return value.strip().lower() not in _OFF
    return value is not None and value is not False and value != 0 and value not in ([], {})


def unsafe(name: str) -> str | None:
    """The reason why a field of this name must not be ignored; None where it may be."""
    plain = name.lower()
    return next((why for patterns, why in _UNSAFE if any(fnmatchcase(plain, one) for one in patterns)), None)
