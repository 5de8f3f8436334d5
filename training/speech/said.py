"""How a line is said: numbers, dates, money, units, titles, abbreviations and letters as plain English words.

Contract: `said(written)` for text in the one style of `training.speech.written`. What comes back has no digit, keeps
`. , ? !`, apostrophes and hyphens, and names letters as English speakers do ("bee", "double you").
"""

import re
from collections.abc import Callable
from typing import Any, Final

import num2words as _num2words

_library: Any = _num2words  # ships no types

LETTERS: Final = dict(
    zip(  # one word a letter, so that words written and said are as many
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (
            "ay bee see dee ee eff gee aitch eye jay kay ell em en oh pee cue ar ess tee you vee double-you ex why zee"
        ).split(),
        strict=True,
    )
)
UNITS: Final = {
    "km": "kilometer", "kg": "kilogram", "cm": "centimeter", "mm": "millimeter", "mg": "milligram",
    "ml": "milliliter", "GB": "gigabyte", "MB": "megabyte", "TB": "terabyte", "GHz": "gigahertz", "MHz": "megahertz",
    "mph": "mile per hour", "kWh": "kilowatt hour",
}  # fmt: skip
TITLES: Final = {"Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miz", "Dr.": "Doctor", "St.": "Saint", "Jr.": "Junior"}
SPELLED: Final = frozenset(
    "ai api atm ceo cfo cia eu fbi gpu hiv icu id ip iq irs nba oecd pc qr rna sms suv tv uae ui uk un url us usa usb "
    "vip ymca dna cd dvd bbc cnn mri gps html http pdf phd nfl nhl mlb nyc pm dj wwe bmw hr fm lcd led cpu dc tsa nyu "
    "mit mtv abc nbc cbs".split()
)
MONTHS: Final = "January|February|March|April|May|June|July|August|September|October|November|December"
LABELS: Final = (
    "Room|Gate|Flight|Highway|Route|Platform|Channel|Terminal|Apartment|Suite|Interstate|Unit|Page|Chapter|Version|Level|"
    "page|chapter|version|channel|platform|extension"
)
"""After these a number is a name, in digits."""
ROADS: Final = "Street|Avenue|Road|Lane|Drive|Boulevard|Court|Place|Way|Terrace|Square|Parkway"


def in_words(number: int | str, to: str = "cardinal") -> str:
    """A number in words: 21 and "21" → twenty-one; to: "ordinal", "ordinal_num", "year" too."""
    text: str = _library.num2words(int(str(number).replace(",", "")), to=to)
    return text.replace(",", "")


def digits(text: str) -> str:
    """Every digit by its name, zero as "oh" where it stands between others of a telephone number or code."""
    return " ".join(in_words(c) for c in text if c.isdigit())


def number(text: str) -> str:
    """ "1,204" → one thousand two hundred and four; "3.5" → three point five; "48213", no comma → digit by digit."""
    whole, _, part = text.partition(".")
    if part:
        return f"{in_words(whole)} point {digits(part)}"
    plain = whole.replace(",", "")
    if len(plain) > 4 and "," not in whole or (len(plain) > 1 and plain[0] == "0"):
        return digits(plain)
    if len(plain) == 4 and "," not in whole and 1100 <= int(plain) < 2100:
        return year(plain)
    return in_words(plain)


def year(text: str) -> str:
    """ "1984" → nineteen eighty-four; "1905" → nineteen oh five; "2007" → two thousand seven."""
    return in_words(text, "year").replace("oh-", "oh ").replace("thousand and", "thousand")


def _pairs(text: str) -> str:
    """House, room, flight and road numbers as they are said: 214 → two fourteen, 1247 → twelve forty-seven."""
    if len(text) < 3 or text.endswith("00"):
        return in_words(text) if len(text) < 3 or text[-3] != "0" else digits(text)
    high, low = text[:-2], text[-2:]
    return f"{in_words(high)} {'oh ' if low[0] == '0' else ''}{in_words(low)}"


def _money(m: re.Match[str]) -> str:
    sign, amount, cents, scale = m[1], m[2], m[3], m[4] or ""
    one, many = {"$": ("dollar", "dollars"), "£": ("pound", "pounds"), "€": ("euro", "euros")}[sign]
    if scale:
        return f"{number(amount + ('.' + cents if cents else ''))}{scale} {many}"
    whole = "" if amount == "0" and cents else f"{in_words(amount)} {one if amount == '1' else many}"
    if not cents or cents == "00":
        return whole
    small = "pence" if sign == "£" else "cent" if cents == "01" else "cents"
    part = f"{in_words(cents)} {small}"
    return f"{whole} and {part}" if whole else part


def _clock(m: re.Match[str]) -> str:
    hour, minute = in_words(m[1]), m[2]
    if minute == "00":
        return hour if m[3] else f"{hour} o'clock"
    return f"{hour} {'oh ' if minute[0] == '0' else ''}{in_words(minute)}"


def _unit(m: re.Match[str]) -> str:
    name = UNITS[m[2]]
    if m[1] != "1" and not name.endswith("hertz"):
        first, per, rest = name.partition(" per ")
        name = first + "s" + per + rest
    return f"{number(m[1])} {name}"


def _decade(m: re.Match[str]) -> str:
    text = in_words(m[1], "year") if len(m[1]) == 4 else in_words(m[1])
    return text[:-1] + "ies" if text.endswith("y") else text + "s"


def _letters(m: re.Match[str]) -> str:
    text = m[1].replace(" ", "")
    if " " not in m[1] and len(text) > 1 and text.lower() not in SPELLED and any(c in "AEIOUY" for c in text):
        return m[0]
    return " ".join(LETTERS[c] for c in text) + (m[2] or "")


_N = r"\d{1,3}(?:,\d{3})+|\d+"
_RULES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (r"(?<![\w.])(?:Mr|Mrs|Ms|Dr|St|Jr)\.", lambda m: TITLES[m[0]]),
        (r"\b[Vv]s\b", lambda _: "versus"),
        (r"\b([ap])\.m\.", lambda m: "ay em" if m[1] == "a" else "pee em"),
        (rf"([$£€])({_N})(?:\.(\d\d?))?( million| billion| thousand| trillion)?(?![\w])", _money),
        (r"\b(\d{1,2}):(\d\d)\b(?=( ay em| pee em)?)", _clock),
        (rf"\b({MONTHS}) (\d{{1,2}})(?:st|nd|rd|th)\b", lambda m: f"{m[1]} {in_words(m[2], 'ordinal')}"),
        (r"\b(\d+)(?:st|nd|rd|th)\b", lambda m: in_words(m[1], "ordinal")),
        (r"\b(\d{3}0|\d0)s\b", _decade),
        (rf"({_N})(\.\d+)?%", lambda m: f"{number(m[1] + (m[2] or ''))} percent"),
        (r"\b(\d{3})-(\d{3})-(\d{4})\b", lambda m: ", ".join(digits(g) for g in m.groups())),
        (r"\b(\d{3})-(\d{4})\b", lambda m: ", ".join(digits(g) for g in m.groups())),
        (rf"((?:{_N})(?:\.\d+)?) ({'|'.join(UNITS)})\b", _unit),
        (rf"\b(\d{{1,4}})(?= (?:[NSEW]\w+ )?[A-Z]\w+ (?:{ROADS})\b)", lambda m: _pairs(m[1])),
        (rf"\b((?:{LABELS}) )(\d{{1,4}})\b(?![.,]\d)", lambda m: m[1] + _pairs(m[2])),
        (rf"(?:{_N})(?:\.\d+)?", lambda m: number(m[0])),
        (r"(?<![\w'-])([A-Z](?: [A-Z])+)()(?![\w'-])", _letters),
        (r"(?<![\w'-])([A-Z]{2,5})('s|s)?(?![\w'-])", _letters),
        (r"(?:(?<=[Pp]lan )|(?<=amin )|(?<=etter ))([A-Z])()(?![\w'])", _letters),
    )
)  # fmt: skip


def said(written: str) -> str:
    """The words to pronounce, with the line's marks; `written` is not empty."""
    end = "." if written.endswith((" a.m.", " p.m.")) else ""
    for pattern, rule in _RULES:
        written = pattern.sub(rule, written)
    return written[0].upper() + written[1:] + end
