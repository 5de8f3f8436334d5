"""How a line is said: as the runtime reads it (codec/text), with numbers that are names as people say them and letters
by their names.

Contract: `said(written)` for text in the one style of `training.speech.written`. What comes back has no digit, keeps
`. , ? !`, apostrophes and hyphens, and names letters as English speakers do ("bee", "double-you").
"""

import re
from collections.abc import Callable
from typing import Final

from codec.text import english, numbers
from codec.text.stream import spoken_text
from engines.manifest import TextRules

LETTERS: Final = dict(
    zip(  # one word a letter, so that words written and said are as many
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (
            "ay bee see dee ee eff gee aitch eye jay kay ell em en oh pee cue ar ess tee you vee double-you ex why zee"
        ).split(),
        strict=True,
    )
)
SPELLED: Final = frozenset("US DNA ID ABC NYU TSA LED".split())
"""Read by their letters too, as nothing is shouted here."""
LABELS: Final = (
    "Room|Gate|Flight|Highway|Route|Platform|Channel|Terminal|Apartment|Suite|Interstate|Unit|Page|Chapter|Version|Level|"
    "page|chapter|version|channel|platform|extension"
)
"""After these a number is a name, in digits."""
TENS: Final = [numbers.cardinal(str(n)) for n in range(20, 100, 10)]
UNITS: Final = [say(str(n)) for n in range(1, 10) for say in (numbers.cardinal, numbers.ordinal)]
ROADS: Final = "Street|Avenue|Road|Lane|Drive|Boulevard|Court|Place|Way|Terrace|Square|Parkway"


def _pairs(text: str) -> str:
    """House, room, flight and road numbers as they are said: 214 → two fourteen, 1247 → twelve forty seven."""
    if len(text) < 3 or text.endswith("00"):
        return numbers.cardinal(text) if len(text) < 3 or text[-3] != "0" else numbers.digits(text)
    high, low = text[:-2], text[-2:]
    return f"{numbers.cardinal(high)} {'oh ' if low[0] == '0' else ''}{numbers.cardinal(str(int(low)))}"


def spelled(word: str) -> str:
    """A word in capitals as the names of its letters, if it is read by them."""
    letters = " ".join(word) if word in SPELLED else english.spelled(word)
    return word if letters == word else _named(letters)


def _named(letters: str) -> str:
    return " ".join(LETTERS[letter] for letter in letters.upper().split())


Rules = tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]
_BEFORE: Final[Rules] = (
    (re.compile(rf"\b(\d{{1,4}})(?= (?:[NSEW]\w+ )?[A-Z]\w+ (?:{ROADS})\b)"), lambda m: _pairs(m[1])),
    (re.compile(rf"\b((?:{LABELS}) )(\d{{1,4}})\b(?![.,]\d)"), lambda m: m[1] + _pairs(m[2])),
    (re.compile(r"(?<![\d$£€.,:-])\d{5,}(?![\d,.]\d)"), lambda m: numbers.digits(m[0])),
    (re.compile(r"(?<![\d$£€.,:-])200([1-9])(?![\d:]|[.,-]\d)"), lambda m: f"two thousand {numbers.cardinal(m[1])}"),
    (re.compile(r"(?<![\w'-])([A-Z](?: [A-Z])+)(?![\w'-])"), lambda m: _named(m[1])),
    (re.compile(r"(?<![\w'-])(?<!\d )([A-Z]{2,5})(?=(?:'s|s)?(?![\w'-]))"), lambda m: spelled(m[1])),
    (re.compile(r"(?:(?<=[Pp]lan )|(?<=amin )|(?<=etter ))([A-Z])(?![\w'])"), lambda m: _named(m[1])),
)
_AFTER: Final[Rules] = (
    (re.compile(r"\b([ap] m)\b"), lambda m: _named(m[1])),
    (re.compile(rf"\b({'|'.join(TENS)}) (?=(?:{'|'.join(UNITS)})\b)"), lambda m: m[1] + "-"),
)


def said(written: str) -> str:
    """The words to pronounce, with the line's marks; `written` is not empty."""
    for pattern, rule in _BEFORE:
        written = pattern.sub(rule, written)
    spoken = spoken_text(written, TextRules(), english=True)
    for pattern, rule in _AFTER:
        spoken = pattern.sub(rule, spoken)
    return spoken[:1].upper() + spoken[1:]
