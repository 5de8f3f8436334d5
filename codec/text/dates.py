"""Days, months and moments, as one word and as several."""

import re
from collections.abc import Sequence
from typing import Final

from codec.text import numbers
from codec.text.vocabulary import DAYS, MONTH, MONTHS

DAY: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?(?:[-–](\d{1,2})(?:st|nd|rd|th)?)?,?", re.I)
YEAR: Final = re.compile(r"\d{4}")
SHORT_YEAR: Final = re.compile(r"['’]\d\d")
_DASHES: Final = frozenset("-–")
_FORMS: Final = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})",
        r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})",
        r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4}|\d{2})",
        r"(?P<year>(?:19|20)\d\d)\.(?P<month>\d\d)\.(?P<day>\d\d)",
        r"(?P<month>\d{1,2})-(?P<day>\d{1,2})-(?P<year>(?:19|20)\d\d)",
    )
)
"""A date of numbers; a month beyond twelve is the day."""
_MOMENT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d):(\d\d)(?::(\d\d))?(?:\.\d+)?(?:(Z)|([-+−])(\d\d)(?::?(\d\d))?)?", re.I
)
"""ISO 8601: a day, a time, and how far the place's clock is from UTC."""
_NAMED: Final = "|".join(sorted({*DAYS, *MONTH}, key=len, reverse=True))
_FROM_TO: Final = re.compile(rf"({_NAMED})\.?([-–/])({_NAMED})", re.I)
_SLASHED: Final = re.compile(r"(0?[1-9]|1[0-2])/(0?[1-9]|[12]\d|3[01])")
_SLASHED_TWO: Final = re.compile(rf"({_SLASHED.pattern})[-–]({_SLASHED.pattern})")
_MID: Final = re.compile(rf"(mid|early|late)-({_NAMED})", re.I)
_DAY_MONTH_YEAR: Final = re.compile(rf"(\d{{1,2}})-({'|'.join(sorted(MONTH, key=len, reverse=True))})-(\d{{4}})", re.I)


def say_date(core: str) -> str | None:
    """One word as a date, a moment, or the days or months from one to another; None where it is none."""
    for form in _FORMS:
        if found := form.fullmatch(core):
            return _numbered(found["year"], found["month"], found["day"])
    if moment := _MOMENT.fullmatch(core):
        return _moment(moment)
    if both := _FROM_TO.fullmatch(core):
        return f"{_full(both[1])} {'' if both[2] == '/' else 'to '}{_full(both[3])}"
    if mid := _MID.fullmatch(core):
        return f"{mid[1]} {_full(mid[2])}"
    if (both := _SLASHED_TWO.fullmatch(core)) and (max(int(both[3]), int(both[6])) > 9 or int(both[2]) >= int(both[3])):
        return say_slashed(core)
    if named := _DAY_MONTH_YEAR.fullmatch(core):
        return f"the {numbers.ordinal(named[1])} of {_full(named[2])} {numbers.year(named[3])}"
    return None


def say_slashed(core: str) -> str | None:
    """``"6/10"`` as a month and its day, June tenth; None where it is none. It is a fraction as often, so only the
    words around it tell; "9/11" is a name."""
    if core == "9/11":
        return None
    if both := _SLASHED_TWO.fullmatch(core):
        return f"{say_slashed(both[1])} to {say_slashed(both[4])}"
    found = _SLASHED.fullmatch(core)
    return f"{MONTHS[int(found[1]) - 1]} {numbers.ordinal(str(int(found[2])))}" if found else None


def month(core: str) -> str | None:
    """The month a word names, whole or shortened; "may" and "march" need a capital: they are verbs too."""
    found = MONTH.get(core.lower())
    return None if found in ("may", "march") and core[:1].islower() else found


def say_dated(first: str, rest: Sequence[str]) -> str | None:
    """Several words as a date: "March 3, 2024", "5 March 2024", "June 3 – 7"; None where they are none."""
    if named := month(first.rstrip(".")):
        if YEAR.fullmatch(rest[0]):
            return f"{named} {numbers.year(rest[0])}"
        if SHORT_YEAR.fullmatch(rest[0]):
            return f"{named} {numbers.pair(rest[0][1:])}"
        day = DAY.fullmatch(rest[0])
        if day and len(rest) == 3 and rest[1] in _DASHES:
            until = DAY.fullmatch(rest[2])
            return f"{named} {_ordinals(day)} to {_ordinals(until) if until else rest[2]}"
        if len(rest) > 1 and not YEAR.fullmatch(rest[1]):
            return None
        year = f", {numbers.year(rest[1])}" if len(rest) > 1 else ""
        return f"{named} {_ordinals(day)}{year}" if day else None
    if (named := month(rest[0].rstrip("."))) and (day := DAY.fullmatch(first)):
        year = f", {numbers.year(rest[1])}" if len(rest) > 1 else ""
        return f"the {_ordinals(day)} of {named}{year}"
    return None


def _ordinals(m: re.Match[str]) -> str:
    """A match of :data:`DAY`: ``"5-7"`` → fifth to seventh."""
    return " to ".join(numbers.ordinal(day) for day in m.groups() if day)


def _numbered(year: str, month: str, day: str) -> str:
    if int(month) > 12:
        month, day = day, month
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return f"{numbers.cardinal(month)} slash {numbers.cardinal(day)} slash {numbers.digits(year)}"
    full = year if len(year) == 4 else ("19" if int(year) > 50 else "20") + year
    return f"{MONTHS[int(month) - 1]} {numbers.ordinal(str(int(day)))} {numbers.year(full)}"


def _moment(m: re.Match[str]) -> str:
    said = f"{say_date(m[1])}, {numbers.clock(m[2], m[3], None, m[4])}"
    if m[5]:
        return f"{said} U T C"
    if not m[6]:
        return said
    parts = ((int(m[7]), "hour"), (int(m[8] or 0), "minute"))
    away = " ".join(f"{numbers.cardinal(str(n))} {name}{'s' * (n != 1)}" for n, name in parts if n)
    return f"{said} {numbers.sign(m[6])}{away}" if away else f"{said} U T C"


def _full(text: str) -> str:
    return DAYS.get(text.lower()) or MONTH[text.lower()]
