"""Written English → spoken English, a few words at a time.

The caller (codec/text/stream.py) hands over a *group*: words that can only be read together ("March 3, 2024", "5 km").
Every word is at most 64 characters and every pattern here is matched against a whole word or group and has no nested
repetition, so time is linear in the text whatever it holds. The rules are written ones over num2words; why not a
grammar library is said in docs/speaking.md.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from codec.text import numbers

MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTH: Final = {name: name for name in MONTHS} | {
    name[:3]: name for name in MONTHS if name != "may"
} | {"sept": "september"}  # fmt: skip
SCALES: Final = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "mn": "million"} | {
    word: word for word in ("hundred", "thousand", "million", "billion", "trillion")
}
UNITS: Final = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "mi": "mile", "ft": "foot", "in": "inch",
    "yd": "yard", "kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound", "lbs": "pound", "oz": "ounce",
    "l": "liter", "ml": "milliliter", "h": "hour", "hr": "hour", "hrs": "hour", "min": "minute", "mins": "minute",
    "s": "second", "sec": "second", "secs": "second", "ms": "millisecond", "hz": "hertz", "khz": "kilohertz",
    "mhz": "megahertz", "ghz": "gigahertz", "w": "watt", "kw": "kilowatt", "kwh": "kilowatt hour", "v": "volt",
    "kb": "kilobyte", "mb": "megabyte", "gb": "gigabyte", "tb": "terabyte", "mph": "mile per hour",
    "kmh": "kilometer per hour", "km/h": "kilometer per hour", "m/s": "meter per second", "°c": "degree celsius",
    "°f": "degree fahrenheit", "°": "degree", "km2": "square kilometer", "m2": "square meter", "m3": "cubic meter",
    "%": "percent",
}  # fmt: skip
_SPACED_UNITS: Final = UNITS.keys() - {"in", "m", "s", "h", "l", "v", "w", "g"}
"""Units after a space: single letters and "in" are more often something else ("5 in the room")."""

ABBREVIATIONS: Final = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor", "st": "saint", "jr": "junior",
    "sr": "senior", "capt": "captain", "col": "colonel", "gen": "general", "sgt": "sergeant", "rev": "reverend",
    "hon": "honorable", "lt": "lieutenant", "gov": "governor", "pres": "president", "vs": "versus", "etc": "et cetera",
    "e.g": "for example", "i.e": "that is", "approx": "approximately", "dept": "department", "est": "established",
    "inc": "incorporated", "ltd": "limited", "corp": "corporation", "co": "company", "fig": "figure", "vol": "volume",
    "no": "number", "ave": "avenue", "blvd": "boulevard", "a.m": "a m", "p.m": "p m", "u.s": "u s", "u.k": "u k",
    "mt": "mount", "ft": "fort", "min": "minute", "max": "maximum", "ph.d": "p h d",
}  # fmt: skip
"""Read so when a full stop follows."""
ROADS: Final = {"st": "street", "dr": "drive"}
"""What two of them mean where no name follows."""
BEFORE_NAMES: Final = frozenset(
    "mr mrs ms dr prof st capt col gen sgt rev hon lt gov pres no fig vol mt e.g i.e vs approx".split()
)
"""After these the stop never ends a sentence."""
SPELLED: Final = frozenset(
    "ai api atm ceo cfo cia cpu diy eeg ekg eta eu ev faq fbi gpu hiv ibm icu iou ip ipo iq irs isbn mit mri nba oecd "
    "rna sos suv uae ucla ufo ui uk un url usa usb usd vip ymca".split()
)
"""Read letter by letter although they have a vowel."""
_LONGEST_SPELLED: Final = 5
"""Letters; longer words in capitals are shouted."""
_SAID: Final = frozenset("brr dr grr hm hmm jr mm mmm mr mrs ms mt pfft psst pst sh shh sr st tsk zzz".split())
"""Read as words although they have no vowel."""
_VOWELS: Final = frozenset("aeiouy")
CLAUSE_WORDS: Final = frozenset("although because but since though unless until when whereas while".split())
"""Almost always the first of a clause. Not "if", "so", "that", "where", "and": too often the middle of one."""
_LEANING: Final = frozenset(
    "a all and any anybody anyone anything as at by cannot each even ever every everybody everyone everything"
    " exactly few for from good great half help if in it's just knew know known knows last least less little"
    " long many mere more most much neither no nobody none nor not nothing of on once one only or other quite"
    " rather remember same say short simply so some such tell than that the then these this those to too up"
    " very was were with worth yet".split()
)
"""Words that belong to what follows, or are one expression with it."""
_MARKS: Final = "\"'“”‘’()[]*_`~.,!?;:…"
SIGNS: Final = {
    "&": "and", "+": "plus", "=": "equals", "@": "at", "%": "percent", "#": "number", "/": "slash", "°": "degrees",
    "<": "less than", ">": "greater than", "~": "about", "×": "times", "÷": "divided by", "€": "euros", "£": "pounds",
    "$": "dollars", "©": "copyright", "™": "trademark",
}  # fmt: skip

_ADDRESS: Final = str.maketrans({
    "@": " at ", ".": " dot ", "/": " slash ", "-": " dash ", "_": " underscore ", ":": " colon ",
    "?": " question mark ", "=": " equals ", "&": " and ", "%": " percent ", "+": " plus ",
})  # fmt: skip
"""Signs of a web or mail address."""

_N: Final = r"\d[\d,]*"
_DAY: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?,?", re.I)
_YEAR: Final = re.compile(r"\d{4}")
_TIME: Final = re.compile(r"(\d{1,2})(?::(\d{2}))?")
_HALF: Final = re.compile(r"([ap])\.?m\.?", re.I)
_NUMBER: Final = re.compile(rf"[-−+]?{_N}(?:\.\d+)?")

Rule = Callable[[re.Match[str]], str]


def _unit(amount: str, unit: str) -> str:
    name = UNITS[unit.lower()]
    said = numbers.quantity(amount)
    if amount.lstrip("-−+") == "1" or name.endswith(("percent", "hertz")):
        return f"{said} {name}"
    first, _, rest = name.partition(" per ")
    first = "feet" if first == "foot" else first + "es" if first == "inch" else first + "s"
    if name.startswith("degree "):
        first = "degrees" + name.removeprefix("degree")
    return f"{said} {first} per {rest}" if rest else f"{said} {first}"


def _counted(unit: str | None) -> str:
    """What stands behind a number of more than one: its unit, or another word."""
    if not unit:
        return ""
    return f" {_unit('2', unit).removeprefix('two ')}" if unit.lower() in UNITS else f" {unit}"


def _date(year: str, month: str, day: str) -> str:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return f"{numbers.cardinal(month)} slash {numbers.cardinal(day)} slash {numbers.digits(year)}"
    full = year if len(year) == 4 else ("19" if int(year) > 50 else "20") + year
    return f"{MONTHS[int(month) - 1]} {numbers.ordinal(str(int(day)))} {numbers.year(full)}"


def _slashed(m: re.Match[str]) -> str:
    first, second, year = m.groups()
    return _date(year, second, first) if int(first) > 12 else _date(year, first, second)


def _address(text: str) -> str:
    """A web or mail address, read by its parts: names, signs and every digit."""
    runs = re.findall(r"\d+|[^\d\s]+", text.translate(_ADDRESS))
    return " ".join(numbers.digits(run) if run[0].isdecimal() else run for run in runs)


def _mixed_number(whole: str, part: str) -> str:
    """``"3", "1/2"`` → three and a half."""
    over, _, under = part.partition("/")
    said = "a half" if (over, under) == ("1", "2") else numbers.fraction(over, under)
    return f"{numbers.cardinal(whole)} and {said}"


def _mixed(m: re.Match[str]) -> str:
    """Letters and digits in turn: "B2B", "mp3"."""
    runs = re.findall(r"\d+|[^\W\d_]+", m.group())
    return " ".join(numbers.cardinal(run) if run[0].isdecimal() else run for run in runs)


_WRITTEN: Final[tuple[tuple[str, Rule], ...]] = (
    (r"(\d{4})-(\d{2})-(\d{2})", lambda m: _date(m[1], m[2], m[3])),
    (r"(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})", _slashed),
    (r"(\d{1,2}):(\d{2})(?::\d{2})?([ap]\.?m\.?)?", lambda m: numbers.clock(m[1], m[2], m[3])),
    (r"(\d{1,2})([ap]\.?m\.?)", lambda m: numbers.clock(m[1], None, m[2])),
    (r"(\d{1,3}):(\d)", lambda m: f"{numbers.cardinal(m[1])} to {numbers.cardinal(m[2])}"),
    (rf"([$€£¥₹])({_N}(?:\.\d+)?)(k|mn?|bn?)?",
     lambda m: numbers.money(m[1], m[2], SCALES.get((m[3] or "").lower()))),
    (rf"({_N}(?:\.\d+)?)([$€£¥₹])", lambda m: numbers.money(m[2], m[1], None)),
    (r"\(?(\d{3})\)?[-.](\d{3})[-.](\d{2})(\d{2})", lambda m: ", ".join(numbers.digits(g) for g in m.groups())),
    (r"(\d{3})-(\d{2})(\d{2})", lambda m: ", ".join(numbers.digits(g) for g in m.groups())),
    (rf"({_N})(st|nd|rd|th)", lambda m: numbers.ordinal(m[1])),
    (r"'?(\d{3}0|\d0)'?s", lambda m: numbers.decade(m[1])),
    (r"24/7", lambda _: "twenty four seven"),
    (r"(\d+)/(\d+)", lambda m: numbers.fraction(m[1], m[2])),
    (r"(\d+)-(\d/\d)(?:-?([a-z°%]+))?", lambda m: _mixed_number(m[1], m[2]) + _counted(m[3])),
    (rf"([-−+]?{_N}(?:\.\d+)?)[×x]10\^([-−+]?\d+)",
     lambda m: f"{numbers.quantity(m[1])} times {numbers.power('ten', m[2])}"),
    (rf"([-−+]?{_N}(?:\.\d+)?|[a-z])\^([-−+]?\d+(?:\.\d+)?)", lambda m: numbers.power(say_word(m[1]), m[2])),
    (rf"({_N}(?:\.\d+)?)[-–—]({_N}(?:\.\d+)?)(%?)",
     lambda m: f"{numbers.plain_number(m[1])} to {numbers.plain_number(m[2])}{' percent' if m[3] else ''}"),
    (rf"([-−+]?{_N}(?:\.\d+)?)([a-z°%/]+[23]?)",
     lambda m: _unit(m[1], m[2]) if m[2].lower() in UNITS else f"{numbers.quantity(m[1])} {_loose(m[2])}"),
    (rf"[-−+]?{_N}(?:\.\d+)?", lambda m: numbers.plain_number(m[0])),
    (r"v?\d+(?:\.\d+){2,}", lambda m: " point ".join(
        numbers.cardinal(p) for p in m[0].lower().removeprefix("v").split("."))),
    (r"#(\d+)", lambda m: f"number {numbers.cardinal(m[1])}"),
    (r"(?:https?://|www\.)\S+", lambda m: _address(m[0].split("://", 1)[-1].removeprefix("www.").rstrip("/"))),
    (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", lambda m: _address(m[0])),
    (r"[a-z0-9-]+\.(?:com|org|net|io|dev|edu|gov|ai)", lambda m: _address(m[0])),
    (r"[a-z]+\d[a-z0-9]*|\d+[a-z][a-z0-9]*", _mixed),
    (r"[a-z]+(?:/[a-z]+)+", lambda m: m[0].replace("/", " ")),
)  # fmt: skip
_RULES: Final = tuple((re.compile(pattern, re.I), rule) for pattern, rule in _WRITTEN)


def month(core: str) -> str | None:
    """The month a word names, whole or shortened; "may" and "march" need a capital: they are verbs too."""
    found = _MONTH.get(core.lower())
    return None if found in ("may", "march") and core[:1].islower() else found


def is_number(core: str) -> bool:
    """Whether a word is a number that a unit or a scale may follow."""
    return _NUMBER.fullmatch(core[1:] if core[:1] in numbers.CURRENCIES else core) is not None


def binds(before: Sequence[str], word: str) -> bool:
    """Whether ``word`` (as written) can only be read together with the words ``before`` it."""
    last = before[-1]
    core = word.rstrip(".,!?;:)\"'”’")
    if any(month(w.rstrip(".")) for w in before):
        year = _YEAR.fullmatch(core) is not None
        return _open_date(before) and (year or (len(before) == 1 and _DAY.fullmatch(core) is not None))
    if is_number(last) or (re.fullmatch(r"\d{1,2}:\d{2}", last) is not None):
        low = core.lower()
        return (
            low in _SPACED_UNITS
            or (low in SCALES and len(low) > 1)
            or _HALF.fullmatch(low) is not None
            or bool(_DAY.fullmatch(last) and month(core))
            or bool(last.isdecimal() and re.fullmatch(r"\d/\d", core))
        )
    if last.lower() in SCALES:
        return len(before) > 1 and core.lower() in _SPACED_UNITS
    return bool(re.fullmatch(r"no\.", last, re.I)) and core.isdecimal()  # "❶" is a digit, but no number


def _open_date(words: Sequence[str]) -> bool:
    """Whether a year, or after a lone month a day, may follow."""
    return bool(len(words) < 3 and (month(words[-1].rstrip(".")) or _DAY.fullmatch(words[-1])))


def may_bind(group: Sequence[str]) -> bool:
    """Whether some next word could bind to ``group``: if not, it can be spoken now."""
    last = group[-1]
    if any(month(w.rstrip(".")) for w in group):
        return _open_date(group)
    return (
        is_number(last)
        or re.fullmatch(r"\d{1,2}:\d{2}", last) is not None
        or (len(group) > 1 and last.lower() in SCALES)
        or re.fullmatch(r"no\.", last, re.I) is not None
    )


def say_group(words: Sequence[str]) -> str | None:
    """Several words that are read as one expression (without closing marks); None where they are not one."""
    first, rest = words[0], words[1:]
    named = month(first.rstrip("."))
    if named and rest:
        day = _DAY.fullmatch(rest[0])
        if _YEAR.fullmatch(rest[0]):
            return f"{named} {numbers.year(rest[0])}"
        year = f", {numbers.year(rest[1])}" if len(rest) > 1 else ""
        return f"{named} {numbers.ordinal(day[1])}{year}" if day else None
    if rest and (named := month(rest[0].rstrip("."))) and (day := _DAY.fullmatch(first)):
        year = f", {numbers.year(rest[1])}" if len(rest) > 1 else ""
        return f"the {numbers.ordinal(day[1])} of {named}{year}"
    if rest and (half := _HALF.fullmatch(rest[0])):
        time = _TIME.fullmatch(first)
        return numbers.clock(time[1], time[2], half[1]) if time else None
    if first.lower() == "no." and rest:
        return f"number {numbers.cardinal(rest[0])}"
    if rest and first.isdecimal() and re.fullmatch(r"\d/\d", rest[0]):
        return _mixed_number(first, rest[0])
    if is_number(first) and rest:
        scale = SCALES.get(rest[0].lower())
        if first[0] in numbers.CURRENCIES:
            return numbers.money(first[0], first[1:], scale) if scale else None
        if scale:
            said = f"{numbers.quantity(first)} {scale}"
            return said + _counted(rest[1] if len(rest) > 1 else None)
        return _unit(first, rest[0])
    return None


def say_word(core: str) -> str:
    """One word without the marks around it."""
    if not core or core.isalpha():
        return core
    for pattern, rule in _RULES:
        if match := pattern.fullmatch(core):
            return rule(match)
    if core in SIGNS:
        return SIGNS[core]
    return _loose(core)


def _loose(core: str) -> str:
    """What no rule knows: digits as numbers, signs as words, the rest as it stands."""
    parts: list[str] = []
    for run in re.findall(r"\d+|[^\d]+", core):
        if run[0].isdecimal():
            parts.append(f" {numbers.cardinal(run)} ")
        else:
            parts.append("".join(f" {SIGNS[c]} " if c in SIGNS else c for c in run))
    return " ".join("".join(parts).split())


def spelled(core: str) -> str:
    """``core``, a word without marks, with spaces between its letters if it is read by them; "'s" may follow.

    A model that knows small letters only would try to say "bbc" as a word. Letters are what is written in capitals and
    either has no vowel or is known to be spelled; whatever is shouted has vowels.
    """
    stem = core[:-2] if core[-2:] in ("'s", "’s") else core
    if not (2 <= len(stem) <= _LONGEST_SPELLED and stem.isascii() and stem.isalpha() and stem.isupper()):
        return core
    low = stem.lower()
    letters = low in SPELLED or (_VOWELS.isdisjoint(low) and low not in _SAID)
    return " ".join(stem) + core[len(stem) :] if letters else core


def begins_clause(before: str, word: str) -> bool:
    """Whether a reader may pause between two words as they were written, though no mark stands there.

    A small model skips words in a long piece, and sentences without commas are long pieces; at such a word they fall
    into two that can be said alone. The word before must not lean on it ("a while", "even though", "nothing but"). Only
    these two words are looked at, so text need not wait for what follows. A word that carries a mark begins nothing:
    what would follow is the mark's.
    """
    last = before.strip(_MARKS).lower()
    return word.lower() in CLAUSE_WORDS and bool(last) and last not in _LEANING and last not in CLAUSE_WORDS
