"""What the words beside a word make of it: "Room 305", "CA 90210", "Louis XIV", "Python 3.12", "Settings > Privacy"."""

import re
from collections.abc import Collection
from typing import Final

from codec.text import numbers
from codec.text.dates import say_slashed
from codec.text.english import CAMEL, say_word
from codec.text.formula import say_formula
from codec.text.notation import characters, reacts
from codec.text.units import counted, measure, spaced_unit, unit_name
from codec.text.vocabulary import (
    ARROWS,
    BOOKS,
    CALLED,
    CLOSING,
    COUNTED,
    COUNTED_OFF,
    CURRENCY_CODES,
    DATED_AFTER,
    DAYS,
    DETERMINERS,
    MARKS,
    MILLIONS,
    MONTH,
    NAMED_BY_NUMBER,
    NO_NOUNS,
    NUMERALS,
    OPENERS,
    OPENING,
    PAIRED,
    PARTS,
    ROMAN,
    RULERS,
    SCALES,
    SCRIPTURE,
    SEATS,
    SIGNS,
    SPELLED_OUT,
    STATES,
    TALLIES,
    VERSIONED,
)

_EMERGENCY: Final = frozenset(("911", "999"))
_REACHING: Final = frozenset("a an or the through to via".split())
"""Words before the number of an emergency call, besides ``CALLED``; behind others it counts something ("We have 999 of
them")."""
_PAIR: Final = re.compile(r"(\d{1,3})/(\d{1,3})")
_RATIO: Final = re.compile(r"(\d{1,3}):(\d\d)")
_TOOK: Final = re.compile(r"(\d{1,2}):(\d\d):(\d\d)")
_TAKING: Final = frozenset("in took takes take clocked clocks ran lasted lasts lasting for".split())
"""Words after which "2:01:09" is how long something took."""
_RATIOS: Final = frozenset(
    "ratio ratios dilution dilutions scale scales odds mix mixture split leverage match slope gradient proportion"
    " proportions compression model replica".split()
)
"""Words beside which "1:10" is one to ten and no time of day."""
_RATED: Final = frozenset(
    "it them this him her say overall rated rate rates rating scored score scores scoring solid got get gets gave give"
    " gives giving perfect strong pain".split()
)
"""Words after which "8/10" is a rating."""
_BATTED: Final = frozenset("were reached posted scored made collapsed closed declared finished".split())
_BATTED_AFTER: Final = frozenset("after declared".split())
"""Words after and before which "245/6" are the runs and wickets of a cricket team."""
_BATTING: Final = frozenset("batting hitting hit hits bats batted average avg slugging slugged".split())
"""Words after which ".312" is a batter's average."""
_TITLES: Final = frozenset("king queen pope emperor empress tsar czar kaiser prince saint sultan".split())
_REIGNS: Final = frozenset("of took ruled reigned died became succeeded married ascended and in coin coins".split())
"""Words before and after a ruler's name with "I", by which that is a number and nobody who speaks."""
_SMALL_ROMAN: Final = frozenset("ii iii iv vi vii viii ix xi xii xiii xiv xv xvi".split())
_ROMAN_SPAN: Final = re.compile("([IVX]+)[-–]([IVX]+)")
_COUNTDOWN: Final = re.compile(r"T-(\d+)")
_OF_FIRMS: Final = frozenset("and said says is was has had will co company corp inc stock".split())
"""Words before which "3M" is the firm and no three million."""
_OF_STRANDS: Final = frozenset("cap carbon direction end ends exonuclease overhang position splice utr utrs".split())
"""Words before which 5′ and 3′ are the ends of a strand of DNA."""
_DIALLED: Final = re.compile(r"(?:\d{3}[-.])?\d{3}[-.]\d{4}")
_LASTING: Final = frozenset("prep cook cooking time total bake duration runtime eta read rest every".split())
"""Words before which "15m" are minutes."""
_EVENTS: Final = frozenset("bowl wrestlemania sonnet psalm canto".split())
"""Words after which even "XL" is a number."""
_KINDS: Final = frozenset(("Type", "type", "Class", "class", "Grade", "grade", "Schedule", "schedule"))
_OF_KINDS: Final = frozenset("diabetes error errors and or collagen drug drugs recall felony railroad".split())
"""Words before which "Type I" is the first type."""
_COUNTED_BY: Final = frozenset("century centuries olympics olympiad paralympics congress amendment corps".split())
"""Words before which a Roman number is an ordinal: "the XXIV Olympics"."""
_MOVING: Final = frozenset("depart departs departed departing arrive arrives arrived arriving at until".split())
"""Words after which "0730" is a time of day."""
_FIRM: Final = re.compile("3M(?:'s)?")
_ENDING: Final = frozenset("ending ends ended".split())
"""Words after which the last digits of a number come: "ending in 4421"."""
_CENTURIES: Final = frozenset(("15", "16", "17", "18", "19", "20"))
_POSTAL: Final = re.compile(r"\d{5}(?:-\d{4})?")
_VERSE: Final = re.compile(r"(\d{1,3}):(\d{1,3})(?:[-–](\d{1,3}))?")
_CAPITALS: Final = re.compile(r"[A-Z]{2,4}")
_ERAS: Final = frozenset(("AD", "BC", "BCE", "CE"))
_DIGITS: Final = re.compile(r"\d{3,17}")
_MISSING: Final = frozenset("a error http status".split())
"""Words before 404, which the web made a name."""
_MILLIONS: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmBb])")
_AIRLINER: Final = re.compile(r"(7[0-8]7)-([1-9]00|[789])")
"""A model of an aircraft, which is no range: "747-400"."""
_HOURS: Final = re.compile(r"0(\d)(\d\d)")
_TERM: Final = re.compile(r"\d*[b-hj-z]|\S*\^\S+")
"""The letter of a formula, with its number, or a power."""
_CENTURY: Final = re.compile("[IVX]{2,}")
_INCHES: Final = re.compile(r"\d+(?:\.\d+)?′′")
_MEASURE: Final = re.compile(r"\d+(?:\.\d+)?[A-Za-z°]{1,3}")
_OPERATIONS: Final = {"%": "mod", "<<": "shifted left by", ">>": "shifted right by"}
_RATED_BY: Final = re.compile(r"[A-Za-z]+/\d+|\d[\d,.]*\+")
"""What stands before a unit as its number does: "5+ years"."""
_UNKNOWN: Final = re.compile(r"(\d{1,2})x")
_OPERATORS: Final = frozenset("+-−=<>≤≥*/")
_BEYOND: Final = re.compile(r"(\d{1,2}|[a-z])!")


_HYPHENED: Final = re.compile("([A-Z])-")
"""A letter whose hyphen was parted from its number: "E- 1"."""
_AIRLINES: Final = frozenset("AA AC AF BA DL EI EK FR IB KL LH QF QR SQ TK UA VS WN".split())
"""Codes of airlines, before the numbers of their flights."""
_FED: Final = frozenset("adapter adaptor breaker charger current fuse motor outlet relay supply".split())
"""Words before which "2A" are amps."""
_AMPS: Final = re.compile(r"(\d+(?:\.\d+)?)A")
_NEGATING: Final = frozenset("&& || = == if return while".split())
"""What stands before the "not" of a program, "!ready"."""

_WAITING: Final = (_MILLIONS, _HOURS, _BEYOND, _CENTURY, _INCHES, _COUNTDOWN, _RATIO, _FIRM, _UNKNOWN, _HYPHENED, _AMPS)


def waits(word: str, before: str, earlier: str) -> bool:
    """Whether the word after ``word`` tells how it is read."""
    if word in ("#", "/", "*", "%", "<<", ">>"):
        return True
    if word in ARROWS:
        return reacts(before, "x")
    if word in (">", "-", "–", "—"):
        return _named(before) or _dates(before, earlier) or _TERM.fullmatch(before.lstrip("√(|")) is not None
    core = word.lstrip(OPENING)
    if core == "I":
        return before.lower() in RULERS or before in _KINDS
    if before.lower() in DETERMINERS and _MEASURE.fullmatch(core):
        return True
    return any(pattern.fullmatch(core) for pattern in _WAITING)


def spans(before: str, earlier: str, following: str | None) -> bool:
    """Whether a dash between two words is read "to": "Mon – Fri", "3 June – 7 July"."""
    if following is None or not _dates(before, earlier):
        return False
    after = following.strip(OPENING + MARKS + CLOSING)
    return _dated(after) or (after[:1].isdecimal() and _dated(before, DAYS.keys()))


def _dates(before: str, earlier: str) -> bool:
    """Whether a day or a month stands before, "May" or "May 5"."""
    return _dated(before) or (before.lstrip("'’").isdecimal() and _dated(earlier, DAYS.keys()))


def multiplies(before: str, following: str | None) -> bool:
    """Whether a star between two words is a sign: "n * f(n - 1)"."""
    left = re.fullmatch(r".*\)|[a-z]|\d[\d.]*", before)
    return left is not None and re.fullmatch(r"\(?(?:[a-z](?:\(.*)?|\d[\d.]*).*", following or "") is not None


def operates(sign: str, before: str, following: str | None) -> str | None:
    """What "%", "<<" and ">>" are between a name or a number and a number in a program: "i % 2"; None elsewhere."""
    said = _OPERATIONS.get(sign)
    if not said or not re.fullmatch(r"\(?[a-z]\w*\)?|\d+", before):
        return None
    return said if re.fullmatch(r"\d+\)*[;,.?:]?", following or "") else None


def divides(before: str, following: str | None) -> bool:
    """Whether a stroke between two words is that of a fraction: "(a + b) / 2"."""
    return before[-1:] == ")" and following is not None and re.fullmatch(r"\(?\d*[a-z]?[).,;]*", following) is not None


def subtracts(before: str, following: str | None) -> bool:
    """Whether a dash between two words is a minus: "x² - 4 = 0"."""
    before, following = before.lstrip("√(|"), (following or "").strip("|().,")
    return bool(_TERM.fullmatch(before) and re.fullmatch(r"\d*\.?\d+[a-z]{0,2}|[a-z]", following))


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
        return f"{numbers.quantity(amount[1])} {SCALES[amount[2].lower()]}"
    if (time := _HOURS.fullmatch(core)) and after in ("hours", "hrs"):
        return f"zero {numbers.cardinal(time[1])} {'hundred' if time[2] == '00' else numbers.pair(time[2])}"
    if (letter := _HYPHENED.fullmatch(core)) and after[:1].isdecimal():
        return letter[1]
    if (current := _AMPS.fullmatch(core)) and after in _FED:
        return f"{numbers.quantity(current[1])} amp"
    if _CENTURY.fullmatch(core) and after in _COUNTED_BY and (count := "20" if core == "XX" else ROMAN.get(core)):
        return numbers.ordinal(count)
    if after in ("hitter", "average") and re.fullmatch(r"\.[1-9]\d\d", core):
        return f"point {numbers.pairs(core[1:])}"
    if (count := _COUNTDOWN.fullmatch(core)) and after.rstrip("s") in ("second", "minute", "hour", "day", "week"):
        return f"T minus {numbers.cardinal(count[1])}"
    if core in ("3M", "3M's") and (after in _OF_FIRMS or following[:1] == "&"):
        return "three M" + core[2:]
    if tail in ("'", "’") and core in ("3", "5") and after in _OF_STRANDS:
        return f"{numbers.cardinal(core)} prime"
    if tail in ("'", "’") and core.isdecimal() and int(core) < 100 and (following.islower() and after not in NO_NOUNS):
        return f"{numbers.cardinal(core)} foot"
    if tail in ("'", "’") and core.isdecimal() and after in ("tall", "long", "wide", "high", "deep", "by"):
        return measure(core, "foot")
    if (unknown := _UNKNOWN.fullmatch(core)) and not tail and following in _OPERATORS:
        return f"{numbers.cardinal(unknown[1])} x"
    if _BEYOND.fullmatch(core + tail) and following in SIGNS:
        return f"{numbers.cardinal(core) if core.isdecimal() else core} factorial"
    if core in ("3′", "5′") and after in _OF_STRANDS:
        return f"{numbers.cardinal(core[0])} prime"
    return None


def _reigned(earlier: str, tail: str, following: str | None) -> bool:
    """Whether "I" behind a ruler's name is that ruler's number and not somebody: behind a title, before a mark or
    before what rulers do."""
    title = earlier.strip(OPENING + MARKS + CLOSING).lower()
    return title in _TITLES or tail != "" or (following or "").rstrip(MARKS) in _REIGNS


def read_after(before: str, earlier: str, core: str, tail: str = "", following: str | None = None) -> str | None:
    """What ``core`` says after the words ``earlier`` and ``before``; None where they make no difference.

    Args:
        tail, following: the marks after it, and the word after those where it was waited for.
    """
    word = before.strip(OPENING + MARKS + CLOSING)
    # Two letters without a vowel after "=" are a product.
    if before == "=" and re.fullmatch("[b-df-hj-np-tv-xz]{2}", core):
        return " ".join(core)
    counts = "/" in core and word.replace(".", "").isdecimal()
    if counts and (rate := re.fullmatch(r"([A-Za-z]+)/(\d+)", core)) and unit_name(rate[1]):
        return f"{counted(rate[1]).strip()} per {numbers.cardinal(rate[2])}"
    if _RATED_BY.fullmatch(word) and unit_name(core) and len(core) > 1:
        return counted(core).strip()
    if word.lower() == "per" and spaced_unit(core):
        return unit_name(core)
    if before == "lim" and (to := re.fullmatch(r"([a-z])→(\S+)", core)):
        return f"as {to[1]} approaches {say_word(to[2])} of"
    if before.lstrip("(") in _NEGATING and re.fullmatch(r"![a-z]\w*", core):
        return f"not {say_word(core[1:])}"
    if core[:1].isdecimal():
        low = earlier.strip(OPENING + MARKS + CLOSING).lower()
        parted = before.endswith((".", "!", "?", ";")) and word.lower() not in DAYS.keys() | DATED_AFTER
        after = "" if following is None else following.strip(OPENING + MARKS + CLOSING).lower()
        tallied = not before.endswith(",") and (low if word.lower() in ("of", "is", "was") else word.lower()) in TALLIES
        if tallied and (amount := _MILLIONS.fullmatch(core)) and amount[2] == "m":
            return f"{numbers.quantity(amount[1])} million"
        return (None if parted else _slashed_after(word.lower(), low, core, after)) or _number_after(
            word, low, core, after
        )
    if (extension := re.fullmatch(r"x(\d{1,5})", core)) and _DIALLED.fullmatch(word):
        return f"extension {numbers.digits(extension[1])}"
    if (away := re.fullmatch(r"([-+−])(\d\d)(\d\d)", core)) and re.fullmatch(r"\d{1,2}:\d\d(?::\d\d)?", word):
        hours = measure(str(int(away[2])), "hour")
        minutes = f" {measure(away[3], 'minute')}" if int(away[3]) else ""
        return numbers.sign(away[1]) + hours + minutes if int(away[2] + away[3]) else "U T C"
    if core[:1] == "." and word.lower() in _BATTING and re.fullmatch(r"\.[1-9]\d\d", core):
        return f"point {numbers.pairs(core[1:])}"
    stem, possessive = (core[:-2], "'s") if core[-2:] in ("'s", "’s") else (core, "")
    parted = before[-1:] in MARKS and not (word.lower() in PARTS and before.endswith("."))
    if stem == "I" and word.lower() in RULERS and not parted:
        sure = possessive or _reigned(earlier, tail, following)
        return f"the first{possessive}" if sure else None
    if stem in _SMALL_ROMAN and word.lower() in PARTS and not parted:
        return numbers.cardinal(ROMAN[stem.upper()])
    parts = not parted and not PARTS.isdisjoint((word.lower(), word.lower().removesuffix("s")))
    if parts and (span := _ROMAN_SPAN.fullmatch(core.upper())):
        low, high = (NUMERALS.get(letters, "0") for letters in span.groups())
        if 0 < int(low) < int(high):
            return f"{numbers.cardinal(low)} to {numbers.cardinal(high)}"
    if stem in NUMERALS and word.lower() in _EVENTS and not parted:
        return numbers.cardinal(NUMERALS[stem]) + possessive
    if stem == "I" and word in _KINDS and (following or "").rstrip(MARKS) in _OF_KINDS:
        return "one"
    first = earlier.strip(OPENING + MARKS + CLOSING)
    if stem in ROMAN and len(stem) > 1 and first.lower() in RULERS and word[:1].isupper() and word.lower() not in PARTS:
        return None if parted else f"the {numbers.ordinal(ROMAN[stem])}{possessive}"
    said = _roman(word, stem) if stem in ROMAN and not parted else None
    return said + possessive if said else None


def _slashed_after(low: str, earlier: str, core: str, after: str) -> str | None:
    """What numbers with strokes or colons between say behind ``earlier`` and ``low`` and before ``after``: a day, a
    rating, a part of a whole, odds, runs and wickets, how long something took."""
    if low in _LASTING and (minutes := re.fullmatch(r"(\d{1,3})m", core)):
        return measure(minutes[1], "minute")
    if core == "1-2" and after == "punch":
        return "one two"
    if time := _TOOK.fullmatch(core):
        if low in ("a", "an"):
            return " ".join((numbers.cardinal(time[1]), numbers.pair(time[2]), numbers.pair(time[3])))
        took = low in _TAKING or (low == "of" and earlier in ("time", "record", "best", "length", "runtime"))
        return _taken(time) if took else None
    if ratio := _RATIO.fullmatch(core):
        sure = after in _RATIOS or low in _RATIOS or (low == "of" and earlier in _RATIOS)
        return f"{numbers.cardinal(ratio[1])} to {numbers.cardinal(ratio[2])}" if sure else None
    if low in DATED_AFTER or low in DAYS or (low == "of" and earlier in ("week", "weekend", "night", "morning")):
        pair = _PAIR.fullmatch(core)
        # "From 1/10" begins a range of fractions more often than one of January's days.
        part = low == "from" and pair and pair[1] == "1"
        fraction = pair and int(pair[1]) < int(pair[2]) and (part or pair[2] in "2348")
        if (low in ("on", "due", "of") or low in DAYS or not fraction) and (day := say_slashed(core)):
            return day
    if not (pair := _PAIR.fullmatch(core)):
        return None
    over, under = pair.groups()
    if after in ("time", "meter", "signature") and under in ("2", "4", "8", "16"):
        return f"{numbers.cardinal(over)} {numbers.cardinal(under)}"
    if low in ("phase", "phases"):
        return f"{numbers.cardinal(over)} {numbers.cardinal(under)}"
    if low == "odds" or (earlier == "odds" and low in ("of", "at", "are", "were", "is")):
        return f"{numbers.cardinal(over)} to {numbers.cardinal(under)}"
    if low in COUNTED_OFF and int(over) <= int(under):
        return f"{numbers.cardinal(over)} of {numbers.cardinal(under)}"
    if (
        int(over) <= int(under)
        and core not in ("20/20", "50/50")
        and under in ("5", "10", "20", "50", "100")
        and after != "of"
    ):
        rated = (
            low in _RATED or (low in ("a", "an") and len(under) > 1) or after in ("stars", "points", "marks", "⭐", "★")
        )
        if rated:
            return f"{numbers.cardinal(over)} out of {numbers.cardinal(under)}"
    if len(over) > 1 and len(under) == 1 and int(over) > 19 and (low in _BATTED or after in _BATTED_AFTER):
        return f"{numbers.cardinal(over)} for {numbers.cardinal(under)}"
    return None


def _taken(m: re.Match[str]) -> str:
    """``"2:01:09"`` as a time that something took."""
    parts = ((m[1], "hour"), (m[2], "minute"), (m[3], "second"))
    return " ".join(measure(str(int(count)), name) for count, name in parts if int(count))


def _number_after(word: str, earlier: str, core: str, after: str) -> str | None:
    low = word.lower()
    if word in SIGNS and (unknown := re.fullmatch(r"(\d+)([a-z])", core)):
        return f"{numbers.cardinal(unknown[1])} {unknown[2]}"
    if word in ("-", "−", "+", "=", "×") and (unknown := re.fullmatch(r"(\d+)(ac|ab|xy|bc|ax|bx|pq|rs)", core)):
        return f"{numbers.cardinal(unknown[1])} {' '.join(unknown[2])}"
    timed = low in ("till", "until") or (low == "the" and after in ("bus", "ferry", "flight", "train"))
    if timed and (clock := re.fullmatch(r"(\d{1,2})\.([0-5]\d)", core)):
        return numbers.clock(clock[1], clock[2], None)
    if low in ("size", "sizes") and (width := re.fullmatch(r"(\d{1,2}(?:\.5)?)([A-Z]{1,2})", core)):
        return f"{numbers.quantity(width[1])} {' '.join(width[2])}"
    if word in _AIRLINES and re.fullmatch(r"\d{3}", core):
        return numbers.pairs(core)
    if earlier in ("flight", "flights") and re.fullmatch("[A-Z0-9]{2}", word) and re.fullmatch(r"\d{3}", core):
        return numbers.pairs(core)
    if core == "404" and low in _MISSING:
        return "four oh four"
    if low in SEATS and (seat := re.fullmatch(r"(\d{1,4})([A-Z])", core)):
        return f"{numbers.pairs(seat[1])} {seat[2]}"
    if low in SPELLED_OUT and re.fullmatch(r"\d+(?:-\d+)+", core):
        return ", ".join(map(numbers.digits, core.split("-")))
    if low in _MOVING and (time := re.fullmatch(r"0(\d)([0-5]\d)", core)):
        return f"zero {numbers.cardinal(time[1])} {'hundred' if time[2] == '00' else numbers.pair(time[2])}"
    if low == "form" and (form := re.fullmatch(r"(\d{3,4})-([A-Z]{1,4})", core)):
        return f"{numbers.pairs(form[1])} {form[2]}"
    if (
        (low in _ENDING or (earlier in _ENDING and low in ("in", "with")))
        and re.fullmatch(r"\d{3,4}", core)
        and core[:2] not in _CENTURIES
    ):
        return numbers.digits(core)
    if plane := _AIRLINER.fullmatch(core):
        return f"{numbers.pairs(plane[1])} {numbers.pairs(plane[2])}"
    if low in PAIRED and low[-1] != "s" and (number := re.fullmatch(r"(\d{1,2})-(\d{3,4})", core)):
        return f"{numbers.cardinal(number[1])} {numbers.pairs(number[2])}"
    if low in PAIRED and (sides := re.fullmatch(r"(\d{3,4})([-–])(\d{3,4})", core)):
        to = " " if low in NAMED_BY_NUMBER and sides[2] == "-" else " to "
        return numbers.pairs(sides[1]) + to + numbers.pairs(sides[3])
    if core in _EMERGENCY and (low in _REACHING or (core == "911" and not low)):
        return numbers.digits(core)
    if _POSTAL.fullmatch(core) and (word.replace(".", "") in STATES or low in SPELLED_OUT):
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
            numbers.cardinal(ROMAN[core])
            if named and core == "V" and word in ("article", "chapter", "act", "saturn")
            else None
        )
    return numbers.cardinal(ROMAN[core]) if word in PARTS or (named and word not in OPENERS) else None


def marked(lead: str, core: str, before: str) -> str | None:
    """How a word is read that has a mark right before it: as a colour, a hashtag, or a year without its century. None
    if the mark changes nothing."""
    if lead[-1:] == "(" and re.fullmatch(r"-[a-z]", core):
        return f"minus {core[1]}"
    if lead[-1:] == "(" and re.fullmatch(r"[a-z][-−+]\d+(?:\)[a-z]?)?|\d+[-−][a-z]", core):
        return say_formula(core)
    if lead == "(" and core in _SMALL_ROMAN:
        return numbers.cardinal(ROMAN[core.upper()])
    if lead.endswith("#"):
        if before.lower() in COUNTED | PAIRED | {"item", "lot", "no"} and re.fullmatch(r"[A-Z]{1,3}-?\d+", core):
            return f"number {say_word(core)}"
        if re.fullmatch(r"\d{6,12}", core) and len(set(core)) > 1:
            return f"number {numbers.digits(core)}"
        if re.fullmatch(r"[0-9A-Fa-f]{6}", core) and not core.isalpha():
            return f"hash {characters(core)}"
        return CAMEL.sub(" ", core) if core.isalpha() and CAMEL.search(core) else None
    return numbers.pair(core) if lead[-1:] in ("'", "’") and re.fullmatch(r"\d\d", core) and core != "00" else None
