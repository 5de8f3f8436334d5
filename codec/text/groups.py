"""Groups: words that can only be read together ("March 3, 2024", "5 km", "1 000 000", "2h 30m").

:func:`binds` says whether a word belongs to those before it, :func:`may_bind` whether some next word could, so that a
group is spoken as soon as nothing can join it, and :func:`say_group` reads it. A group that turns out to be none is
read word by word.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from codec.text import numbers
from codec.text.dates import DAY, SHORT_YEAR, YEAR, month, say_dated
from codec.text.english import (
    MONEY,
    QUANTITY,
    RANGE,
    SIGN,
    WHOLE,
    say_mixed_number,
    say_money,
    say_word,
)
from codec.text.units import (
    BEARINGS,
    DEGREES,
    FEET_LIKE,
    PART,
    SQUARES,
    TO,
    amounts,
    counted,
    measure,
    quantities,
    spaced_unit,
    unit_name,
)
from codec.text.vocabulary import CLOSING, CURRENCY_CODES, MARKS, OPENING, SCALES, SIGNS

LONGEST: Final = 6
"""How many words a group has at most: four groups of a card's number, and a unit or sign beside a range, fit."""

_BETWEEN: Final = {
    "*": "times", "**": "to the", "^": "to the", "<": "less than", ">": "greater than", "-": "to", "–": "to",
    "—": "to", "~": "to", ":": "to", "=": "equals", "−": "minus", "×": "times", "÷": "divided by", "x": "by",
    "/": "slash", "±": "plus or minus",
}  # fmt: skip
"""What signs mean between two amounts; elsewhere most of them are markup."""
_DASHES: Final = frozenset("-–")
"""Between two amounts, spaces around them or not, these are a range."""
_OPERATORS: Final = frozenset("*<>~=-–/x×±")
"""The signs that may stand between two numbers with white space around them."""
_EQUATION: Final = {"-": "−", "–": "−", "x": "×", "/": "÷"}
"""What some of them are where an equals sign stands too."""
_ALONE: Final = frozenset("<>~±")
"""The signs that are read before a number even if no number stands before them."""

_TIME: Final = re.compile(rf"(?:(\d{{1,2}}(?::\d{{2}})?){RANGE})?(\d{{1,2}})(?::(\d{{2}}))?")
_HALF: Final = re.compile(r"([ap])\.?m\.?", re.I)
_UNTIL: Final = re.compile(rf"([ap])\.?m\.?{RANGE}(\d{{1,2}})(?::(\d{{2}}))?", re.I)
""" "p.m.–1" of "12 p.m.–1 p.m."."""
_NUMBER: Final = re.compile(
    rf"{SIGN}{QUANTITY}(?:{RANGE}{QUANTITY}|/\d{{1,3}}|-\d/\d|\^[-−+]?\d+|(?:[x×]\d{{1,4}}){{1,2}})?"
)
_COUNTED: Final = re.compile(rf"{WHOLE}(?:\.\d+)*(?:{RANGE}{WHOLE}|ff?|-[a-z]+)?")
NUMBERED: Final = {
    "no.": "number", "nos.": "numbers", "p.": "page", "pp.": "pages", "ch.": "chapter", "sec.": "section",
    "eq.": "equation", "eqs.": "equations", "art.": "article", "min.": "minimum", "max.": "maximum",
    "par.": "paragraph", "figs.": "figures", "chs.": "chapters", "vv.": "verses", "ll.": "lines", "fn.": "footnote",
    "pg.": "page", "pgs.": "pages", "refs.": "references", "lvl.": "level", "§§": "sections", "¶¶": "paragraphs",
    "App.": "appendix", "Ref.": "reference", "Rev.": "revision", "Bk.": "book", "Pt.": "part", "Rd.": "round",
    "Fl.": "floor", "Wk.": "week", "Ep.": "episode", "Ex.": "example", "Gr.": "grade", "Ser.": "series",
}  # fmt: skip
"""Abbreviations that are read so before a number only; those with a capital only if they are written with it."""
_PREFIX: Final = re.compile(r"\(?\+\d{1,3}\)?|\(\d{3}\)")
_PHONE_PART: Final = re.compile(r"\(?\d[\d)-]*")
"""First word of a phone number that is written in several, and the others."""
_DIGITS: Final = re.compile(r"\d{1,4}|0\d{4}")
_AFTER_ZERO: Final = re.compile(r"\d{3,8}")
_THREE_OR_FOUR: Final = re.compile(r"\d{3,4}")
"""The later groups of digits of what begins with a zero, which is a telephone number, and of anything else."""
_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}(?: \d{3})+")
_SPACED_PHONE: Final = re.compile(r"0\d{1,4}(?: \d{3,8}){1,3}|\d{3} \d{3,4} \d{4}")
_CARD: Final = re.compile(r"\d{4}(?: \d{4}){2,3}")
_LENGTH: Final = re.compile(r"[\d./-]+(?:′|'|′′|cm|mm|m|ft|in)")
"""The length of one side of something that has several: "8.5″ x 11″"."""
_SCALE_TO: Final = re.compile(rf"(million|billion|trillion){RANGE}({MONEY.pattern})", re.I)
""" "million-$2" of "$1.5 million-$2 million"."""
_STRAND: Final = re.compile("[35]['’′]")
"""The ends of a strand of DNA."""
_BEARING: Final = re.compile(rf"{QUANTITY}°(?:\d+′)?(?:\d+′′)?")
_ORDINAL: Final = re.compile(r"\d{1,2}(?:st|nd|rd|th)(?:[-–]\d{1,2}(?:st|nd|rd|th))?")
_CENTS: Final = re.compile(r"\d{1,3}(?:\.\d{3})*,\d\d")
"""Euros and cents with the comma of the continent."""


def is_number(core: str) -> bool:
    """Whether a word is a number, a sum or a range that a unit or a scale may follow."""
    return _NUMBER.fullmatch(core) is not None or MONEY.fullmatch(core) is not None


def _bare(words: Sequence[str]) -> list[str]:
    """Words without the marks before them."""
    return [word.lstrip(OPENING + ">") if len(word) > 1 else word for word in words]


def _digit_groups(words: Sequence[str]) -> bool:
    """Whether all words are digits that may be one number, one telephone number or one card's."""
    longer = _AFTER_ZERO if words[0][0] == "0" else _THREE_OR_FOUR
    return bool(_DIGITS.fullmatch(words[0])) and all(map(longer.fullmatch, words[1:]))


def _numbered(word: str) -> str | None:
    """What an abbreviation means before a number; None where it is none."""
    return NUMBERED.get(word) or NUMBERED.get(word.lower())


def binds(before: Sequence[str], word: str) -> bool:
    """Whether ``word`` (as written) can only be read together with the words ``before`` it."""
    core = word.rstrip(MARKS + CLOSING)
    if _PREFIX.fullmatch(before[0]) and all(map(_PHONE_PART.fullmatch, (*before[1:], core))):
        return True
    before = _bare(before)
    last = before[-1]
    if any(month(w.rstrip(".")) for w in before):
        return _binds_to_date(before, word, core)
    if _currency_before(before):
        return is_number(core)
    if last in ("x", "×") and len(before) > 1:
        return is_number(core) or _LENGTH.fullmatch(core) is not None
    if last in _OPERATORS:
        return _operates(before) and (is_number(core) or (last in _DASHES and _TIME.fullmatch(core) is not None))
    if len(before) > 1 and (word in _DASHES or word in "x×") and spaced_unit(last):
        return True
    if _LENGTH.fullmatch(last) and word in ("x", "×"):
        return True
    if last == "%" and len(before) == 2 and core.isdecimal():  # It is no percent but what is left of a division.
        return before[0].isdecimal()
    if _STRAND.fullmatch(last) and word == "to":
        return len(before) == 1
    if last == "to":
        return _STRAND.fullmatch(f"{core}'") is not None and core not in before[0]
    if core in BEARINGS and _BEARING.fullmatch(last):
        return True
    if _ORDINAL.fullmatch(last):
        return len(before) == 1 and month(core) is not None
    if _CENTS.fullmatch(last) and core in numbers.CURRENCIES:
        return True
    if last.lower().rstrip(".") in SQUARES and len(before) > 1:
        return unit_name(f"{last.lower().rstrip('.')} {core.lower()}") is not None
    if PART.fullmatch(last) or (len(before) > 1 and last.lower().rstrip(".") in FEET_LIKE and is_number(before[-2])):
        return _smaller(before, core)
    if _SCALE_TO.fullmatch(last):
        return core.lower() in SCALES
    if _UNTIL.fullmatch(last):
        return _HALF.fullmatch(core) is not None
    if is_number(last) or _TIME.fullmatch(last) is not None:
        return _binds_to_number(before, word, core)
    if last.lower() in SCALES:
        return len(before) > 1 and spaced_unit(core)
    if _HALF.fullmatch(last):
        return len(before) > 1 and word in _DASHES
    return len(before) == 1 and _numbered(last) is not None and _COUNTED.fullmatch(core.lstrip("(")) is not None


def _binds_to_date(before: Sequence[str], word: str, core: str) -> bool:
    if before[-1] in _DASHES:
        return DAY.fullmatch(core) is not None
    if not _open_date(before):
        return False
    day = DAY.fullmatch(before[-1])
    return bool(
        (YEAR.fullmatch(core) and (before[-1][-1] not in "–-"))
        or (len(before) == 1 and (DAY.fullmatch(core) or SHORT_YEAR.fullmatch(core)))
        or (len(before) == 2 and day is not None and not day[2] and word in _DASHES)
    )


def _binds_to_number(before: Sequence[str], word: str, core: str) -> bool:
    low, last = core.lower(), before[-1]
    return (
        spaced_unit(core)
        or (low in SQUARES or low.rstrip(".") in SQUARES)
        or (len(before) >= 3 and low in ("in", "oz") and before[-2].lower().rstrip(".") in FEET_LIKE)
        or (word.rstrip(",;:!?)") in ("in.", "c.") and not last.isalpha())
        or (low in SCALES and len(low) > 1)
        or (low == "s" and "." in last)
        or (core in ("s", "h") and word != core and last.isdecimal())
        or word in _OPERATORS
        or _HALF.fullmatch(low) is not None
        or _UNTIL.fullmatch(low) is not None
        or (MONEY.fullmatch(last) is not None and _SCALE_TO.fullmatch(core) is not None)
        or bool(DAY.fullmatch(last) and month(core))
        or bool("/" in core and last.isdecimal() and re.fullmatch(r"\d/\d(?:-[a-z]+|%|′′)?", core))
        or (word[0].isdecimal() and _digit_groups([*before, core.removesuffix("#")]))
        or (core in DEGREES and re.fullmatch(r"[-−+]\d|[-−+]?\d{2,3}(?:\.\d)?", last) is not None)
        or core in CURRENCY_CODES
        or (len(core) == 1 and core in numbers.CURRENCIES)
    )


def _smaller(before: Sequence[str], core: str) -> bool:
    """Whether an amount of a smaller unit follows, or its number: "2h 30m", "5 ft 4"."""
    if PART.fullmatch(before[-1]):
        part = PART.fullmatch(core)
        return part is not None and (len(before) < 3)
    return core.isdecimal() and len(before) < 4


def _currency_before(words: Sequence[str]) -> bool:
    return len(words) == 1 and (words[0] in numbers.CURRENCIES or words[0] in CURRENCY_CODES)


def _operates(words: Sequence[str]) -> bool:
    """Whether a number must follow: "*" is a list item where none stands before it."""
    return words[-1] in _OPERATORS and (len(words) > 1 or words[-1] in _ALONE)


def _open_date(words: Sequence[str]) -> bool:
    """Whether a year, or after a lone month a day, may follow."""
    return bool(len(words) < 3 and (month(words[-1].rstrip(".")) or DAY.fullmatch(words[-1])))


def may_bind(group: Sequence[str]) -> bool:
    """Whether some next word could bind to ``group``: if not, it can be spoken now."""
    prefix, group = group[0], _bare(group)
    last = group[-1]
    if any(month(w.rstrip(".")) for w in group):
        return _open_date(group) or last in _DASHES
    low = last.lower().rstrip(".")
    return (
        is_number(last)
        or _TIME.fullmatch(last) is not None
        or _PREFIX.fullmatch(prefix) is not None
        or _currency_before(group)
        or any(pattern.fullmatch(last) for pattern in (_LENGTH, _BEARING, _ORDINAL, _CENTS))
        or PART.fullmatch(last) is not None
        or _UNTIL.fullmatch(last) is not None
        or (last == "to" and len(group) == 2)
        or _SCALE_TO.fullmatch(last) is not None
        or (len(group) > 1 and (low in SCALES or low in SQUARES or low in FEET_LIKE or spaced_unit(last)))
        or _operates(group)
        or (len(group) > 1 and _HALF.fullmatch(last) is not None)
        or (len(group) == 1 and _numbered(last) is not None)
    )


def say_group(words: Sequence[str]) -> str | None:
    """Several words that are read as one expression (without closing marks); None where they are not one."""
    first, rest = words[0], words[1:]
    if not rest:
        return None
    if said := say_dated(first, rest):
        return said
    if _currency_before([first]) and is_number(rest[0]):
        scale = SCALES.get(rest[1].lower()) if len(rest) > 1 else None
        return _sum(rest[0], first, scale) if len(rest) == 1 or scale else None
    if len(words) == 3 and (to := _SCALE_TO.fullmatch(rest[0])):
        return f"{_measured(first, [to[1]])} to {_measured(to[2], [rest[1]])}"
    if said := _until(words) or _digits(words) or amounts(words) or _sides(words):
        return said
    if len(words) == 2 and rest[0] in BEARINGS and _BEARING.fullmatch(first):
        return say_word(first + rest[0])
    if len(words) == 2 and _CENTS.fullmatch(first):
        return say_word(first + rest[0])
    if "=" in words:
        words = [_EQUATION.get(word, word) for word in words]
    for place, word in enumerate(words):
        if word in _BETWEEN and (place < len(words) - 1 or word == "<"):
            sides = (words[:place], words[place + 1 :])
            if word == "x" and any("^" in side for side in words[place + 1 :]):
                word = "×"
            elif word == "×" and (unit_name(words[-1]) or "").endswith(("meter", "inch", "foot", "pixel")):
                word = "x"
            if word in _DASHES and "^" in words[place - 1]:
                word = "−"
            left, right = ((say_group(side) if side[1:] else None) or " ".join(map(say_word, side)) for side in sides)
            return f"{left} {_BETWEEN[word] if place else SIGNS[word]} {right}".strip()
    if half := _HALF.fullmatch(rest[0]):
        time = _TIME.fullmatch(re.sub(r"\A(\d{1,2})\.([0-5]\d)\Z", r"\1:\2", first))
        if not time:
            return None
        return (f"{say_word(time[1])} to " if time[1] else "") + numbers.clock(time[2], time[3], half[1])
    if numbered := _numbered(first):
        if case := re.fullmatch(r"(\d\d)-(\d{3,5})", rest[0]):  # The hyphen of a case of law is no range.
            return f"{numbered} {numbers.cardinal(case[1])} {numbers.pairs(case[2])}"
        if named := re.fullmatch(r"(\d+)-([a-z]+)", rest[0]):
            return f"{numbered} {numbers.cardinal(named[1])} {named[2]}"
        on = " following" if rest[0][-1] == "f" else ""
        said = rest[0].lstrip("(").rstrip("f")
        return f"{numbered} {say_word(said) if said.count('.') > 1 else quantities(said)}{on}"
    if _PREFIX.fullmatch(first if first[:1] == "+" else f"({first}") and _PHONE_PART.fullmatch(rest[0]):
        return numbers.phone(" ".join(words))
    if rest[0] == "%" and len(rest) == 2:
        return f"{say_word(first)} mod {say_word(rest[1])}"
    if first[0] in "35" and rest[0] == "to" and len(rest) == 2:
        return f"{numbers.cardinal(first[0])} prime to {numbers.cardinal(rest[1][0])} prime"
    if first.isdecimal() and (part := re.fullmatch(r"(\d/\d)(?:-?([a-z]+|%|′′))?", rest[0])):
        unit = part[2] and ("inches" if part[2] == "′′" else unit_name(part[2]) or part[2])
        after = " ".join(word.rstrip(".") for word in rest[1:])
        return say_mixed_number(first, part[1]) + (f" {unit}" if unit else "") + counted(after)
    return _measured(first, rest)


def _sum(amount: str, currency: str, scale: str | None = None) -> str | None:
    """A sum beside its currency, which is a sign or a code: "$ 5", "5 €", "USD 50 million", "$5 CAD"."""
    if currency not in CURRENCY_CODES:
        money = MONEY.fullmatch(currency + amount)
        return say_money(money, scale) if money else None
    amount = amount.lstrip("".join(numbers.CURRENCIES))
    money = MONEY.fullmatch(f"${amount}") if all(re.fullmatch(QUANTITY, one) for one in TO.split(amount)) else None
    return say_money(money, scale, currency) if money else None


def _until(words: Sequence[str]) -> str | None:
    """ "12 p.m.–1 p.m."."""
    if len(words) != 3 or not (until := _UNTIL.fullmatch(words[1])):
        return None
    time, half = _TIME.fullmatch(words[0]), _HALF.fullmatch(words[2])
    if not time or not half:
        return None
    first = numbers.clock(time[2], time[3], until[1])
    return f"{first} to {numbers.clock(until[2], until[3], half[1])}"


def _digits(words: Sequence[str]) -> str | None:
    """ "1 000 000", "0800 123 4567", "4111 1111 1111 1111"; a unit or a word that is counted may follow the first."""
    count = next((i for i, word in enumerate(words) if not word.isdecimal()), len(words))
    if count < 2:
        return None
    text, rest = " ".join(words[:count]), words[count:]
    if count == len(words) - 1 and words[-1][-1] == "#" and words[-1][:-1].isdecimal():  # What is dialled ends so.
        said = _digits([*words[:-1], words[-1][:-1]])
        return f"{said}, pound" if said else None
    if _THOUSANDS.fullmatch(text) and len(rest) < 2:
        whole = text.replace(" ", ",")
        if rest and (rest[0] in CURRENCY_CODES or rest[0] in numbers.CURRENCIES):
            return _sum(whole, rest[0])
        return numbers.cardinal(whole) + (counted(rest[0]) if rest else "")
    if rest:
        return None
    if _CARD.fullmatch(text):
        return ", ".join(numbers.digits(group) for group in text.split(" "))
    return numbers.phone(text) if _SPACED_PHONE.fullmatch(text) else None


def _sides(words: Sequence[str]) -> str | None:
    """Sides with "x" between them, "10 ft x 12 ft", "8.5″ x 11″": each with its unit, a bare one with the first's."""
    sides = [list(side) for by, side in groupby(words, lambda word: word in ("x", "×")) if not by]
    if len(sides) < 2 or not all(len(side) < 3 and side[0][:1].isdecimal() for side in sides) or "^" in "".join(words):
        return None
    units = [len(side) > 1 or not is_number(side[0]) for side in sides]
    if not units[0]:
        return None
    unit = sides[0][1] if len(sides[0]) > 1 else sides[0][0].lstrip("0123456789./-")
    said = [side if has else [side[0], unit] for side, has in zip(sides, units, strict=True)]
    return " by ".join(
        (say_group(side) if len(side) > 1 else None) or say_word("".join(side).replace("'", "′")) for side in said
    )


def _measured(first: str, rest: Sequence[str]) -> str | None:
    """A number with its scale, its unit, its currency."""
    if not is_number(first):
        return None
    if len(rest) == 1 and rest[0] in CURRENCY_CODES:
        return _sum(first, rest[0])
    if len(rest) == 1 and rest[0] in numbers.CURRENCIES and re.fullmatch(QUANTITY, first):
        return _sum(first, rest[0])
    if rest[0].lower().rstrip(".") in SQUARES and len(rest) == 2:
        name = unit_name(f"{rest[0].lower().rstrip('.')} {rest[1].lower().rstrip('.')}")
        return measure(first, name) if name else None
    if rest == ["HP"] and first[0] in "-−+":  # What a game gives and takes are points of health.
        return f"{quantities(first)} H P"
    if rest[0] in DEGREES and len(rest) == 1:
        return measure(first, DEGREES[rest[0]])
    if rest == ["c"]:
        return f"{say_word(first)} cup" if "/" in first else measure(first, "cup")
    if re.fullmatch(r"\d/\d{1,2}", first) and int(first[0]) < int(first[2:]) and unit_name(rest[0].rstrip(".")):
        return f"{say_word(first)} {unit_name(rest[0].rstrip('.'))}" if len(rest) == 1 else None
    if "/" in first or "x" in first or "×" in first or "^" in first:
        return f"{say_word(first)}{counted(rest[0])}" if len(rest) == 1 and unit_name(rest[0]) else None
    scale = SCALES.get(rest[0].lower())
    if money := MONEY.fullmatch(first):
        return say_money(money, scale) if scale else None
    if scale and len(rest[0]) > 1:
        return f"{quantities(first)} {scale}" + counted(rest[1] if len(rest) > 1 else None)
    if rest[0].lower() in ("hrs", "hours") and (time := re.fullmatch(r"(1\d|2[0-3])([0-5]\d)", first)):
        return f"{numbers.cardinal(time[1])} {'hundred' if time[2] == '00' else numbers.pair(time[2])} hours"
    name = unit_name(rest[0].rstrip(".")) if rest[0].rstrip(".").lower() == "in" else unit_name(rest[0])
    return measure(first, name) if name and len(rest) == 1 else None
