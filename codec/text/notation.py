"""Moves of chess and formulas of chemistry, letter by letter."""

import re
from typing import Final

from codec.text import numbers

_CHESS: Final = re.compile(
    r"(?=[KQRBN]|[a-h]x|[a-h][18]=)([KQRBN]?)([a-h]?[1-8]?)(x?)([a-h])([1-8])(?:=([QRBN]))?([+#]?)"
)
_CASTLES: Final = re.compile(r"O-O(-O)?([+#]?)")
_CHESSMEN: Final = {"": "", "K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}
_ENDINGS: Final = {"": "", "+": "check", "#": "mate"}
_ELEMENTS: Final = (
    "He|Li|Be|Ne|Na|Mg|Al|Si|Cl|Ar|Ca|Sc|Ti|Cr|Mn|Fe|Co|Ni|Cu|Zn|Ga|Ge|As|Se|Br|Kr|Rb|Sr|Zr|Mo|Ag|Cd|Sn|Sb|Te|Xe|Cs"
    "|Ba|Pt|Au|Hg|Pb|Bi|Ra|Th|H|B|C|N|O|F|P|S|K|V|Y|I|W|U"
)
_MOLECULE: Final = re.compile(
    rf"(?=.*\d)\d?(?:\(?(?:{_ELEMENTS})\)?\d{{0,2}}){{2,}}(?:\^?\d?[-+−])?|(?:Na|K|Li|H|Ag|Cl|F|Br)[-+−]"
    rf"|(?:Ca|Mg|Fe|Cu|Zn|Al|Pb|Ba|Mn|Co|Ni|Cr|Sn)\^?[234]\+|\d?(?:H|N|O|F|Cl|Br)2"
)
"""Elements, at least one with its number, or an ion; "NaCl", without a number, is in the vocabulary."""
_CHARGES: Final = {"+": "plus", "-": "minus", "−": "minus"}


def say_notation(core: str) -> str | None:
    """``"Nf3"`` → knight f three, ``"CaCO3"`` → C a C O three; None where it is neither."""
    if castles := _CASTLES.fullmatch(core):
        return _joined("castles", castles[1] and "long", _ENDINGS[castles[2]])
    if move := _CHESS.fullmatch(core):
        man, whence, takes, file, row, queened, end = move.groups()
        square = f"{file} {numbers.cardinal(row)}"
        becomes = queened and f"equals {_CHESSMEN[queened]}"
        return _joined(_CHESSMEN[man], characters(whence), takes and "takes", square, becomes, _ENDINGS[end])
    if not _MOLECULE.fullmatch(core):
        return None
    parts: list[str] = re.findall(r"\d+|[A-Za-z]|[-+−]", core)
    return " ".join(numbers.cardinal(part) if part.isdecimal() else _CHARGES.get(part, part) for part in parts)


def _joined(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)


def reacts(before: str, following: str | None) -> bool:
    """Whether an arrow between two words is that of a reaction: "2H₂ + O₂ → 2H₂O"."""
    return _MOLECULE.fullmatch(before) is not None and following is not None and following[:1].isalnum()


def characters(text: str) -> str:
    """Letters and digits one by one: ``"FF57"`` → F F five seven."""
    return " ".join(numbers.digits(c) if c.isdecimal() else c for c in text if c.isalnum())
