"""Written English → spoken English, a word at a time.

Every word is at most 64 characters and every pattern here is matched against a whole word and has no nested repetition,
so time is linear in the text whatever it holds. Words that can only be read together are in codec/text/groups.py, and
what the words before a number make of it in codec/text/context.py. The rules are written ones over num2words; why not a
grammar library is said in docs/speaking.md.
"""

import re
from collections.abc import Callable
from typing import Final

from codec.text import numbers
from codec.text.addresses import say_address, say_dot_name, say_network, say_parts
from codec.text.dates import say_date, say_slashed
from codec.text.formula import FUNCTIONS, say_formula
from codec.text.notation import characters, say_notation
from codec.text.units import BEARINGS, DEGREES, counted, measure, plural, singular, unit_name
from codec.text.vocabulary import (
    ABBREVIATIONS,
    CLAUSE_WORDS,
    CLOSING,
    DOLLARS,
    GLUED_SCALES,
    GREEK,
    LEANING,
    LETTERED_DAYS,
    MARKS,
    MONTHS,
    OPENING,
    SCALES,
    SIGNS,
    VERSIONED,
    WORDS,
)

_SIGNS: Final = re.compile("|".join(re.escape(sign) for sign in sorted(SIGNS, key=len, reverse=True)))
_BETWEEN: Final = {
    "*": "times", "**": "to the", "^": "to the", "<": "less than", ">": "greater than", "-": "to", "–": "to",
    "—": "to", "~": "to", ":": "to", ".": "point", ",": ",", "=": "equals", "−": "minus", "×": "times",
    "÷": "divided by", "x": "by", "/": "slash", "±": "plus or minus",
}  # fmt: skip
"""What signs mean between two amounts; elsewhere most of them are markup."""
_NO_WORDS: Final = str.maketrans("_()[]{}", " " * 7, "*`")
"""Signs inside a word that are not read."""

WHOLE: Final = r"(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}|\d+)"
"""Commas part thousands, in India lakhs; any others are those of a list."""
QUANTITY: Final = rf"(?:{WHOLE}(?:\.\d+)?|\.\d+)"
SIGN: Final = "[-−+±]?"
CURRENCY: Final = f"[{''.join(numbers.CURRENCIES)}]"
_LAND: Final = re.compile(r"[A-Z]{1,3}\$")
"""Letters before a dollar sign that tell the country: "US$"."""
RANGE: Final = "[-–—~]"
MONEY: Final = re.compile(
    rf"({SIGN})(?:([a-z]{{1,2}})(?=\$))?{CURRENCY}*({CURRENCY})({SIGN})"
    rf"(?:({QUANTITY}){RANGE}{CURRENCY}?)?({QUANTITY})(k|mn?|bn?|tn?)?",
    re.I,
)
_AMOUNT: Final = re.compile(
    rf"(?:(?<![\w%°)¢{''.join(numbers.CURRENCIES)}])[-−+±])?(?:"
    r"(?<![\d.,/])(?:\d+/\d+(?![\d/])|\d{1,2}(?::\d{2}){1,2}(?![\d:])(?:[ap]\.?m)?)"
    rf"|(?:{CURRENCY}+(?:{QUANTITY}{RANGE})?|(?<!\w)(?=\.)|(?=\d)){QUANTITY}(?:[a-zμ°%¢]+[23]?)?)",
    re.I,
)
"""What :func:`_loose` looks for: a number with the sign before it and the unit after it."""
_FORMULA: Final = (
    rf"\\(?:frac|sqrt)\{{.*|\\[a-z]+|(?:[a-zα-ωΘ]|{'|'.join(FUNCTIONS)})\([^()]+\)?"
    r"|(?=.*[\^*=<>≤≥×+−])\(*(?:[a-zπ]{1,2}|\d+(?:\.\d+)?|\d[a-zπ])(?:\)*(?:\^[-−+]?|[-+−*/=<>≤≥×])(?:\(+[-−]?)?"
    r"(?:\d?[a-zπ]|\d+(?:\.\d+)?))+\)*"
    r"|(?-i:[A-Zf-h])\([^()]+\)(?:[-+*/=](?-i:[A-Zf-h])\([^()]+\)?)+"
)
"""A command, a function with its bracket, or letters and numbers with the signs between them: "x^2+1", "a*b"."""
_PHONE: Final = (
    r"1\.\d{3}\.\d{3}\.\d{4}|\+?\(?\d+\)?(?:-\d+){2,}|\(?\d{3}\)?[-.]\d{3}[-.]\d{4}|\d{3}-\d{4}"
    r"|1-\d{3}-(?=.*[a-z])[a-z\d-]+"
)
_SCALED: Final = "thousand|million|billion|trillion"
_UNIT: Final = "[a-zμ°%¢‰Ω′][a-zμ°%¢Ω/^′]*[23]?"
_POWERS: Final = re.compile(r"(?=.*[\^√∛])[\w.,√∛()\[\]{}^+−*/=<>≤≥×·|!-]+")
"""A formula that none of the rules is, for it has a power or a root."""
_LENGTHS: Final = "inch|inches|in|foot|feet|ft|yard|yards|yd|mile|miles|mi|meter|meters|m|cm|mm|km|pixel|pixels|px"
_LETTERS: Final = str.maketrans({letter: f" {name} " for letter, name in GREEK.items()})
CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NAMES_OF_CODE: Final = re.compile(
    r"[a-z]{2,}(?:[A-Z]+[a-z]*)+|[A-Z][a-z]{2,}[A-Z]{2,}s?"
    r"|[A-Z][a-z]+(?:[A-Z][a-z]+){2,}|[A-Z][a-z]+(?:Error|Exception|Type)"
)
"""Words that programmers put together, "getUserName", and product names that end in capitals, "ChatGPT"."""
_ASPECTS: Final = frozenset(("16:9", "16:10", "21:9", "4:3", "9:16"))

Rule = Callable[[re.Match[str]], str]


def _suffixed(m: re.Match[str]) -> str:
    """``"5kg"``, ``"1M"``, ``"10x"``."""
    if m[2] == "X" and re.fullmatch(r"\d{3,4}", m[1]):  # It is a model: "777X".
        return f"{numbers.pairs(m[1])} X"
    if m[2].lower() == "x":
        return f"{numbers.quantity(m[1])} time{'s' * (m[1] != '1')}"
    if "^" in m[2] and not unit_name(m[2]):
        return say_formula(m[0])
    if m[2] in DEGREES and re.fullmatch(r"[-−+]\d|[-−+]?\d{2,3}(?:\.\d)?", m[1]):
        return measure(m[1], DEGREES[m[2]])
    if m[2] in "ABD" and re.fullmatch(r"\d{3}", m[1]):
        return f"{numbers.pairs(m[1])} {m[2]}"
    if name := unit_name(m[2]) or {"′": "foot", "′′": "inch"}.get(m[2]):
        return measure(m[1], name)
    if m[2].isupper() and re.fullmatch(r"\d{3,4}", m[1]) and m[2] not in GLUED_SCALES and m[2] != "K":
        return f"{numbers.pairs(m[1])} {_rest(m[2])}"
    return f"{numbers.quantity(m[1])} {SCALES[m[2].lower()] if m[2] in GLUED_SCALES else _rest(m[2])}"


def _rest(text: str) -> str:
    """What is no unit after a number: up to three capitals are letters."""
    return " ".join(text) if text.isalpha() and text.isupper() and len(text) <= 3 else _loose(text)


def _bearing(m: re.Match[str]) -> str:
    """``"37°46′N"``: degrees, minutes, seconds, and where to."""
    parts = ((m[1], "degree"), (m[2], "minute"), (m[3], "second"))
    said = " ".join(measure(amount, name) for amount, name in parts if amount)
    return f"{said} {BEARINGS[m[4].upper()]}" if m[4] else said


def _money(text: str) -> re.Match[str]:
    """A match of :data:`MONEY`, which ``text`` is."""
    found = MONEY.fullmatch(text)
    assert found is not None
    return found


def say_money(m: re.Match[str], scale: str | None = None, code: str | None = None) -> str:
    """``"-$5"``, ``"$5–$10"``, ``"US$3bn"``. A scale may stand in the next word. A code beside the sum, "CAD", says
    which currency it is, so that the sign is not read."""
    minus, land, sign, inner, low, high, short = m.groups()
    said = numbers.money(code or sign, high, scale or SCALES.get((short or "").lower()))
    if land and land.upper() == "R":  # R$ is the sign of Brazil's real.
        said = said.replace("dollars", "reais").replace("dollar", "real")
    elif land:
        said = said.replace(" dollar", f" {DOLLARS.get(land.upper()) or ' '.join(land)} dollar")
    return numbers.sign(minus or inner) + (f"{numbers.quantity(low)} to {said}" if low else said)


def _continental(m: re.Match[str]) -> str:
    """``"1.234,56 €"``: on the continent the comma begins the hundredths; without a point or a currency it parts two
    numbers of a list."""
    amount, currency = f"{m[2].replace('.', '')}.{m[3]}", m[1] or m[4]
    if currency in ("€", "£"):
        return numbers.money(currency, amount, None)
    if "." in m[2]:
        return numbers.money(currency, amount, None) if currency else numbers.quantity(amount)
    return ", ".join(map(numbers.plain_number, (m[2], m[3])))


def _cardinals(text: str) -> str:
    return " ".join(map(numbers.cardinal, re.findall(r"\d+", text)))


def say_mixed_number(whole: str, part: str) -> str:
    """``"3", "1/2"`` → three and a half."""
    over, _, under = part.partition("/")
    said = "a half" if (over, under) == ("1", "2") else numbers.fraction(over, under)
    return f"{numbers.cardinal(whole)} and {said}"


def _shortened(word: str) -> str:
    """What an abbreviation means whose full stop has a number right after it: "No.5"."""
    return {"no": "number", "nos": "numbers", "p": "page", "pp": "pages", "ch": "chapter", "sec": "section"}.get(
        word.lower()
    ) or ABBREVIATIONS.get(word.lower(), word)


def _mixed(m: re.Match[str]) -> str:
    """Letters and digits in turn: "B2B", "mp3"; up to three capitals are read one by one, long numbers in pairs."""
    said: list[str] = []
    for run in re.findall(r"\d+|[^\W\d_]+", m.group()):
        if run[0].isdecimal():
            said.append(numbers.pairs(run) if said and 3 <= len(run) <= 4 else numbers.cardinal(run))
        else:
            said.append(" ".join(run) if run.isupper() and len(run) <= 3 else run)
    return " ".join(said)


def _sides(m: re.Match[str]) -> str:
    """``"1920x1080"``, ``"2x4"``."""
    sides = [side for side in m.groups() if side]
    return " by ".join(numbers.pairs(side) if len(side) > 2 else numbers.cardinal(side) for side in sides)


def _hyphened(unit: str) -> str:
    """What stands behind a number and a hyphen: a unit, of which points are more than pints there, or a word."""
    return "point" if unit.lower() == "pt" else unit_name(unit) or say_word(unit)


def _dialled(m: re.Match[str]) -> str:
    """A telephone number, or a few numbers with hyphens between: a formation, ``"4-4-2"``, a season, ``"10-2-1"``."""
    if re.fullmatch("[\\d-]+", m[0]) and sum(c.isdecimal() for c in m[0]) < 7:
        return " ".join(map(numbers.cardinal, m[0].split("-")))
    return numbers.phone(m[0])


def _graded(m: re.Match[str]) -> str:
    """``"B-"`` is a mark at school; of the letters of blood groups two are no marks: ``"O-"``."""
    if m[1] in ("O", "AB"):
        return f"{m[1]} {'positive' if m[2] == '+' else 'negative'}"
    return f"{m[1]} {'plus' if m[2] == '+' else 'minus'}"


def _measured_sides(m: re.Match[str]) -> str:
    """``"9x13-inch"``, ``"4x100m"``: sides that have their unit at the end."""
    *sides, hyphen, unit = m.groups()
    name = unit_name(unit)
    said = " by ".join(numbers.quantity(side) for side in sides if side)
    return f"{said} {unit if name is None else name if hyphen else plural(name)}"


def _drive_path(m: re.Match[str]) -> str:
    """``"C:\\Users"``: by its parts, as addresses are, but a name of letters and digits as any other word."""
    drive, *names = m[0].split("\\")
    said = (say_word(name) if name.isalnum() else say_parts(name) for name in names)
    return " backslash ".join((f"{drive[0]} colon", *said))


def _model(m: re.Match[str]) -> str:
    """``"i7-13700K"``: the hyphen in a product's name is no range."""
    series, number = m[0].split("-")
    digits = re.sub(r"\D", "", number)
    said = numbers.pairs(digits) if len(digits) < 5 else numbers.cardinal(digits)
    return " ".join((say_word(series), said, *number.removeprefix(digits)))


_WRITTEN: Final[tuple[tuple[str, Rule], ...]] = (
    (r"((?:19|20)\d\d)/((?:19|20)\d\d)", lambda m: f"{numbers.year(m[1])} {numbers.year(m[2])}"),
    (r"(0?[1-9]|1[0-2])/((?:19|20)\d\d)", lambda m: f"{MONTHS[int(m[1]) - 1]} {numbers.year(m[2])}"),
    (r"0\d/\d\d?", lambda m: say_slashed(m[0]) or " ".join(map(numbers.cardinal, m[0].split("/")))),
    (r"(\d{4})/(\d\d)", lambda m: f"{numbers.year(m[1])} {numbers.pair(m[2])}"),
    (r"(\d{1,2}):(\d{2})(?::(\d{2}))?([ap]\.?m\.?)?", lambda m: numbers.clock(m[1], m[2], m[4], m[3])),
    (r"(\d{1,2}):(\d{2}):(\d{2}\.\d{1,3})",
     lambda m: f"{numbers.clock(m[1], m[2], None)} and {measure(m[3].removeprefix('0'), 'second')}"),
    (r"(\d{1,2}):(\d{2})\.(\d{1,3})", lambda m: f"{numbers.clock(m[1], m[2], None)} point {numbers.digits(m[3])}"),
    (r"(\d{1,2})\.([0-5]\d)([ap]\.?m\.?)", lambda m: numbers.clock(m[1], m[2], m[3])),
    (r"(\d{1,2})([ap]\.?m\.?)", lambda m: numbers.clock(m[1], None, m[2])),
    (r"(\d{1,3}):(\d|\d{3}|\d{1,3},\d{3})",
     lambda m: f"{numbers.cardinal(m[1])} {'by' if m[0] in _ASPECTS else 'to'} {numbers.cardinal(m[2])}"),
    (r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", lambda m: ", ".join(map(characters, m[0].split(":")))),
    (rf"({MONEY.pattern})-({_SCALED})", lambda m: singular(say_money(_money(m[1]), m[m.lastindex or 0].lower()))),
    (rf"({MONEY.pattern})-([a-z]+(?:-[a-z]+)*)",
     lambda m: f"{singular(say_money(_money(m[1])))} {m[m.lastindex or 0].replace('-', ' ')}"),
    (rf"((?:[a-z]{{1,2}}(?=\$))?{CURRENCY})({QUANTITY})(k|mn?|bn?|tn?)[-–]({QUANTITY})(k|mn?|bn?|tn?)",
     lambda m: f"{numbers.quantity(m[2])} {SCALES[m[3].lower()]} to {say_money(_money(m[1] + m[4] + m[5]))}"),
    (r"(sub|under)-(\d{1,2}):00", lambda m: f"{m[1]} {numbers.cardinal(m[2])}"),
    (MONEY.pattern, say_money),
    (rf"({CURRENCY}?)(\d{{1,3}}(?:\.\d{{3}})*),(\d\d)({CURRENCY}?)", _continental),
    (rf"({MONEY.pattern})(/[a-z]+)", lambda m: say_money(_money(m[1])) + _gap(m[m.lastindex or 0], True, False)),
    (rf"({SIGN})({QUANTITY})({CURRENCY})", lambda m: numbers.sign(m[1]) + numbers.money(m[3], m[2], None)),
    (_PHONE, _dialled),
    (rf"({WHOLE})(st|nd|rd|th)", lambda m: numbers.ordinal(m[1])),
    (r"(\d{1,2})(?:st|nd|rd|th)[-–](\d{1,2})(?:st|nd|rd|th)",
     lambda m: f"{numbers.ordinal(m[1])} to {numbers.ordinal(m[2])}"),
    (r"(\d{2,3})-\1", lambda m: f"{_cardinals(m[1])} {_cardinals(m[1])}"),
    (r"(?-i:A-Z)|([a-z])–([a-z])", lambda m: f"{m[0][0]} to {m[0][-1]}"),
    (r"1(00|,?000)s", lambda m: numbers.plural("hundred" if m[1] == "00" else "thousand")),
    (r"'?(\d{3}0|\d0)'?s", lambda m: numbers.plural(numbers.year(m[1]) if len(m[1]) == 4 else numbers.cardinal(m[1]))),
    (r"(\d)(\d[1-9])'?s", lambda m: f"{numbers.cardinal(m[1])} {numbers.plural(numbers.pair(m[2]))}"),
    (r"([a-z]+)-(\d{1,3})s", lambda m: f"{m[1]} {numbers.plural(numbers.pairs(m[2]))}"),
    (r"(noon|midnight)[-–](\d{1,2}(?::\d{2})?(?:[ap]\.?m\.?)?)", lambda m: f"{m[1]} to {say_word(m[2])}"),
    (r"(\d{1,2}(?::\d{2})?)am/pm", lambda m: f"{say_word(m[1])} a m or p m"),
    (rf"({QUANTITY})[x×]({QUANTITY})′′", lambda m: f"{numbers.quantity(m[1])} by {measure(m[2], 'inch')}"),
    (r"(\d{1,2})['’′](\d{1,2})(?:′′)?", lambda m: f"{numbers.cardinal(m[1])} foot {numbers.cardinal(m[2])}"),
    (r"(\d+)(?-i:h)(\d\d?)(?:m|min)?", lambda m: f"{measure(m[1], 'hour')} {measure(m[2], 'minute')}"),
    (rf"({QUANTITY})°(?:(\d+)['’′])?(?:(\d+(?:\.\d+)?)(?:\"|′′))?([NSEW])?", _bearing),
    (r"(?:tel:)?(\+\d{10,15})", lambda m: numbers.phone(m[1])),
    (rf"({QUANTITY})′′", lambda m: measure(m[1], "inch")),
    (r"(\d+/\d+)′′", lambda m: f"{say_word(m[1])} inch"),
    (r"([2-9]\d\d)(?!000)(\d{3})(\d{4})", lambda m: numbers.phone("-".join(m.groups()))),
    (r"24/7(/365)?", lambda m: "twenty four seven" + (" three sixty five" if m[1] else "")),
    (r"(\d+)/1", lambda m: f"{numbers.cardinal(m[1])} to one" if m[1] != "1" else "one to one"),
    (r"(\d+\.\d+)/(\d{1,3}(?:\.\d)?)", lambda m: f"{numbers.quantity(m[1])} out of {numbers.quantity(m[2])}"),
    (r"(\d+/\d+)(?:rd|th)s?", lambda m: say_word(m[1])),
    (r"'?00s", lambda _: "two thousands"),
    (r"(?-i:([A-Z])(\d{1,3})[-–]\1(\d{1,3}))",
     lambda m: f"{m[1]} {numbers.cardinal(m[2])} to {m[1]} {numbers.cardinal(m[3])}"),
    (r"(?-i:([A-F]|AB|O)([-−+]))", _graded),
    (r"(\d{1,2}(?::\d{2})?)([ap])[-–](\d{1,2}(?::\d{2})?)([ap])",
     lambda m: f"{say_word(m[1] + m[2] + 'm')} to {say_word(m[3] + m[4] + 'm')}"),
    (r"(.*)([ap])\.?m\.?[-–](noon|midnight)",
     lambda m: f"{say_word(m[1] + m[2] + 'm') if m[1] else m[2].lower() + ' m'} to {m[3]}"),
    (rf"({QUANTITY})[x×]({QUANTITY})(?:[x×]({QUANTITY}))?(-?)({_LENGTHS})", _measured_sides),
    (rf"({QUANTITY})′′[x×]({QUANTITY})′′",
     lambda m: f"{measure(m[1], 'inch')} by {measure(m[2], 'inch')}"),
    (r"(?-i:[A-Z][A-Za-z]*~\d+)", lambda m: " tilde ".join(map(say_word, m[0].split("~")))),
    (r"(?-i:[A-Za-z]{1,5}\d{1,3})-(\d{3,5}[A-Za-z]{0,3})", _model),
    (r"(?-i:(?=[A-Z]*\d+[A-Z]+\d)[A-Z\d]{9,}|[A-Z]{1,4}-\d{5,}|[A-Z]{2,3}\d{5,})", lambda m: characters(m[0])),
    (r"(\d+)/(\d+)", lambda m: numbers.fraction(m[1], m[2])),
    (r"(\d+)-(\d/\d)(?:-?([a-z°%]+))?", lambda m: say_mixed_number(m[1], m[2]) + counted(m[3])),
    (r"(\d+)-(\d/\d)((?:-[a-z]+){2,})",
     lambda m: f"{say_mixed_number(m[1], m[2])}{m[3].replace('-', ' ')}"),
    (r"(?-i:(UTC|GMT)([-−+±])(\d\d?)(?::?(\d\d))?)", lambda m: f"{' '.join(m[1])} "
     + numbers.sign(m[2]) + numbers.cardinal(str(int(m[3]))) + (f" {numbers.pair(m[4])}" if int(m[4] or 0) else "")),
    (r"[a-z]:(?:\\[\w.@+~-]*)+", _drive_path),
    (r"(\d+/\d+)-([a-z]+)", lambda m: f"{singular(say_word(m[1]))} {unit_name(m[2]) or m[2]}"),
    (r"(\d)/([xyzn])", lambda m: f"{numbers.cardinal(m[1])} over {m[2]}"),
    (r"24[-x×]7", lambda _: "twenty four seven"),
    (r"([a-z]{2,})#", lambda m: f"{say_word(m[1])} number"),
    (rf"([1-9]\d?)[x×]({QUANTITY}(?:[gmt]b|m?l|k?g|mg|oz|[wv]))", lambda m: f"{say_word(m[1])} times {say_word(m[2])}"),
    (rf"({QUANTITY})(k?m|cm|mm|k?g|lb|oz|k?w|k?v|m?ah|[gmt]b|[gmk]?hz|°c|°f)-([a-z]+)",
     lambda m: f"{numbers.quantity(m[1])} {unit_name(m[2])} {m[3]}"),
    (r"401k(s?)", lambda m: f"four oh one k{m[1] and chr(39) + 's'}"),
    (r"(?-i:([a-z][A-Z]{2,}))-(\d{3,4})", lambda m: f"{m[1]} {numbers.pairs(m[2])}"),
    (r"\$(\d{1,3})s", lambda m: numbers.plural(numbers.cardinal(m[1]))),
    (r"([a-z])(['’′]{1,2})\(([^()]+)\)?",
     lambda m: f"{m[1]} {'double ' * (len(m[2]) > 1)}prime of {say_formula(m[3])}"),
    (r"([a-z])→([\w∞]+)", lambda m: f"{m[1]} to {say_word(m[2])}"),
    (r"([∫∑∏])_?([\w])\^([\w∞])", lambda m: f"{SIGNS[m[1]]} from {say_word(m[2])} to {say_word(m[3])}"),
    (r"(?-i:([A-Z]{2,}\d)/(\d))", lambda m: f"{say_word(m[1])} {say_word(m[2])}"),
    (r"−([a-zα-ω])", lambda m: f"minus {say_word(m[1])}"),
    (r"(\d+(?:-\d+)?)x/([a-z]+)", lambda m: f"{say_word(m[1] + 'x')} per {unit_name(m[2]) or m[2]}"),
    (r"(\d)-on-(\d)s", lambda m: f"{numbers.cardinal(m[1])} on {numbers.plural(numbers.cardinal(m[2]))}"),
    (r"(\d)x(\d{1,2})s", lambda m: f"{numbers.cardinal(m[1])} by {numbers.plural(numbers.cardinal(m[2]))}"),
    (r"(?-i:(\d{1,2})W-(\d{2}))", lambda m: f"{numbers.cardinal(m[1])} W {numbers.cardinal(m[2])}"),
    (r"(\d+)['’′][x×](\d+)['’′]?", lambda m: f"{measure(m[1], 'foot')} by {measure(m[2], 'foot')}"),
    (r"(\d+)-(ft|foot|in|inch|km|mi|lb|kg|yr|year|min|hr)-([a-z]+)",
     lambda m: f"{numbers.cardinal(m[1])} {unit_name(m[2]) or m[2]} {m[3]}"),
    (r"(?-i:([nkijmx])[-−](\d))", lambda m: f"{m[1]} minus {numbers.cardinal(m[2])}"),
    (r"(\d{1,2})/(\d{1,2})c", lambda m: f"{numbers.cardinal(m[1])} {numbers.cardinal(m[2])} central"),
    (r"(?-i:(X*S|M|L)[-–](M|X*L))", lambda m: f"{' '.join(m[1])} to {' '.join(m[2])}"),
    (r"(\d\d)ers", lambda m: f"{numbers.cardinal(m[1])}{'' if m[1][1] in '159' else 'e'}rs"),
    (r"([a-z]+)\.['’]s", lambda m: f"{ABBREVIATIONS.get(m[1].lower(), m[1])}'s"),
    (r"([a-z]+)\./([a-z]+)",
     lambda m: " ".join(ABBREVIATIONS.get(name.lower(), name) for name in m.groups())),
    (r"(\d{1,3})((?:_\d{3})+)", lambda m: numbers.cardinal(m[0].replace("_", ""))),
    (r"802\.(\d\d?)([a-z]{0,2})", lambda m: f"eight oh two point {numbers.cardinal(m[1])} {' '.join(m[2])}".strip()),
    (r"\+/[-−](.+)", lambda m: f"plus or minus {say_word(m[1])}"),
    (r"'?(\d0)s[-–]['’]?(\d0)s",
     lambda m: f"{numbers.plural(numbers.cardinal(m[1]))} to {numbers.plural(numbers.cardinal(m[2]))}"),
    (r"([2-9])00s", lambda m: f"{numbers.cardinal(m[1])} hundreds"),
    (r"(\d{4})[-–](present|now|today|date)", lambda m: f"{numbers.year(m[1])} to {m[2]}"),
    (r"(?-i:((?:[A-Z]\.){2,}))['’]s", lambda m: f"{' '.join(m[1].replace('.', ''))}'s"),
    (r"(\d+)[-–](\d+)-(\d/\d)", lambda m: f"{numbers.cardinal(m[1])} to {say_mixed_number(m[2], m[3])}"),
    (r"(\d+)-(\d/\d)[-–](\d+)(?:-(\d/\d))?", lambda m: f"{say_mixed_number(m[1], m[2])} to "
     + (say_mixed_number(m[3], m[4]) if m[4] else numbers.cardinal(m[3]))),
    (r"(200[1-9])s", lambda m: f"{numbers.cardinal(m[1])}'s"),
    (r"([1-9]\d)(\d[1-9])s", lambda m: f"{numbers.cardinal(m[1])} {numbers.plural(numbers.pair(m[2]))}"),
    (r"(\d+)-in-(\d+)-([a-z]+)",
     lambda m: f"{numbers.cardinal(m[1])} in {numbers.cardinal(m[2])} {unit_name(m[3]) or m[3]}"),
    (r"(\d{1,3}|[a-z])\)[-–]\((\d{1,3}|[a-z])", lambda m: f"{say_word(m[1])} to {say_word(m[2])}"),
    (r":(\d{2,5})", lambda m: f"colon {numbers.pairs(m[1])}"),
    (rf"(?-i:({QUANTITY}V)/({QUANTITY})A)", lambda m: f"{say_word(m[1])}, {measure(m[2], 'amp')}"),
    (r"(?-i:([35])['’′]-([ACGTUN-]+)-([35])['’′]?)",
     lambda m: f"{numbers.cardinal(m[1])} prime, {characters(m[2])}, {numbers.cardinal(m[3])} prime"),
    (r"x86-64", lambda _: "x eighty six sixty four"),
    (r"(\d{1,2}(?::\d{2})?)[-–](noon|midnight)", lambda m: f"{say_word(m[1])} to {m[2]}"),
    (rf"(?-i:({'|'.join(LETTERED_DAYS)})[-–]({'|'.join(LETTERED_DAYS)}))(?<=.{{4}})",
     lambda m: f"{LETTERED_DAYS[m[1]]} to {LETTERED_DAYS[m[2]]}"),
    (r"0b([01]+)", lambda m: f"zero b {numbers.digits(m[1])}"),
    (r"0x([0-9a-f]+)", lambda m: f"zero x {characters(m[1])}"),
    (r"(\d{1,4})[x×](\d{1,4})(?:[x×](\d{1,4}))?", _sides),
    (r"(\d{3,4})p(\d{2,3})?", lambda m: f"{numbers.pairs(m[1])} p" + (f" {numbers.cardinal(m[2])}" if m[2] else "")),
    (r"(\d{4,5}):(\d{2,5})", lambda m: f"{numbers.pairs(m[1])} colon {numbers.pairs(m[2])}"),
    (r"([a-z]\w*|\d+)\*\*(\d+)", lambda m: numbers.power(say_word(m[1]), m[2])),
    (r"([a-z][\w-]*)(==|~=|(?:>=|<=|>|<)(?=\d+\.\d+\.))(\d+(?:\.\d+)+)",
     lambda m: f"{say_word(m[1])} {SIGNS.get(m[2], 'about')} {say_word('v' + m[3]).removeprefix('v ')}"),
    (rf"({'|'.join(sorted(VERSIONED))})(\d+)\.(\d+)",
     lambda m: f"{m[1]} {numbers.cardinal(m[2])} point {numbers.cardinal(m[3])}"),
    (r"(?-i:([A-Z]))\.(\d{3})", lambda m: f"{m[1]} {numbers.pairs(m[2])}"),
    (r"(\d{3})\(([a-z])\)?(?:\((\d)\)?)?", lambda m: " ".join(
        (numbers.pairs(m[1]), m[2], *([numbers.cardinal(m[3])] if m[3] else [])))),
    (rf"({SIGN}{QUANTITY})(?:[×x]10\^|e)([-−+]?\d+)",
     lambda m: f"{numbers.quantity(m[1])} times {numbers.power('ten', m[2])}"),
    (rf"({SIGN}{QUANTITY}|[a-z])\^([-−+]?\d+(?:\.\d+)?)", lambda m: numbers.power(say_word(m[1]), m[2])),
    (rf"({QUANTITY})-({_UNIT})", lambda m: f"{numbers.quantity(m[1])} {_hyphened(m[2])}"),
    (rf"({SIGN}{QUANTITY})({_UNIT})", _suffixed),
    (rf"{SIGN}{QUANTITY}", lambda m: numbers.plain_number(m[0])),
    (r"(v?)(\d+(?:\.\d+)+)", lambda m: f"{m[1]} {' point '.join(map(numbers.cardinal, m[2].split('.')))}".strip()),
    (rf"([a-z]+)\.({WHOLE})", lambda m: f"{_shortened(m[1])} {numbers.cardinal(m[2])}"),
    (r"(?-i:([A-Z]{1,3})&([A-Z]{1,3})(['’]?s)?)",
     lambda m: f"{' '.join(m[1])} and {' '.join(m[2])}" + ("'s" if m[3] else "")),
    (r"(?-i:([A-Z]{2,5})(?:/|(v))(\d\d?)(?:\.(\d))?)",
     lambda m: " ".join((*m[1], *(m[2] or ""), numbers.quantity(f"{m[3]}.{m[4]}" if m[4] else m[3])))),
    (r"([a-g])#", lambda m: f"{m[1]} sharp"),
    (r"log_?(2|10|e)(?:\(([^()]+)\)?)?",
     lambda m: f"log base {say_word(m[1])}" + (f" of {say_formula(m[2])}" if m[2] else "")),
    (r"(?:[a-z]+|(?-i:[A-Z]{1,5})-)\d[a-z0-9]*|\d+[a-z][a-z0-9]*", _mixed),
    (_FORMULA, lambda m: say_formula(m[0])),
    (r"[a-zΩ°μ]+(?:/[a-z]+)*", lambda m: counted(m[0]).strip() if unit_name(m[0]) else m[0].replace("/", " ")),
)  # fmt: skip
_RULES: Final = tuple((re.compile(pattern, re.I), rule) for pattern, rule in _WRITTEN)
_HYPHENED: Final = re.compile(r"[A-Za-z][\w.]*(?:-[\w.]+){2,}")


def _named_by_parts(core: str) -> str | None:
    """A name of several parts with a number among them, "gpt-4o-mini": its hyphens are no ranges."""
    if not _HYPHENED.fullmatch(core) or core.replace("-", "").isalpha():
        return None
    return " ".join(
        numbers.pairs(part) if part.isdecimal() and len(part) == 4 else say_word(part) for part in core.split("-")
    )


def opening(marks: str, core: str, closing: str) -> str:
    """The signs among the marks before a word that are read: "~5", "#1", "<10%"; elsewhere they are markup."""
    sign = marks[-1:]
    if sign and sign in "~#<>" and sign not in marks[:-1] and ">" not in closing and _AMOUNT.match(core):
        return f"{marks[:-1]}{SIGNS[sign]} "
    return marks


def say_word(core: str) -> str:
    """Read one word, which comes without the marks around it."""
    if not core:
        return core
    if core.isdecimal() and core.isascii() and len(core) < 10:
        return numbers.plain_number(core)
    if core in WORDS:
        return WORDS[core]
    if core.isalpha():
        if _NAMES_OF_CODE.fullmatch(core):
            return CAMEL.sub(" ", core)
        greek = [c in GREEK for c in core]
        return core if not any(greek) or (all(greek) and len(core) > 1) else core.translate(_LETTERS).strip()
    if said := say_notation(core):
        return said
    if core[0] == "$" == core[-1] and len(core) > 2 and not any(c in CURRENCY for c in core[1:-1]):
        core = core[1:-1]  # Dollar signs on both sides make a formula.
    elif core[0] == "$" and len(core) > 1 and core[1].isalpha():
        core = core[1:]  # One dollar sign begins a formula, or a variable.
    if core[0] == "." and (name := say_dot_name(core)):
        return name
    return (
        say_network(core)
        or say_date(core)
        or _ruled(core)
        or say_address(core)
        or _named_by_parts(core)
        or SIGNS.get(core)
        or (say_formula(core) if _POWERS.fullmatch(core) else None)
        or _loose(core)
    )


def _ruled(core: str) -> str | None:
    return next((rule(match) for pattern, rule in _RULES if (match := pattern.fullmatch(core))), None)


def _loose(core: str) -> str:
    """What no rule knows: its amounts one by one, signs as words, the rest as it stands."""
    said, end = "", 0
    for amount in _AMOUNT.finditer(core):
        gap = core[end : amount.start()]
        if gap == "/" and end and not core[end - 1].isdecimal():
            gap = ","  # Between two measures there is a short pause.
        if gap == "-" and end and "=" in core:
            gap = "−"
        said += f"{_gap(gap, bool(end), True)} {_ruled(amount[0]) or numbers.digits(amount[0])} "
        end = amount.end()
    said += _gap(core[end:], bool(end), False)
    return re.sub(r" +([,:;.!?])", r"\1", " ".join(said.split()))


def _per(m: re.Match[str]) -> str:
    """What is below the stroke behind an amount; what has a capital is another name, "PS5/Xbox"."""
    if (name := unit_name(m[1])) or m[1].islower():
        return f" per {name or m[1]}"
    return f" {m[1]}"


def _gap(text: str, after: bool, before: bool) -> str:
    """What stands in a word after an amount, before one, or between two."""
    if not after and not before and not _LAND.fullmatch(text):
        text = text.strip("$")  # The signs belong to a formula or a variable.
    if after and before and text in _BETWEEN:
        return f" {_BETWEEN[text]}"
    if after:
        text = re.sub(r"^/([^\W\d_]+)", _per, text).lstrip("-–")
    if before:
        text = text.rstrip("-–")
    read = "<>" * (after or before) + "~#" * before
    text = "".join(" " if c in "~#<>" and c not in read else c for c in text.translate(_NO_WORDS))
    text = re.sub(r"\.(?![^\W\d_]{2})", " ", re.sub(r"(?<=[^\W\d_])\.(?=[^\W\d_]{2})", " dot ", text))
    return _SIGNS.sub(lambda m: f" {SIGNS[m[0]]} ", text.translate(_LETTERS))


def begins_clause(before: str, word: str) -> bool:
    """Whether a reader may pause between two words as they were written, though no mark stands there.

    A small model skips words in a long piece, and sentences without commas are long pieces; at such a word they fall
    into two that can be said alone. The word before must not lean on it ("a while", "even though", "nothing but"). Only
    these two words are looked at, so text need not wait for what follows. A word that carries a mark begins nothing:
    what would follow is the mark's.
    """
    last = before.strip(OPENING + MARKS + CLOSING).lower()
    return word.lower() in CLAUSE_WORDS and bool(last) and last not in LEANING and last not in CLAUSE_WORDS
