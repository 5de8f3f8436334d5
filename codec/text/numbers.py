"""English words for numbers: num2words, bounded, without its hyphens and commas.

What has more than 15 digits or a leading zero is read digit by digit: it is a name (a phone, a key), not a quantity.
"""

import re
from functools import lru_cache
from typing import Any, Final, Literal

import num2words as _num2words

from codec.text.vocabulary import CURRENCY_CODES

LONGEST: Final = 15
"""How many digits a quantity has at most: beyond hundreds of trillions nobody follows the words."""

CURRENCIES: Final = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₽": ("ruble", "rubles", "kopek", "kopeks"),
    "₿": ("bitcoin", "bitcoins", "", ""),
}
"""For each sign of a currency what one and many of it are called, and its hundredths (empty where there are none)."""

_library: Any = _num2words  # The package ships no types.


@lru_cache(maxsize=4096)
def _words(number: int, to: Literal["cardinal", "ordinal", "year"]) -> str:
    return _library.num2words(number, to=to).replace(",", "").replace("-", " ")


class NoNumber(ValueError):
    """A text was taken for a number that is none."""


def digits(text: str) -> str:
    """Every digit by its name; other characters are left out."""
    return " ".join(_words(int(c), "cardinal") for c in text if c.isdecimal())


def cardinal(text: str) -> str:
    """``"1,234"`` → one thousand two hundred and thirty four.

    Raises:
        NoNumber: ``text`` holds something other than digits and commas.
    """
    plain = text.replace(",", "")
    if not plain.isdecimal():
        raise NoNumber(text)
    if len(plain) > LONGEST or (len(plain) > 1 and plain[0] == "0"):
        return digits(plain)
    return _words(int(plain), "cardinal")


def ordinal(text: str) -> str:
    """``"21"`` → twenty first."""
    plain = text.replace(",", "")
    return _words(int(plain), "ordinal") if len(plain) <= LONGEST else digits(plain)


def ending(text: str) -> str:
    """What makes a number an ordinal: ``"22"`` → nd."""
    digits = text.strip()
    return "th" if digits[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1:], "th")


def year(text: str) -> str:
    """``"1984"`` → nineteen eighty four."""
    return _words(int(text), "year")


def plural(said: str) -> str:
    """``"nineteen eighty"`` → nineteen eighties."""
    return said[:-1] + "ies" if said.endswith("y") else said + ("es" if said.endswith("x") else "s")


def pair(text: str) -> str:
    """Two digits inside a time or a name: ``"05"`` → oh five."""
    return ("oh " if text[0] == "0" else "") + cardinal(str(int(text)))


def pairs(text: str) -> str:
    """Digits of a room, a road, a flight, a product: ``"305"`` → three oh five, ``"4090"`` → forty ninety."""
    if len(text) == 3 and text[0] != "0":
        return cardinal(text) if text[1:] == "00" else f"{cardinal(text[0])} {pair(text[1:])}"
    if len(text) != 4 or text[0] == "0":
        return cardinal(text)
    if text[1:3] == "00":
        return cardinal(text)
    if text[2:] == "00":
        return f"{cardinal(text[:2])} hundred"
    return f"{cardinal(text[:2])} {pair(text[2:])}"


def phone(text: str) -> str:
    """Groups of digits, each read digit by digit: four as two pairs, whole hundreds as such. Letters stand for some."""
    text = re.sub(r"\A0([1-9]00)(?!\d)", r"0 \1", text)
    groups = [half for group in re.findall(r"\d+|[^\W\d_]+", text) for half in _halves(group)]
    said = [cardinal(g) if re.fullmatch("[1-9]00", g) else digits(g) or g for g in groups]
    return ("plus " if text[0] == "+" else "") + ", ".join(said)


def _halves(group: str) -> list[str]:
    return [group[:2], group[2:]] if len(group) == 4 and group.isdecimal() else [group]


def sign(text: str | None) -> str:
    """The sign before a number, with a space behind it."""
    return {"-": "minus ", "−": "minus ", "+": "plus ", "±": "plus or minus "}.get(text or "", "")


def quantity(text: str) -> str:
    """Digits with sign, separators and decimal point, as a quantity: ``"-3.50"`` → minus three point five zero."""
    whole, _, fraction = text.lstrip("-−+±").partition(".")
    said = sign(text[:1]) + (cardinal(whole) if whole else "zero")
    return f"{said} point {digits(fraction)}" if fraction else said


def plain_number(text: str) -> str:
    """A bare number: 1100 to 1999 and 2010 to 2099 are read as years, anything else as a quantity."""
    if len(text) == 4 and text.isascii() and text.isdigit() and (1100 <= int(text) < 2000 or 2010 <= int(text) < 2100):
        return year(text)
    return quantity(text)


_MEASURED: Final = frozenset(("16", "32", "64"))
"""Parts of an inch."""


def fraction(over: str, under: str) -> str:
    """``"1", "2"`` → one half; ``"5", "5"`` → five out of five; ``"9", "11"`` → nine eleven; large ones are "over"."""
    names = {"2": ("half", "halves"), "3": ("third", "thirds"), "4": ("quarter", "quarters")}
    if len(over) > 2 or len(under) > 2 or int(under) < 2:
        return f"{cardinal(over)} over {cardinal(under)}"
    if 10 <= int(over) <= 12 and 1 < int(under) < 10:  # Nobody writes such a fraction: it is a day.
        return f"{cardinal(over)} {cardinal(under)}"
    if over == under and len(over) == 1 or over == under == "10":
        return f"{cardinal(over)} out of {cardinal(under)}"
    if int(under) > 10 and int(over) > 1 and under not in _MEASURED:
        return f"{cardinal(over)} {cardinal(under)}"
    one, many = names.get(under, (ordinal(under), ordinal(under) + "s"))
    return f"{cardinal(over)} {one if int(over) == 1 else many}"


def power(base: str, exponent: str) -> str:
    """``"ten", "2"`` → ten squared; ``"ten", "-3"`` → ten to the minus three."""
    return f"{base} {'squared' if exponent == '2' else 'cubed' if exponent == '3' else 'to the ' + quantity(exponent)}"


def clock(hour: str, minute: str | None, half: str | None, second: str | None = None) -> str:
    """``"10", "05", "pm"`` → ten oh five p m."""
    said = cardinal(str(int(hour)))
    if minute is not None and int(minute):
        said += f" {pair(minute)}"
    elif minute is not None and half is None:
        said += " o'clock" if 1 <= int(hour) <= 12 else " hundred"
    if second is not None and int(second):
        said += f" and {cardinal(str(int(second)))} second{'s' * (int(second) > 1)}"
    return f"{said} {half[0].lower()} m" if half else said


def money(currency: str, amount: str, scale: str | None) -> str:
    """A sum in a currency, which is given by its sign or its code: ``"$", "1.50", None`` is one dollar and fifty cents.
    With a scale, "million", the currency comes after it. Codes have no hundredths."""
    one, many, hundredth, hundredths = CURRENCIES.get(currency) or (*CURRENCY_CODES[currency], "", "")
    if scale:
        return f"{quantity(amount)} {scale} {many}"
    whole, _, part = amount.partition(".")
    if part and (len(part) != 2 or not hundredth):
        return f"{quantity(amount)} {many}"
    whole = whole or "0"
    said = f"{cardinal(whole)} {one if whole == '1' else many}"
    if part and int(part):
        small = f"{cardinal(str(int(part)))} {hundredth if int(part) == 1 else hundredths}"
        return small if whole == "0" else f"{said} and {small}"
    return said
