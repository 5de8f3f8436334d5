"""Letters of Latin script as the plain ones of English."""

import unicodedata
from typing import Final

_FOLDED: Final = str.maketrans({
    "ł": "l", "ø": "o", "æ": "ae", "œ": "oe", "ß": "ss", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ŋ": "ng",
    "ħ": "h", "ŧ": "t", "ĸ": "k", "ſ": "s", "Ł": "L", "Ø": "O", "Æ": "Ae", "Œ": "Oe", "ẞ": "SS", "Đ": "D", "Ð": "D",
    "Þ": "Th", "Ŋ": "Ng", "Ħ": "H", "Ŧ": "T", "’": "'", "‘": "'", "ʼ": "'",
})  # fmt: skip
"""Plain forms of letters that Unicode does not decompose, and of apostrophes."""


def folded(text: str) -> str:
    """``text`` with plain letters where it has others of Latin script: "Łukasz" → Lukasz, "café" → cafe."""
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text.translate(_FOLDED))
    return "".join(c for c in parts if not unicodedata.combining(c))


def latin(letter: str) -> bool:
    """Whether a character is a letter that :func:`folded` makes plain."""
    return (plain := folded(letter)).isascii() and plain.isalpha()
