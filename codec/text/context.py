"""What the words beside a word make of it: "Room 305", "CA 90210", "Louis XIV", "Python 3.12", "Settings > Privacy"."""

import re
from collections.abc import Collection
from typing import Final

from codec.text import numbers
from codec.text.english import CAMEL
from codec.text.notation import characters
from codec.text.vocabulary import (
    BOOKS,
    CALLED,
    CLOSING,
    CURRENCY_CODES,
    DAYS,
    MARKS,
    MILLIONS,
    MONTH,
    NAMED_BY_NUMBER,
    OPENERS,
    OPENING,
    PAIRED,
    PARTS,
    ROMAN,
    RULERS,
    SCRIPTURE,
    SEATS,
    SIGNS,
    SPELLED_OUT,
    STATES,
    VERSIONED,
)

_EMERGENCY: Final = frozenset(("911", "999"))
_REACHING: Final = frozenset("a an the through to via".split())
"""Words before the number of an emergency call, besides ``CALLED``; behind others it counts something ("We have 999 of
them")."""
_POSTAL: Final = re.compile(r"\d{5}(?:-\d{4})?")
_VERSE: Final = re.compile(r"(\d{1,3}):(\d{1,3})(?:[-–](\d{1,3}))?")
_CAPITALS: Final = re.compile(r"[A-Z]{2,4}")
_ERAS: Final = frozenset(("AD", "BC", "BCE", "CE"))
_DIGITS: Final = re.compile(r"\d{3,17}")
_MISSING: Final = frozenset("a error http status".split())
"""Words before 404, which the web made a name."""
_MILLIONS: Final = re.compile(r"(\d+(?:\.\d+)?)([km])")
_HOURS: Final = re.compile(r"0(\d)(\d\d)")
_TERM: Final = re.compile(r"\d*[b-hj-z]|\S*\^\S+")
"""The letter of a formula, with its number, or a power."""
_CENTURY: Final = re.compile("[IVX]{2,}")
_BEYOND: Final = re.compile(r"(\d{1,2})!")


def waits(word: str, before: str, earlier: str) -> bool:
    """Whether the word after ``word`` tells how it is read."""
    if word in (">", "-", "–", "—"):
        return _named(before) or _dates(before, earlier) or _TERM.fullmatch(before) is not None
    core = word.lstrip(OPENING)
    return any(pattern.fullmatch(core) for pattern in (_MILLIONS, _HOURS, _BEYOND, _CENTURY))


def spans(before: str, earlier: str, following: str | None) -> bool:
    """Whether a dash between two words is read "to": "Mon – Fri", "3 June – 7 July"."""
    if following is None or not _dates(before, earlier):
        return False
    after = following.strip(OPENING + MARKS + CLOSING)
    return _dated(after) or (after[:1].isdecimal() and _dated(before, DAYS.keys()))


def _dates(before: str, earlier: str) -> bool:
    """Whether a day or a month stands before, "May" or "May 5"."""
    return _dated(before) or (before.isdecimal() and _dated(earlier, DAYS.keys()))


def subtracts(before: str, following: str | None) -> bool:
    """Whether a dash between two words is a minus: "x² - 4 = 0"."""
    return following is not None and bool(_TERM.fullmatch(before) and re.fullmatch(r"\d*\.?\d+[a-z]?|[a-z]", following))


def steps(before: str, following: str | None) -> bool:
    """Whether ">" parts the steps of a menu and is no sign: "Settings > Privacy"."""
    return _named(before) and following is not None and _named(following)


def _named(word: str) -> bool:
    core = word.strip(OPENING + MARKS + CLOSING)
    return len(core) > 1 and core[0].isupper()


def _dated(word: str, but: Collection[str] = ()) -> bool:
    """Whether a word is a day's or a month's name."""
    low = word.strip(OPENING + MARKS + CLOSING).lower()
    return low not in but and word[:1].isupper() and (low in DAYS or low in MONTH)


def read_before(core: str, tail: str, following: str | None) -> str | None:
    """What ``core`` says before the word ``following``; None where that makes no difference."""
    if following is None:
        return None
    after = following.strip(OPENING + MARKS + CLOSING).lower()
    if (amount := _MILLIONS.fullmatch(core)) and after in MILLIONS:
        return f"{numbers.quantity(amount[1])} {'million' if amount[2] == 'm' else 'thousand'}"
    if (time := _HOURS.fullmatch(core)) and after in ("hours", "hrs"):
        return f"zero {numbers.cardinal(time[1])} {'hundred' if time[2] == '00' else numbers.pair(time[2])}"
    if (
        _CENTURY.fullmatch(core)
        and after in ("century", "centuries")
        and (count := "20" if core == "XX" else ROMAN.get(core))
    ):
        return numbers.ordinal(count)
    if core.isdecimal() and tail == "!" and following in SIGNS:
        return f"{numbers.cardinal(core)} factorial"
    return None


def read_after(before: str, earlier: str, core: str) -> str | None:
    """What ``core`` says after the words ``earlier`` and ``before``; None where they make no difference."""
    word = before.strip(OPENING + MARKS + CLOSING)
    # Two letters without a vowel after "=" are a product.
    if before == "=" and re.fullmatch("[b-df-hj-np-tv-xz]{2}", core):
        return " ".join(core)
    if core[:1].isdecimal():
        return _number_after(word, earlier.strip(OPENING + MARKS + CLOSING).lower(), core)
    stem, possessive = (core[:-2], "'s") if core[-2:] in ("'s", "’s") else (core, "")
    parted = before[-1:] in MARKS and not (word.lower() in PARTS and before.endswith("."))
    counted = _roman(word, stem) if stem in ROMAN and not parted else None
    return counted + possessive if counted else None


def _number_after(word: str, earlier: str, core: str) -> str | None:
    low = word.lower()
    if word in SIGNS and (unknown := re.fullmatch(r"(\d+)([a-z])", core)):
        return f"{numbers.cardinal(unknown[1])} {unknown[2]}"
    if core == "404" and low in _MISSING:
        return "four oh four"
    if low in SEATS and (seat := re.fullmatch(r"(\d{1,4})([A-Z])", core)):
        return f"{numbers.pairs(seat[1])} {seat[2]}"
    if low in PAIRED and (sides := re.fullmatch(r"(\d{3,4})([-–])(\d{3,4})", core)):
        to = " " if low in NAMED_BY_NUMBER and sides[2] == "-" else " to "
        return numbers.pairs(sides[1]) + to + numbers.pairs(sides[3])
    if core in _EMERGENCY and (low in _REACHING or (core == "911" and not low)):
        return numbers.digits(core)
    if _POSTAL.fullmatch(core) and (word in STATES or low in SPELLED_OUT):
        return ", ".join(numbers.digits(part) for part in core.split("-"))
    named = low in SPELLED_OUT or (low in ("is", "number") and earlier in SPELLED_OUT)
    if _DIGITS.fullmatch(core) and (named or (low in CALLED and len(core) == 3)):
        return numbers.digits(core)
    if low in VERSIONED and re.fullmatch(r"\d+\.\d+", core):
        return " point ".join(map(numbers.cardinal, core.split(".")))
    if (low in SCRIPTURE or low in BOOKS) and (verse := _VERSE.fullmatch(core)):
        said = f"{numbers.cardinal(verse[1])} {numbers.cardinal(verse[2])}"
        return f"{said} to {numbers.cardinal(verse[3])}" if verse[3] else said
    if not (core.isdecimal() and 3 <= len(core) <= 4):
        return None
    if low in PAIRED:
        return numbers.pairs(core)
    if len(core) == 4 and _CAPITALS.fullmatch(word) and word not in CURRENCY_CODES and word not in _ERAS:
        return numbers.pairs(core)
    year = core[:2] == "10" and low in ("in", "since", "until", "by", "from", "year")
    return numbers.pairs(core) if year else None


def _roman(before: str, core: str) -> str | None:
    """What a Roman number says after a word that one follows; "I" is somebody, "class X" need not be the tenth."""
    word, named = before.lower(), before[:1].isupper()
    if core == "I":
        return "one" if named and word in PARTS and word not in ("class", "grade", "type") else None
    if named and word in RULERS:
        return f"the {numbers.ordinal(ROMAN[core])}"
    if len(core) == 1:
        return (
            numbers.cardinal(ROMAN[core]) if named and core == "V" and word in ("article", "chapter", "act") else None
        )
    return numbers.cardinal(ROMAN[core]) if word in PARTS or (named and word not in OPENERS) else None


def marked(lead: str, core: str) -> str | None:
    """How a word is read that has a mark right before it: as a colour, a hashtag, or a year without its century. None
    if the mark changes nothing."""
    if lead.endswith("#"):
        if re.fullmatch(r"[0-9A-Fa-f]{6}", core) and not core.isalpha():
            return f"hash {characters(core)}"
        return CAMEL.sub(" ", core) if core.isalpha() and CAMEL.search(core) else None
    return numbers.pair(core) if lead[-1:] in ("'", "’") and re.fullmatch(r"\d\d", core) and core != "00" else None
