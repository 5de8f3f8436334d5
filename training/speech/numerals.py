"""Numbers in running text are brought into one style: words up to one hundred, digits beyond and where people use them.

`numerals(text)` takes words and digits as they are found. Ordinals are words up to twentieth; clock times, days of
months, years, money, percentages, technical units and labelled numbers are digits. Several numbers in a row of words
become "#", by which the line is refused, because nobody can tell whether they are a time, a year or a code.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import num2words as _num2words

from codec.text import units, vocabulary

_library: Any = _num2words  # The library has no types.
LABELS: Final = (
    "Room|Gate|Flight|Highway|Route|Platform|Channel|Terminal|Apartment|Suite|Interstate|Unit|Page|Chapter|Version|Level|"
    "page|chapter|version|channel|platform|extension"
)
"""Words after which a number is a name, which is written in digits."""
ROADS: Final = "Street|Avenue|Road|Lane|Drive|Boulevard|Court|Place|Way|Terrace|Square|Parkway"
"""Words that end an address, whose number is written in digits too."""
MONTHS: Final = "|".join(month.capitalize() for month in vocabulary.MONTHS)
UNITS: Final = {
    short: name
    for short in "km kg cm mm mg ml GB MB TB GHz MHz mph kWh".split()
    if (name := units.unit_name(short)) is not None
}


def in_words(number: int, to: str = "cardinal") -> str:
    """Give a number in words: twenty-one. to: "ordinal" and "ordinal_num" are possible too."""
    text: str = _library.num2words(number, to=to)
    return text.replace(",", "")


_TENS = [in_words(number) for number in range(20, 100, 10)]
_ORDINALS = [in_words(number, "ordinal") for number in range(1, 21)]
_VALUES = {in_words(number): number for number in (*range(20), *range(20, 100, 10))}
_HOURS = [in_words(number) for number in range(1, 13)]
_SHORT_MONTHS = {month[:3]: month for month in MONTHS.split("|")} | {"Sept": "September"}
_UNIT_NAMES = {
    name: short for short, long in UNITS.items() for name in (long, long + "s", long.replace("mile ", "miles "))
}
_WORD = "|".join([*_VALUES, "hundred", "thousand"])
_PAIR = rf"(?:{_WORD})(?:-(?:{_WORD}))?"
_WORDS = rf"(?<![\w'-])(?:{_WORD})(?:(?:[ -]|(?<=hundred) and |(?<=thousand) and )(?:{_WORD}))*"
_EXPRESSION = re.compile(rf"{_WORDS}(?![\w'])", re.I)
_FIGURES = re.compile(rf"(?<![\d$£€.,:%-])\b\d+(?:,\d{{3}})*\b(?![\d:%]|[.,]\d| (?:{'|'.join(UNITS)})\b)")
_IN_A_MONTH = re.compile(rf"\b(?:{MONTHS}) $")
_LABELLED = re.compile(rf"\b(?:{LABELS}) $")
_ON_A_ROAD = re.compile(rf" (?:\w+ )?[A-Z]\w+ (?:{ROADS})\b")


def short_ordinal(number: int) -> str:
    """Give 1st, 12th, 23rd."""
    return in_words(number, "ordinal_num")


def ordinal(number: int) -> str:
    """Give twelfth, twentieth, 21st."""
    return _ORDINALS[number - 1] if number <= 20 else short_ordinal(number)


def integer(number: int) -> str:
    """Give words up to one hundred, then digits with commas: 1,204."""
    return in_words(number) if number <= 100 else f"{number:,}"


def _groups(words: list[str]) -> Iterator[int]:
    """Give the numbers of a row of words as a person says them; "nineteen forty five" gives 19 and 45."""
    # A number below `room` may still be added.
    total, current, room, begun = 0, 0, 100, False
    for word in words:
        if word in _VALUES:
            value = _VALUES[word]
            if begun and not 0 < value < room:
                yield total + current
                total, current = 0, 0
            current += value
            room = 10 if value >= 20 else 0
        elif word == "hundred":
            current, room = max(current, 1) * 100, 100
        else:
            total, current, room = total + max(current, 1) * 1000, 0, 1000
        begun = True
    if begun:
        yield total + current


def _spoken(m: re.Match[str]) -> str:
    """Write one expression of number words in the style; "#" where nobody can tell what it is."""
    text = m[0]
    words = [word for word in re.split(r"[ -]", text.lower()) if word != "and"]
    if words[0] in ("hundred", "thousand"):
        return text  # It is "a hundred" or "several thousand".
    values = list(_groups(words))
    if len(values) == 1:
        shown = integer(values[0])
        return shown[0].upper() + shown[1:] if text[0].isupper() else shown
    return text if len(values) < 5 and all(value < 10 for value in values) else "#"


def _figures(m: re.Match[str]) -> str:
    number = int(m[0].replace(",", ""))
    kept = number > 100 and "," not in m[0]  # The number is a year or a code.
    if kept or _LABELLED.search(m.string, 0, m.start()) or _ON_A_ROAD.match(m.string, m.end()):
        return m[0]
    return integer(number)


def _ordinal(m: re.Match[str]) -> str:
    return m[0] if _IN_A_MONTH.search(m.string, 0, m.start()) else ordinal(int(m[1]))


def _digits(text: str) -> str:
    """Give digits, or one number in words, as digits."""
    return text if text[0].isdigit() else f"{sum(_groups(re.split('(?: and)?[ -]', text.lower()))):,}"


def _counted(m: re.Match[str], after: str, before: str = "") -> str:
    """Write what is counted with its sign; "a hundred percent" stays as it is."""
    return m[0] if m[1].lower().startswith(("hundred", "thousand")) else f"{before}{_digits(m[1])}{after}"


Rule = tuple[str, Callable[[re.Match[str]], str]]
_DATES_AND_TIMES: Final[tuple[Rule, ...]] = (
    (r"(\d{1,2}):(\d\d) ?([AaPp])\.?[Mm]\b\.?", lambda m: f"{int(m[1])}:{m[2]} {m[3].lower()}.m."),
    (r"(?<![:\d])(\d{1,2}) ?([AaPp])\.?[Mm]\b\.?", lambda m: f"{m[1]}:00 {m[2].lower()}.m."),
    (rf"(?i)\b({'|'.join(_HOURS)})(?= [ap]\.m\.)", lambda m: f"{_VALUES[m[1].lower()]}:00"),
    (r"\b(Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.? (?=\d)", lambda m: f"{_SHORT_MONTHS[m[1]]} "),
    (rf"\b(?:[Tt]he )?(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({MONTHS})\b,?", lambda m: f"{m[2]} {m[1]}"),
    (rf"\b({MONTHS}) (?:the )?(\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)", lambda m: f"{m[1]} {short_ordinal(int(m[2]))}"),
    (
        rf"\b({MONTHS}) (?:the )?({'|'.join(_ORDINALS)})\b",
        lambda m: f"{m[1]} {short_ordinal(_ORDINALS.index(m[2]) + 1)}",
    ),
    (rf"({MONTHS}) (\d+(?:st|nd|rd|th)),? (\d{{4}})", lambda m: f"{m[1]} {m[2]}, {m[3]}"),
)
_QUANTITIES: Final[tuple[Rule, ...]] = (
    (r"\b([1-9]\d?)(?:st|nd|rd|th)\b", _ordinal),
    (r"(?<![\d$.,:#])(\d\d00|\d{5,9})(?= [a-z]+s\b)", lambda m: f"{int(m[1]):,}"),
    (r"(?<![\d$.,:#])(\d{4})(?= (?:people|men|women|years|miles|feet|tons)\b)", lambda m: f"{int(m[1]):,}"),
    (rf"(?i)(\d[\d,.]*|{_WORDS}) ({'|'.join(_UNIT_NAMES)})\b", lambda m: _counted(m, f" {_UNIT_NAMES[m[2].lower()]}")),
    (rf"(\d)({'|'.join(UNITS)})\b", lambda m: f"{m[1]} {m[2]}"),
    (rf"(?i)(\d[\d,.]*|{_WORDS}) percent\b", lambda m: _counted(m, "%")),
    (r"(?i)\bone dollar\b", lambda _: "$1"),
    (rf"(?i)(\d[\d,.]*|{_WORDS})( million| billion)? dollars\b", lambda m: _counted(m, m[2] or "", "$")),
    (rf"(\$\d[\d,]*) and ({_PAIR}) cents?\b", lambda m: f"{m[1]}.{int(_digits(m[2])):02}"),
)
_AFTERWARDS: Final[tuple[Rule, ...]] = (
    (rf"\b((?:{LABELS}) )({_PAIR})\b", lambda m: m[1] + _digits(m[2])),
    (
        rf"\b({'|'.join(_TENS)})-({'|'.join(_ORDINALS[:9])})\b",
        lambda m: ordinal(_VALUES[m[1]] + _ORDINALS.index(m[2]) + 1),
    ),
)
_FIRST, _LAST = (
    tuple((re.compile(pattern), rule) for pattern, rule in rules)
    for rules in (_DATES_AND_TIMES + _QUANTITIES, _AFTERWARDS)
)


def numerals(text: str) -> str:
    """Give `text` with its numbers in the style; "#" stands for what nobody can tell."""
    for pattern, rule in _FIRST:
        text = pattern.sub(rule, text)
    text = _EXPRESSION.sub(_spoken, _FIGURES.sub(_figures, text))
    for pattern, rule in _LAST:
        text = pattern.sub(rule, text)
    return text


def figures(text: str) -> str:
    """Give `text` with each number in words as digits, as recognisers write it; several numbers in a row stay."""

    def shown(m: re.Match[str]) -> str:
        values = list(_groups([word for word in re.split(r"[ -]", m[0].lower()) if word != "and"]))
        return f"{values[0]:,}" if len(values) == 1 else m[0]

    return _EXPRESSION.sub(shown, text)
