"""Words that are written short: whether a full stop belongs to them, whether it ends the sentence too, and how titles,
days and books of the Bible are read with the word after them."""

import re
from typing import Final

from codec.text.vocabulary import (
    ABBREVIATIONS,
    BARE,
    BEFORE_NAMES,
    BOOKS,
    CLOSING,
    DATED,
    DAYS,
    LEADING,
    MARKS,
    MONTH,
    OPENERS,
    OPENING,
    STREETS,
    SURE_DAYS,
    WEEKDAYS,
    ZONES,
)

_CHAPTER: Final = re.compile(r"\d{1,3}:\d{1,3}(?:[-–]\d{1,3})?")
_AFTER_TIMES: Final = ZONES | DAYS.keys() | MONTH.keys()
"""What may follow "a.m." in the same sentence although it has a capital."""
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
    _, core, tail = strip(text)
    if not tail.startswith(".") or core == "EST":  # EST is a time zone, not a short word.
        return None
    if core.lower() in ABBREVIATIONS or core in DATED or _INITIAL.fullmatch(core):
        return core.lower()
    return None


def waits(word: str) -> bool:
    """Whether the word after ``word`` tells how it is read."""
    return abbreviation(word) is not None or word in LEADING or word.rstrip(".,") in WEEKDAYS


def full(core: str, tail: str, before: str, following: str | None) -> str | None:
    """What a title, a street, a shortened day or a shortened book is between its neighbours; None where it is none.

    Args:
        core, tail: the word, and the marks after it.
        before: the word written before it, "" where none is.
        following: the word after it; None at the end of the text, or where nothing waited for it.
    """
    low, stop = core.lower(), tail[:1] == "."
    after = "" if following is None else following.strip(OPENING + CLOSING + MARKS)
    if core in SURE_DAYS:
        return SURE_DAYS[core]
    if not stop and core in BARE:
        return BARE[core]
    if not stop and core in STREETS and (before[:1].isupper() or re.fullmatch(r"\d+(st|nd|rd|th)", before)):
        return STREETS[core]
    if not tail and core in LEADING:
        return LEADING[core][0 if capital(following) else 1]
    if core in ("Mon", "Sat") and after in ("-", "–"):
        return WEEKDAYS[core]
    if core in WEEKDAYS and (after[:1].isdecimal() or after.lower().rstrip(".") in DAYS | MONTH):
        return WEEKDAYS[core]
    if core in WEEKDAYS and before.lower().strip(MARKS) in DAYS:
        return WEEKDAYS[core]
    if stop and low in BOOKS and _CHAPTER.fullmatch(after):
        return BOOKS[low]
    if stop and core in DATED and re.fullmatch(r"\d{3,4}", after):
        return DATED[core]
    if stop and core == "c" and re.fullmatch(r"\d+(st|nd|rd|th)", before):
        return "century"
    if stop and core == "Co" and capital(following) and not before[:1].isupper() and before != "&":
        return "county"
    return None


def capital(following: str | None) -> bool:
    """Whether a word follows that begins with a capital."""
    return following is not None and following[:1].isupper()


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
    if "." in short or short in ("jr", "sr"):
        return word[:1].isupper() and word.lower() in OPENERS
    return word[:1].isupper() and not title
