"""Units of measure: what they are called after a number, alone and in the plural.

A unit's letters count as they are written where two units differ by their case alone ("Mb" is a megabit, "MB" a
megabyte); in all other cases units of two letters or more are known in any case. Units written with a stroke ("mg/mL")
are put together from their parts.
"""

import re
from collections.abc import Sequence
from typing import Final

from codec.text import numbers
from codec.text.vocabulary import CLOSING, MARKS, NO_NOUNS

_NAMES: Final = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "μm": "micrometer", "nm": "nanometer",
    "mi": "mile", "ft": "foot", "in": "inch", "yd": "yard", "yds": "yard", "nmi": "nautical mile", "ly": "light year",
    "kg": "kilogram", "g": "gram", "mg": "milligram", "μg": "microgram", "mcg": "microgram", "ng": "nanogram",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "kt": "kiloton", "ct": "carat",
    "l": "liter", "L": "liter", "ml": "milliliter", "cl": "centiliter", "dl": "deciliter", "μl": "microliter",
    "tsp": "teaspoon", "tbsp": "tablespoon", "pt": "pint", "pts": "point", "qt": "quart", "qts": "quart",
    "gal": "gallon", "fl oz": "fluid ounce", "cc": "c c",
    "h": "hour", "hr": "hour", "hrs": "hour", "min": "minute", "mins": "minute", "s": "second", "sec": "second",
    "secs": "second", "ms": "millisecond", "μs": "microsecond", "ns": "nanosecond", "wk": "week", "wks": "week",
    "yr": "year", "yrs": "year", "mo": "month", "mos": "month",
    "hz": "hertz", "khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz", "thz": "terahertz",
    "v": "volt", "V": "volt", "kv": "kilovolt", "mv": "millivolt", "μv": "microvolt", "mah": "milliamp hour",
    "ma": "milliamp", "ah": "amp hour", "Ω": "ohm", "kω": "kilohm", "MΩ": "megohm", "mΩ": "milliohm",
    "w": "watt", "W": "watt",
    "mM": "millimolar", "μM": "micromolar", "nM": "nanomolar",
    "μA": "microamp", "nA": "nanoamp", "kw": "kilowatt", "MW": "megawatt", "mW": "milliwatt", "GW": "gigawatt",
    "TW": "terawatt", "wh": "watt hour", "kwh": "kilowatt hour", "MWh": "megawatt hour", "GWh": "gigawatt hour",
    "pa": "pascal", "kpa": "kilopascal", "hpa": "hectopascal", "mpa": "megapascal", "kn": "kilonewton",
    "kj": "kilojoule", "mj": "megajoule", "cal": "calorie", "kcal": "kilocalorie", "ev": "electron volt",
    "kev": "kilo electron volt", "mev": "mega electron volt", "gev": "giga electron volt", "tev": "tera electron volt",
    "Nm": "newton meter", "N·m": "newton meter", "N⋅m": "newton meter", "atm": "atmosphere",
    "mol": "mole", "mmol": "millimole", "μf": "microfarad",
    "db": "decibel", "dba": "decibel", "psi": "pound per square inch", "btu": "b t u", "hp": "horsepower",
    "ft-lb": "foot pound", "ft-lbs": "foot pound", "lb-ft": "pound foot",
    "bbl": "barrel", "kts": "knot", "IU": "international unit", "px": "pixel", "yo": "year old",
    "kb": "kilobyte", "mb": "megabyte", "gb": "gigabyte", "tb": "terabyte", "pb": "petabyte",
    "kib": "kibibyte", "mib": "mebibyte", "gib": "gibibyte", "tib": "tebibyte",
    "Kb": "kilobit", "Mb": "megabit", "Gb": "gigabit", "Tb": "terabit",
    "kbit": "kilobit", "mbit": "megabit", "gbit": "gigabit", "mmhg": "millimeter of mercury",
    "kbps": "kilobit per second", "mbps": "megabit per second", "gbps": "gigabit per second",
    "mph": "mile per hour", "kmh": "kilometer per hour", "kph": "kilometer per hour", "mpg": "mile per gallon",
    "fps": "frame per second", "rpm": "revolution per minute", "bpm": "beat per minute", "dpi": "dot per inch",
    "ppi": "pixel per inch", "ppm": "part per million", "ppb": "part per billion", "wpm": "word per minute",
    "°c": "degree celsius", "°f": "degree fahrenheit", "°": "degree", "%": "percent", "‰": "per mille", "¢": "cent",
    "km2": "square kilometer", "m2": "square meter", "cm2": "square centimeter", "mm2": "square millimeter",
    "ft2": "square foot", "mi2": "square mile", "m3": "cubic meter", "cm3": "cubic centimeter",
    "km3": "cubic kilometer",
    "ft3": "cubic foot", "sqft": "square foot", "sq ft": "square foot", "sq m": "square meter",
    "sq km": "square kilometer", "sq mi": "square mile", "sq in": "square inch", "sq yd": "square yard",
    "cu ft": "cubic foot", "cu m": "cubic meter", "cu in": "cubic inch", "cu yd": "cubic yard",
    "ha": "hectare", "ac": "acre", "pcs": "piece", "pc": "piece", "pkg": "package", "dz": "dozen", "doz": "dozen",
}  # fmt: skip
_SPACED_LETTERS: Final = frozenset("glmLVWΩ")
"""Units of one letter that are one after a space as well: "3 s" and "5 h" are as often something else."""
_SELDOM: Final = frozenset(("in", "pt", "ma", "ac", "cal", "pa", "ct", "pc", "mi", "ah", "mo", "atm"))
"""Units that are as often another word after a number and a space ("5 in the room", "5 PA systems"): they count there
in small letters with a stop or where a unit is sure to follow; those of ``_SMALL`` in small letters."""
_SMALL: Final = frozenset(("pt", "mi", "mo", "cal", "atm"))
_SAME: Final = ("percent", "molar", "year old", "hertz", "mille", "dozen", "c c", "b t u", "horsepower")
"""The last words of unit names that have no plural."""
_PLURALS: Final = {"foot": "feet", "inch": "inches"}
DEGREES: Final = {"C": "degree celsius", "F": "degree fahrenheit"}
"""Units of one letter after a number of two or three digits."""
BEARINGS: Final = {"N": "north", "S": "south", "E": "east", "W": "west"}
"""Letters after degrees that tell where a place lies."""
FEET_LIKE: Final = frozenset(("ft", "lb", "lbs", "h", "hr", "hrs", "min", "mins", "m", "°", "′"))
"""Units after whose amount a smaller one's may follow: "5 ft 4 in", "2h 30m"."""
PART: Final = re.compile(r"(\d+(?:\.\d+)?)(?:-?(hrs?|mins?|secs?|lbs?|d|h|m|s|°|′′|′|'))")
"""An amount with a unit, as part of a row of such: "2h 30m", "5 ft 3 in"."""
_SMALLER: Final = {"d": "d", "m": "min", "h": "h", "s": "s", "′": "ft", "'": "ft", "′′": "in"}
_TURNED: Final = {"°": "degree", "′": "minute", "'": "minute", "′′": "second"}
"""What the marks of feet and inches are behind degrees."""
SQUARES: Final = frozenset(("sq", "cu", "fl"))
"""What stands before a unit and belongs to it."""


_THINGS: Final = {
    "req": "request", "reqs": "request", "tok": "token", "toks": "token", "op": "operation", "ops": "operation",
    "img": "image", "msg": "message", "msgs": "message", "txn": "transaction", "iops": "I O operation",
    "N": "newton", "J": "joule", "A": "amp",
}  # fmt: skip
"""What programs count in a time: "500 req/s"."""
UNDER: Final = {
    word: word
    for word in "second minute hour day week month year night person head user page mile gallon liter unit item piece"
    " share barrel pound ounce student employee game season serving plate".split()
} | {"d": "day", "pp": "person", "q": "quarter"}  # fmt: skip
"""What may stand below a stroke besides units."""


def unit_name(unit: str) -> str | None:
    """What ``unit`` is called, in the singular; None where it is no unit."""
    if unit in ("HR", "HRs"):  # Home runs, and the people who hire.
        return None
    if found := _NAMES.get(unit) or (_NAMES.get(unit.lower()) if len(unit) > 1 else None):
        return found
    if "/" not in unit:
        return None
    if unit.count("/") == 2:  # "mL/kg/hr"
        over, _, under = unit.rpartition("/")
        first, second = unit_name(over), unit_name(under)
        return f"{first} per {second}" if first and second else None
    over, _, under = unit.partition("/")
    under, _, power = under.partition("^")
    if under[-1:] == "2" and under[:-1] in ("s", "h", "m", "cm", "mm", "km", "ft"):
        under, power = under[:-1], "2"
    first, second = (_NAMES.get(part) or (_NAMES.get(part.lower()) if part else None) for part in (over, under))
    first, second = first or _thing(over), second or UNDER.get(under)
    if not (first and second) or " per " in first + second or power not in ("", "2", "3"):
        return None
    if power and second.endswith(("meter", "foot", "inch", "mile")):
        return f"{first} per {'square' if power == '2' else 'cubic'} {second}"
    return f"{first} per {second}" + {"": "", "2": " squared", "3": " cubed"}[power]


def _thing(word: str) -> str | None:
    """What is counted before a stroke, in the singular, as in "3 meals/day"; None where it is no plural."""
    if word in _THINGS:
        return _THINGS[word]
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" and word.islower() else None


def spaced_unit(word: str) -> bool:
    """Whether ``word`` is a unit where a space stands between it and its number."""
    if len(word) == 1 and word.isalpha():
        return word in _SPACED_LETTERS
    if word.lower() in _SELDOM and word not in _SMALL:
        return False
    return unit_name(word) is not None


def plural(name: str) -> str:
    """The name of more than one: "square foot" → square feet, "mile per hour" → miles per hour."""
    first, per, rest = name.partition(" of " if " of " in name else " per ")
    if first.endswith(_SAME) or not first:
        return name
    if first.startswith("degree"):
        return "degrees" + name.removeprefix("degree")
    words = first.split(" ")
    words[-1] = _PLURALS.get(words[-1], words[-1] + "s")
    return " ".join(words) + per + rest


TO: Final = re.compile(r"(?<=\d)[-–—~]")
"""What stands between the two numbers of a range."""


def quantities(text: str) -> str:
    """A number as a quantity, or two that a range is between."""
    return " to ".join(numbers.quantity(part) for part in TO.split(text))


def measure(amount: str, name: str) -> str:
    """``"5", "mile per hour"`` → five miles per hour."""
    said = quantities(amount)
    return f"{said} {name if amount.lstrip('-−+') == '1' else plural(name)}"


def counted(unit: str | None) -> str:
    """What stands behind a number of more than one, with a space before it: its unit, or another word."""
    if not unit:
        return ""
    name = unit_name(unit)
    return f" {plural(name)}" if name else f" {unit}"


_POURED: Final = ("grams", "kilograms", "milligrams", "liters", "milliliters", "ounces", "pounds", "cups", "teaspoons")
_KINDS: Final = ("tablespoons", "quarts", "pints", "points", "percent", "times")
SINGULAR: Final = {
    **{many: one for one, many, *_ in numbers.CURRENCIES.values()},
    **{plural(name).split(" ")[-1]: name.split(" ")[-1] for name in _NAMES.values() if " per " not in name},
    "dollars": "dollar",
    "quarters": "quarter",
    "thirds": "third",
    "halves": "half",
    "eighths": "eighth",
}
"""Last words of plurals of what is counted, and their singulars."""


def singular(said: str) -> str:
    """``"five kilometers"`` → five kilometer, as before what it measures; other words stay."""
    words, _, last = said.rpartition(" ")
    end = last.lstrip("abcdefghijklmnopqrstuvwxyz")
    last = last.removesuffix(end) if end else last
    return f"{words} {SINGULAR[last]}{end}" if last in SINGULAR else said


def stars(full: int, empty: int) -> str:
    """A rating in stars, some of them empty: three out of five stars."""
    said = f"{numbers.cardinal(str(full))} {f'out of {numbers.cardinal(str(full + empty))} ' * bool(empty)}"
    return f"{said}star{'s' * (full + empty > 1)}"


def measures(following: str | None) -> bool:
    """Whether the word ``following`` an amount may be a noun that it describes: "the $5 million deal"."""
    word = "" if following is None else following.rstrip(MARKS + CLOSING)
    return (
        word.replace("-", "").isalpha()
        and word[1:].islower()
        and word.lower() not in NO_NOUNS
        and word not in NO_NOUNS
        and not word.endswith(("ed", "ly"))
    )


def describes(said: str) -> bool:
    """Whether an amount is of a kind that describes what follows it more often than there is so much of it: sums and
    lengths, not "the 200 g sugar"."""
    return not said.endswith(_POURED + _KINDS)


def amounts(words: Sequence[str]) -> str | None:
    """Amounts of two units, the smaller one behind the greater: "2h 30m", "6′ 2″", "5 ft. 4 in."."""
    if all(map(PART.fullmatch, words)):
        parts = [(part[1], part[2].lower()) for part in map(PART.fullmatch, words) if part]
    elif len(words) in (3, 4) and words[1].lower().rstrip(".") in FEET_LIKE and words[2].isdecimal():
        small = {"ft": "in", "lb": "oz", "lbs": "oz", "h": "min", "hr": "min", "hrs": "min"}.get(
            words[1].lower().rstrip("."), "s"
        )
        parts = [(words[0], words[1].rstrip(".")), (words[2], words[3].rstrip(".") if len(words) == 4 else small)]
        if len(words) == 3 and words[1].lower().rstrip(".") != "ft":
            return None
    else:
        return None
    if [unit for _, unit in parts] == ["m"]:
        return None
    said: list[str] = []
    turned = parts[0][1] == "°"
    for amount, unit in parts:
        name = _TURNED.get(unit) if turned else "day" if unit == "d" else unit_name(_SMALLER.get(unit, unit))
        if name is None:
            return None
        said.append(measure(amount, name))
    return " ".join(said)
