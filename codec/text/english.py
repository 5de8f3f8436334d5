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
from codec.text.vocabulary import (
    ABBREVIATIONS,
    CLAUSE_WORDS,
    CLOSING,
    DAYS,
    GLUED_SCALES,
    LEANING,
    MARKS,
    MONTH,
    MONTHS,
    OPENING,
    PARTS,
    ROMAN,
    RULERS,
    SAID,
    SCALES,
    SIGNS,
    SPACED_LETTERS,
    SPELLED,
    UNITS,
)

_LONGEST_SPELLED: Final = 5
"""Letters; longer words in capitals are shouted."""
_VOWELS: Final = frozenset("aeiouy")
_SIGNS: Final = re.compile("|".join(re.escape(sign) for sign in sorted(SIGNS, key=len, reverse=True)))
_BETWEEN: Final = {
    "*": "times", "**": "to the", "^": "to the", "<": "less than", ">": "greater than", "-": "to", "–": "to", "—": "to",
    "~": "to", ":": "to", ".": "point", ",": ",", "=": "equals", "−": "minus", "×": "times", "÷": "divided by",
    "x": "by", "/": "slash",
}  # fmt: skip
"""What signs mean between two amounts; elsewhere most of them are markup."""
_DASHES: Final = frozenset("-–")
"""Between two amounts, spaces around them or not, these are a range."""
_OPERATORS: Final = frozenset("*<>~=-–/x")
"""Those that stand alone between two numbers."""
_EQUATION: Final = {"-": "−", "–": "−", "x": "×", "/": "÷"}
"""What some of them are where an equals sign stands too."""
_ALONE: Final = frozenset("<>~")
"""Those that are read before a number with none before them."""
_NO_WORDS: Final = str.maketrans("_()[]{}", " " * 7, "*`")
"""Signs inside a word that are not read."""

_ADDRESS: Final = str.maketrans({
    "@": " at ", ".": " dot ", "/": " slash ", "-": " dash ", "_": " underscore ", ":": " colon ",
    "?": " question mark ", "=": " equals ", "&": " and ", "%": " percent ", "+": " plus ",
    "~": " tilde ", "#": " hash ",
})  # fmt: skip
"""Signs of a web or mail address."""

_N: Final = r"(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}|\d+)"
"""Commas part thousands, in India lakhs; any others are those of a list."""
_Q: Final = rf"(?:{_N}(?:\.\d+)?|\.\d+)"
_SIGN: Final = "[-−+±]?"
_CURRENCY: Final = f"[{''.join(numbers.CURRENCIES)}]"
_LAND: Final = re.compile(r"[A-Z]{1,3}\$")
"""Whose dollars they are: "US$"."""
_TO: Final = "[-–—~]"
_DAY: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?(?:[-–](\d{1,2})(?:st|nd|rd|th)?)?,?", re.I)
_YEAR: Final = re.compile(r"\d{4}")
_TIME: Final = re.compile(rf"(?:(\d{{1,2}}(?::\d{{2}})?){_TO})?(\d{{1,2}})(?::(\d{{2}}))?")
_HALF: Final = re.compile(r"([ap])\.?m\.?", re.I)
_NUMBER: Final = re.compile(rf"{_SIGN}{_Q}(?:{_TO}{_Q})?")
_MONEY: Final = re.compile(
    rf"({_SIGN})(?:([a-z]{{1,2}})(?=\$))?{_CURRENCY}*({_CURRENCY})({_SIGN})"
    rf"(?:({_Q}){_TO}{_CURRENCY}?)?({_Q})(k|mn?|bn?|tn?)?",
    re.I,
)
_AMOUNT: Final = re.compile(
    rf"(?:(?<![\w%°)¢{''.join(numbers.CURRENCIES)}])[-−+±])?(?:"
    r"(?<![\d.,/])(?:\d+/\d+(?![\d/])|\d{1,2}(?::\d{2}){1,2}(?![\d:])(?:[ap]\.?m)?)"
    rf"|(?:{_CURRENCY}+(?:{_Q}{_TO})?|(?<!\w)(?=\.)|(?=\d)){_Q}(?:[a-zμ°%¢]+[23]?)?)",
    re.I,
)
"""What :func:`_loose` looks for: a number with the sign before it and the unit after it."""
_PHONE: Final = r"\+?\(?\d+\)?(?:-\d+){2,}|\(?\d{3}\)?[-.]\d{3}[-.]\d{4}|\d{3}-\d{4}|1-\d{3}-[a-z-]+"
_NUMBERED: Final = {
    "no.": "number", "nos.": "numbers", "p.": "page", "pp.": "pages", "ch.": "chapter", "sec.": "section",
}  # fmt: skip
"""Read so before a number only."""
_PREFIX: Final = re.compile(r"\+\d{1,3}|\(\d{3}\)")
_GROUP: Final = re.compile(r"\(?\d[\d)-]*")
"""First word of a phone number that is written in several, and the others."""

_COUNTED: Final = re.compile(rf"{_N}(?:\.\d+)?(?:{_TO}{_N})?")
_NAMED: Final = "|".join(sorted({*DAYS, *MONTH}, key=len, reverse=True))
"""Days and months, whole or shortened."""

_SINGULAR: Final = {
    **{many: one for one, many, *_ in numbers.CURRENCIES.values()},
    **{f"{name}s": name for name in UNITS.values() if name.isalpha()},
    "feet": "foot", "inches": "inch",
}  # fmt: skip
"""Plurals of what is counted."""

Rule = Callable[[re.Match[str]], str]


def _unit_name(unit: str) -> str | None:
    return UNITS.get(unit) or (UNITS.get(unit.lower()) if len(unit) > 1 else None)


def _spaced_unit(word: str) -> bool:
    """Whether a word is a unit: single letters and "in" are more often something else ("5 in the room")."""
    letter = len(word) == 1 and word.isalpha() and word not in SPACED_LETTERS
    return not letter and word.lower() != "in" and _unit_name(word) is not None


def _quantities(text: str) -> str:
    """A number, or two that a range is between."""
    return " to ".join(numbers.quantity(part) for part in re.split(rf"(?<=\d){_TO}", text))


def _unit(amount: str, name: str) -> str:
    said = _quantities(amount)
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
    name = _unit_name(unit)
    return f" {_unit('2', name).removeprefix('two ')}" if name else f" {unit}"


def _suffixed(m: re.Match[str]) -> str:
    """``"5kg"``, ``"1M"``, ``"10x"``."""
    if name := _unit_name(m[2]):
        return _unit(m[1], name)
    return f"{numbers.quantity(m[1])} {SCALES[m[2].lower()] if m[2] in GLUED_SCALES else _loose(m[2])}"


def _money(m: re.Match[str], scale: str | None = None) -> str:
    """``"-$5"``, ``"$5–$10"``, ``"US$3bn"``; a scale may stand in the next word."""
    minus, land, sign, inner, low, high, short = m.groups()
    said = numbers.money(sign, high, scale or SCALES.get((short or "").lower()))
    if land:
        said = said.replace(" dollar", f" {' '.join(land)} dollar")
    return numbers.sign(minus or inner) + (f"{numbers.quantity(low)} to {said}" if low else said)


def _date(year: str, month: str, day: str) -> str:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return f"{numbers.cardinal(month)} slash {numbers.cardinal(day)} slash {numbers.digits(year)}"
    full = year if len(year) == 4 else ("19" if int(year) > 50 else "20") + year
    return f"{MONTHS[int(month) - 1]} {numbers.ordinal(str(int(day)))} {numbers.year(full)}"


def _days(m: re.Match[str]) -> str:
    return " to ".join(numbers.ordinal(day) for day in m.groups() if day)


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


def _shortened(word: str) -> str:
    """Before the stop that a number stands right after."""
    return _NUMBERED.get(f"{word.lower()}.") or ABBREVIATIONS.get(word.lower(), word)


def _named(text: str) -> str:
    return DAYS.get(text.lower()) or MONTH[text.lower()]


def _mixed(m: re.Match[str]) -> str:
    """Letters and digits in turn: "B2B", "mp3"."""
    runs = re.findall(r"\d+|[^\W\d_]+", m.group())
    return " ".join(numbers.cardinal(run) if run[0].isdecimal() else run for run in runs)


_WRITTEN: Final[tuple[tuple[str, Rule], ...]] = (
    (r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})", lambda m: _date(m[1], m[2], m[3])),
    (r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?Z?", lambda m: f"{say_word(m[1])}, {say_word(m[2])}"),
    (r"(\d{1,2})\.(\d{1,2})\.(\d{4})", lambda m: _date(m[3], *((m[2], m[1]) if int(m[2]) < 13 else (m[1], m[2])))),
    (r"(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})", _slashed),
    (r"(\d{1,2}):(\d{2})(?::(\d{2}))?([ap]\.?m\.?)?", lambda m: numbers.clock(m[1], m[2], m[4], m[3])),
    (r"(\d{1,2})([ap]\.?m\.?)", lambda m: numbers.clock(m[1], None, m[2])),
    (r"(\d{1,3}):(\d)", lambda m: f"{numbers.cardinal(m[1])} to {numbers.cardinal(m[2])}"),
    (_MONEY.pattern, _money),
    (rf"({_SIGN})({_Q})({_CURRENCY})", lambda m: numbers.sign(m[1]) + numbers.money(m[3], m[2], None)),
    (_PHONE, lambda m: numbers.phone(m[0])),
    (rf"({_N})(st|nd|rd|th)", lambda m: numbers.ordinal(m[1])),
    (r"1(00|000)s", lambda m: numbers.plural("hundred" if m[1] == "00" else "thousand")),
    (r"'?(\d{3}0|\d0)'?s", lambda m: numbers.plural(numbers.year(m[1]) if len(m[1]) == 4 else numbers.cardinal(m[1]))),
    (r"(\d)(\d[1-9])'?s", lambda m: f"{numbers.cardinal(m[1])} {numbers.plural(numbers.pair(m[2]))}"),
    (r"([a-z]+)-(\d{1,3})s", lambda m: f"{m[1]} {numbers.plural(numbers.cardinal(m[2]))}"),
    (r"(\d)['’](\d{1,2})", lambda m: f"{numbers.cardinal(m[1])} foot {numbers.cardinal(m[2])}"),
    (r"(\d+)h(\d\d?)(?:m|min)?", lambda m: f"{_unit(m[1], 'hour')} {_unit(m[2], 'minute')}"),
    (rf"({_NAMED})[-–]({_NAMED})", lambda m: f"{_named(m[1])} to {_named(m[2])}"),
    (r"([2-9]\d\d)(?!000)(\d{3})(\d{4})", lambda m: numbers.phone("-".join(m.groups()))),
    (r"24/7", lambda _: "twenty four seven"),
    (r"(\d+)/(\d+)", lambda m: numbers.fraction(m[1], m[2])),
    (r"(\d+)-(\d/\d)(?:-?([a-z°%]+))?", lambda m: _mixed_number(m[1], m[2]) + _counted(m[3])),
    (rf"({_SIGN}{_Q})(?:[×x]10\^|e)([-−+]?\d+)",
     lambda m: f"{numbers.quantity(m[1])} times {numbers.power('ten', m[2])}"),
    (rf"({_SIGN}{_Q}|[a-z])\^([-−+]?\d+(?:\.\d+)?)", lambda m: numbers.power(say_word(m[1]), m[2])),
    (rf"({_SIGN}{_Q})([a-zμ°%¢][a-zμ°%¢/]*[23]?)", _suffixed),
    (rf"{_SIGN}{_Q}", lambda m: numbers.plain_number(m[0])),
    (r"\d+(?:\.\d+){3}", lambda m: _address(m[0])),
    (r"(v?)(\d+(?:\.\d+)+)", lambda m: f"{m[1]} {' point '.join(map(numbers.cardinal, m[2].split('.')))}".strip()),
    (rf"([a-z]+)\.({_N})", lambda m: f"{_shortened(m[1])} {numbers.cardinal(m[2])}"),
    (r"([a-g])#", lambda m: f"{m[1]} sharp"),
    (r"(?:[a-z]+://|www\.)\S+", lambda m: _address(m[0].split("://", 1)[-1].removeprefix("www.").rstrip("/"))),
    (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", lambda m: _address(m[0])),
    (r"[\w.-]*[a-z][\d_]*\.[a-z]{2,}(?::\d+)?(?:[/?#]\S*)?", lambda m: _address(m[0].rstrip("/"))),
    (r"[a-z]+\d[a-z0-9]*|\d+[a-z][a-z0-9]*", _mixed),
    (r"[a-z°]+(?:/[a-z]+)*", lambda m: _counted(m[0]).strip() if _unit_name(m[0]) else m[0].replace("/", " ")),
)  # fmt: skip
_RULES: Final = tuple((re.compile(pattern, re.I), rule) for pattern, rule in _WRITTEN)


def month(core: str) -> str | None:
    """The month a word names, whole or shortened; "may" and "march" need a capital: they are verbs too."""
    found = MONTH.get(core.lower())
    return None if found in ("may", "march") and core[:1].islower() else found


def is_number(core: str) -> bool:
    """Whether a word is a number, a sum or a range that a unit or a scale may follow."""
    return _NUMBER.fullmatch(core) is not None or _MONEY.fullmatch(core) is not None


def opening(marks: str, core: str, closing: str) -> str:
    """The signs among the marks before a word that are read: "~5", "#1", "<10%"; elsewhere they are markup."""
    sign = marks[-1:]
    if sign and sign in "~#<>" and sign not in marks[:-1] and ">" not in closing and _AMOUNT.match(core):
        return f"{marks[:-1]}{SIGNS[sign]} "
    return marks


def _bare(words: Sequence[str]) -> list[str]:
    """Words without the marks before them."""
    return [word.lstrip(OPENING + ">") if len(word) > 1 else word for word in words]


def binds(before: Sequence[str], word: str) -> bool:
    """Whether ``word`` (as written) can only be read together with the words ``before`` it."""
    core = word.rstrip(MARKS + CLOSING)
    if _PREFIX.fullmatch(before[0]) and all(map(_GROUP.fullmatch, (*before[1:], core))):
        return True
    before = _bare(before)
    last = before[-1]
    if any(month(w.rstrip(".")) for w in before):
        year = _YEAR.fullmatch(core) is not None
        return _open_date(before) and (year or (len(before) == 1 and _DAY.fullmatch(core) is not None))
    if last in _OPERATORS:
        return _operates(before) and (is_number(core) or (last in _DASHES and _TIME.fullmatch(core) is not None))
    if is_number(last) or _TIME.fullmatch(last) is not None:
        low = core.lower()
        return (
            _spaced_unit(core)
            or (low in SCALES and len(low) > 1)
            or word in _OPERATORS
            or _HALF.fullmatch(low) is not None
            or bool(_DAY.fullmatch(last) and month(core))
            or bool(last.isdecimal() and re.fullmatch(r"\d/\d", core))
        )
    if last.lower() in SCALES:
        return len(before) > 1 and _spaced_unit(core)
    if _HALF.fullmatch(last):
        return len(before) > 1 and word in _DASHES
    return len(before) == 1 and last.lower() in _NUMBERED and _COUNTED.fullmatch(core) is not None


def _operates(words: Sequence[str]) -> bool:
    """Whether a number must follow: "*" is a list item where none stands before it."""
    return words[-1] in _OPERATORS and (len(words) > 1 or words[-1] in _ALONE)


def _open_date(words: Sequence[str]) -> bool:
    """Whether a year, or after a lone month a day, may follow."""
    return bool(len(words) < 3 and (month(words[-1].rstrip(".")) or _DAY.fullmatch(words[-1])))


def may_bind(group: Sequence[str]) -> bool:
    """Whether some next word could bind to ``group``: if not, it can be spoken now."""
    prefix, group = group[0], _bare(group)
    last = group[-1]
    if any(month(w.rstrip(".")) for w in group):
        return _open_date(group)
    return (
        is_number(last)
        or _TIME.fullmatch(last) is not None
        or _PREFIX.fullmatch(prefix) is not None
        or (len(group) > 1 and last.lower() in SCALES)
        or _operates(group)
        or (len(group) > 1 and _HALF.fullmatch(last) is not None)
        or (len(group) == 1 and last.lower() in _NUMBERED)
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
        return f"{named} {_days(day)}{year}" if day else None
    if rest and (named := month(rest[0].rstrip("."))) and (day := _DAY.fullmatch(first)):
        year = f", {numbers.year(rest[1])}" if len(rest) > 1 else ""
        return f"the {_days(day)} of {named}{year}"
    if "=" in words:
        words = [_EQUATION.get(word, word) for word in words]
    for place, word in enumerate(words):
        if word in _BETWEEN and (place < len(words) - 1 or word == "<"):
            sides = (words[:place], words[place + 1 :])
            left, right = ((say_group(side) if side[1:] else None) or " ".join(map(say_word, side)) for side in sides)
            return f"{left} {_BETWEEN[word] if place else SIGNS[word]} {right}".strip()
    if rest and (half := _HALF.fullmatch(rest[0])):
        time = _TIME.fullmatch(first)
        if not time:
            return None
        return (f"{say_word(time[1])} to " if time[1] else "") + numbers.clock(time[2], time[3], half[1])
    if first.lower() in _NUMBERED and rest:
        return f"{_NUMBERED[first.lower()]} {_quantities(rest[0])}"
    if rest and _PREFIX.fullmatch(first if first[:1] == "+" else f"({first}") and _GROUP.fullmatch(rest[0]):
        return numbers.phone(" ".join(words))
    if rest and first.isdecimal() and re.fullmatch(r"\d/\d", rest[0]):
        return _mixed_number(first, rest[0])
    if is_number(first) and rest:
        scale = SCALES.get(rest[0].lower())
        if money := _MONEY.fullmatch(first):
            return _money(money, scale) if scale else None
        if scale and len(rest[0]) > 1:
            return f"{_quantities(first)} {scale}" + _counted(rest[1] if len(rest) > 1 else None)
        name = _unit_name(rest[0])
        return _unit(first, name) if name else None
    return None


def roman(before: str, core: str) -> str | None:
    """What a Roman number says after a word that one follows; "I" is somebody, "class X" need not be the tenth."""
    word = before.lower()
    if core in ROMAN and core != "I" and before[:1].isupper() and word in RULERS:
        return f"the {numbers.ordinal(ROMAN[core])}"
    return numbers.cardinal(ROMAN[core]) if core in ROMAN and len(core) > 1 and word in PARTS else None


def singular(said: str) -> str:
    """``"five kilometers"`` → five kilometer, as before what it measures; other words stay."""
    words, _, last = said.rpartition(" ")
    return f"{words} {_SINGULAR[last]}" if last in _SINGULAR else said


def say_word(core: str) -> str:
    """One word without the marks around it."""
    if not core or core.isalpha():
        return core
    return _ruled(core) or SIGNS.get(core) or _loose(core)


def _ruled(core: str) -> str | None:
    return next((rule(match) for pattern, rule in _RULES if (match := pattern.fullmatch(core))), None)


def _loose(core: str) -> str:
    """What no rule knows: its amounts one by one, signs as words, the rest as it stands."""
    said, end = "", 0
    for amount in _AMOUNT.finditer(core):
        gap = core[end : amount.start()]
        if gap == "-" and end and "=" in core:
            gap = "−"
        said += f"{_gap(gap, bool(end), True)} {_ruled(amount[0]) or numbers.digits(amount[0])} "
        end = amount.end()
    said += _gap(core[end:], bool(end), False)
    return re.sub(r" +([,:;.!?])", r"\1", " ".join(said.split()))


def _gap(text: str, after: bool, before: bool) -> str:
    """What stands in a word after an amount, before one, or between two."""
    if not after and not before and not _LAND.fullmatch(text):
        text = text.strip("$")  # of a formula or a variable
    if after and before and text in _BETWEEN:
        return f" {_BETWEEN[text]}"
    if after:
        text = re.sub(r"^/([^\W\d_]+)", lambda m: f" per {_unit_name(m[1]) or m[1]}", text).lstrip("-–")
    if before:
        text = text.rstrip("-–")
    read = "<>" * (after or before) + "~#" * before
    text = "".join(" " if c in "~#<>" and c not in read else c for c in text.translate(_NO_WORDS))
    text = re.sub(r"\.(?![^\W\d_]{2})", " ", re.sub(r"(?<=[^\W\d_])\.(?=[^\W\d_]{2})", " dot ", text))
    return _SIGNS.sub(lambda m: f" {SIGNS[m[0]]} ", text)


def spelled(core: str) -> str:
    """``core``, a word without marks, with spaces between its letters if it is read by them; "'s" may follow.

    A model that knows small letters only would try to say "bbc" as a word. Letters are what is written in capitals and
    either has no vowel or is known to be spelled; whatever is shouted has vowels.
    """
    stem = core[:-2] if core[-2:] in ("'s", "’s") else core
    if not (2 <= len(stem) <= _LONGEST_SPELLED and stem.isascii() and stem.isalpha() and stem.isupper()):
        return core
    low = stem.lower()
    letters = low in SPELLED or (_VOWELS.isdisjoint(low) and low not in SAID)
    return " ".join(stem) + core[len(stem) :] if letters else core


def begins_clause(before: str, word: str) -> bool:
    """Whether a reader may pause between two words as they were written, though no mark stands there.

    A small model skips words in a long piece, and sentences without commas are long pieces; at such a word they fall
    into two that can be said alone. The word before must not lean on it ("a while", "even though", "nothing but"). Only
    these two words are looked at, so text need not wait for what follows. A word that carries a mark begins nothing:
    what would follow is the mark's.
    """
    last = before.strip(OPENING + MARKS + CLOSING).lower()
    return word.lower() in CLAUSE_WORDS and bool(last) and last not in LEANING and last not in CLAUSE_WORDS
