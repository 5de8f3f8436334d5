"""Words that are written short: whether a full stop belongs to them, whether it ends the sentence too, and how titles,
days and books of the Bible are read with the word after them."""

import re
from typing import Final

from codec.text.units import BEARINGS, plural, unit_name
from codec.text.vocabulary import (
    ABBREVIATIONS,
    BARE,
    BEFORE_NAMES,
    BOOKS,
    CLOSING,
    COUNTED,
    DATED,
    DAYS,
    LEADING,
    LETTERED,
    MARKS,
    MONTH,
    OPENERS,
    OPENING,
    REGIONS,
    SIZES,
    STREETS,
    SURE_DAYS,
    TIMED,
    WEEKDAYS,
    ZONES,
)

_CHAPTER: Final = re.compile(r"\d{1,3}:\d{1,3}(?:[-–]\d{1,3})?")
_AFTER_TIMES: Final = ZONES | DAYS.keys() | MONTH.keys()
"""What may follow "a.m." in the same sentence although it has a capital."""
_NUMBERED_STREET: Final = re.compile(r"\d+(?:st|nd|rd|th)[.,]?")
_CODE: Final = re.compile(r"[A-Z]{0,4}-?\d[\dA-Z-]*")
_COLLEGES: Final = frozenset(
    "Arizona Ball Boise Colorado Florida Fresno Iowa Kansas Michigan Mississippi Ohio Oklahoma Oregon Penn Utah"
    " Washington".split()
)
"""States whose name before "St." is that of a university."""
_ROADS_SHORT: Final = frozenset("St. Ave. Blvd. Rd. Dr. Ln. Pl. St Ave Blvd Rd".split())
"""What a street's name ends with where a point of the compass may follow it."""
_PLAYS: Final = frozenset("vs v at beat beats defeated over edged won lost football basketball".split())
"""What "St." is state between: "Ohio St. vs. Michigan"."""
_INITIAL: Final = re.compile(r"[A-HJ-Z]|(?:[^\W\d_]\.)+[^\W\d_]")


def strip(text: str) -> tuple[str, str, str]:
    """Marks before the word, the word, marks after it."""
    rest = text.lstrip(OPENING)
    lead = text[: len(text) - len(rest)]
    core = rest.rstrip(MARKS + CLOSING)
    if not core and rest:
        return lead, "", rest
    return lead, core, rest[len(core) :]


def abbreviation(text: str) -> str | None:
    """The abbreviation or initial that ``text`` is, in lower case without its last stop; None if it is none."""
    if "." not in text:
        return None
    _, core, tail = strip(text)
    if not tail.startswith(".") or core in ("EST", "HR", "HRs"):  # A time zone, a home run.
        return None
    if core.lower() in ABBREVIATIONS or core in DATED or _INITIAL.fullmatch(core):
        return core.lower()
    return None


def waits(word: str) -> bool:
    """Whether the word after ``word`` tells how it is read."""
    _, core, tail = strip(word)
    return (
        abbreviation(word) is not None
        or (tail[:1] == "." and short_unit(core))
        or (tail[:1] == "." and (core.lower() in BOOKS or core.lower() in LETTERED | SIZES | TIMED))
        or word in LEADING
        or word in BEARINGS
        or word in ("v", "v.")
        or word.rstrip(".,") in WEEKDAYS
    )


def full(core: str, tail: str, before: str, following: str | None) -> str | None:
    """What a title, a street, a shortened day or a shortened book is between its neighbours; None where it is none.

    Args:
        core, tail: the word, and the marks after it.
        before: the word written before it, "" where none is.
        following: the word after it; None at the end of the text, or where nothing waited for it.
    """
    low, stop = core.lower(), tail[:1] == "."
    if (low in ("ft", "yd", "mi") or (low == "in" and stop)) and before.lower().rstrip(".") in ("sq", "cu"):
        return plural(unit_name(low) or low)
    after = "" if following is None else following.strip(OPENING + CLOSING + MARKS)
    if core in SURE_DAYS:
        return SURE_DAYS[core]
    if not stop and core in BARE:
        return BARE[core]
    if not stop and core in STREETS and (before[:1].isupper() or re.fullmatch(r"\d+(st|nd|rd|th)", before)):
        return STREETS[core]
    if core == "St" and not stop and tail and (before[:1].isupper() or before[:1].isdecimal()):
        return "street"  # A mark parts it from what follows, so no saint does.
    if not tail and core in LEADING:
        return LEADING[core][0 if capital(following) else 1]
    if core in ("Mon", "Sat") and after in ("-", "–"):
        return WEEKDAYS[core]
    if core in WEEKDAYS and (after[:1].isdecimal() or after.lower().rstrip(".") in DAYS | MONTH):
        return WEEKDAYS[core]
    if stop and core in WEEKDAYS and after[:1].islower():
        return WEEKDAYS[core]
    if core in WEEKDAYS and before.lower().strip(MARKS) in DAYS:
        return WEEKDAYS[core]
    if stop and low in BOOKS and _CHAPTER.fullmatch(after):
        return BOOKS[low]
    if stop and low in TIMED and re.fullmatch(r"\d{1,2}[:/.]\d\d.*", after):
        return TIMED[low]
    if core == "Ste" and re.fullmatch(r"[A-Z]?-?\d*[A-Z]?", after):
        return "suite"
    if stop and core in DATED and re.fullmatch(r"\d{3,4}(?:[-–]\d{2,4})?", after):
        return DATED[core]
    if stop and core == "c" and re.fullmatch(r"\d+(st|nd|rd|th)", before):
        return "century"
    if low == "no" and tail.startswith(".:"):
        return "number"
    if (
        stop
        and low == "no"
        and (_CODE.fullmatch(after) or before.lower().endswith(("'s", "’s")) or before.lower() in COUNTED)
    ):
        return "number"
    if stop and low in SIZES and (before[:1].isdecimal() or before.lower() in ("a", "one", "two", "three")):
        return SIZES[low]
    if stop and low == "cir" and re.fullmatch(r"\d+(st|nd|rd|th)", before):
        return "circuit"
    if stop and low in ("gen", "mi") and after.isdecimal():
        return "generation" if low == "gen" else "mile"
    if low == "rev" and re.fullmatch(r"[A-Z]\.", following or ""):
        return "reverend"
    per = before[-1:].isdecimal() or before.lower() in ("a", "each", "every", "per")
    if stop and low == "min" and not per and after[:1].islower():
        return "minimum"
    if stop and core == "p" and re.fullmatch(r"[A-Z]\d+", after):
        return "page"
    if stop and core == "Rt" and after.startswith("Hon"):
        return "right"
    if stop and core == "Ste" and capital(following):
        return "sainte"
    if core == "v" and before[:1].isupper() and capital(following):
        return "versus"
    if stop and core == "St" and before in _COLLEGES and after.lower() in _PLAYS:
        return "state"
    if stop and core == "Sec" and after == "of":
        return "secretary"
    if (
        stop
        and low in LETTERED
        and (core[0].isupper() or low not in ("app", "ex"))
        and re.fullmatch(r"[A-Z]|[IVX]+|[ivx]{2,}|\d+[A-Za-z]?", after)
    ):
        return LETTERED[low]
    if stop and core in STREETS and low in ("sq", "ct", "pl", "ter", "cir", "trl") and before[:1].isupper():
        return STREETS[core]
    if stop and low in ("fl",) and re.fullmatch(r"\d+(st|nd|rd|th)", before):
        return "floor"
    if stop and core == "Co" and capital(following) and not before[:1].isupper() and before != "&":
        return "county"
    return None


def faces(word: str, following: str | None) -> bool:
    """Whether ``word`` is a point of the compass before the name of a street that has a number: "W. 46th St."."""
    if word.rstrip(".") not in BEARINGS or following is None:
        return False
    return _NUMBERED_STREET.fullmatch(following) is not None or (
        word[-1] == "." and following[1:2].islower() and capital(following)
    )


def direction(core: str, before: str, following: str | None) -> str | None:
    """The point of the compass that a letter is before a street: "E 42nd St.", "12 N. Oak Ave.", or behind it: "12 Oak
    St. W."; else None."""
    if core not in BEARINGS:
        return None
    if before in _ROADS_SHORT and not capital(following):
        return BEARINGS[core]
    housed = before.isdecimal() and capital(following) and (following or "")[1:2].islower()
    region = (following or "").rstrip(MARKS).removesuffix("'s") in REGIONS
    return BEARINGS[core] if housed or region or faces(core, following) else None


def compass(following: str | None) -> bool:
    """Whether a letter follows that is a point of the compass."""
    return following is not None and following.rstrip(MARKS + CLOSING) in BEARINGS


def capital(following: str | None) -> bool:
    """Whether a word follows that begins with a capital."""
    return following is not None and following[:1].isupper()


def short_unit(core: str) -> bool:
    """Whether ``core`` is a number, a hyphen and a unit, so that its full stop is that of a short word: "42-yd."."""
    found = re.fullmatch(r"\d[\d./]*-([A-Za-z]{1,4})", core)
    return found is not None and unit_name(found[1]) is not None


def ends_here(short: str, following: str | None) -> bool:
    """Whether the stop of an :func:`abbreviation` ends the sentence as well."""
    if short in BEFORE_NAMES or len(short) == 1:
        return following is None
    if following is None:
        return True
    title = abbreviation(following) in BEFORE_NAMES
    word = following.strip(OPENING + CLOSING + MARKS)
    if short in ("a.m", "p.m"):
        return word[:1].isupper() and word.lower() not in _AFTER_TIMES
    if "." in short or short in ("jr", "sr") or short_unit(short):
        return word[:1].isupper() and word.lower() in OPENERS
    return word[:1].isupper() and not title
