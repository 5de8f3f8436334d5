"""Raw text → words with their places, as it arrives.

A word ends at white space, after the marks of scripts without spaces, or after 64 characters; so where it ends does
not depend on what comes later, and memory is bounded. Control characters are white space.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

LONGEST_WORD: Final = 64
"""Characters. Longer runs (keys, text without spaces) are cut there."""

BREAKS: Final = frozenset("。！？；，、：")
"""After these a word ends without white space."""

_RAISED: Final = re.compile(r"(?:(?<=[0-9])|(?<=\b[a-ln-zA-Z]))(?=[⁺⁻]?[⁰¹²³⁴-⁹])")
_MIXED: Final = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
"""Where NFKC would make another number of it: "10²" is not 102, "x²" not x2 ("m²" is a unit), "3½" not 31/2."""


_PLAIN: Final = str.maketrans({"\u2044": "/", "\u2010": "-"})
"""NFKC's fraction slash and hyphen."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it was written, marks included, in the splitter's normal form, without invisible characters."""

    text: str
    start: int
    end: int
    """Characters since the stream began, as they arrived."""
    spaced: bool
    """White space or nothing stands before it."""
    paragraph: bool
    """A blank line stands before it, or a line break that ends a heading or begins a list item or a row of a table."""


def _glued(held: Sequence[str], c: str) -> bool:
    """Whether a sentence begins with ``c`` without white space before it ("… done.Next …"): deltas often lack it."""
    return (
        c.isupper()
        and len(held) >= 3
        and held[-1] in ".!?"
        and held[0] != "`"
        and held[-2].islower()
        and held[-3].isalpha()
        and not {"/", "@", "_"}.intersection(held)
        and "".join(held[:4]).lower() not in ("www.", "ph.")
    )


class Words:
    """Streaming splitter: :meth:`feed` deltas, :meth:`flush` at the end."""

    def __init__(self, *, compatible: bool = True) -> None:
        """``compatible``: NFKC, which writes "５" and "½" as "5" and "1/2" ("3½" as "3-1/2", "10²" as "10^2"); else
        NFC, which changes no sign."""
        self._form: Literal["NFKC", "NFC"] = "NFKC" if compatible else "NFC"
        self._offset = 0
        self._held: list[str] = []
        """Characters of the unfinished word."""
        self._start = 0
        self._spaced = True
        self._lines = 1
        """Line breaks in the white space before it; the beginning of the text counts as one."""
        self._headed = False
        """Whether the line is a heading."""

    def feed(self, text: str) -> list[Word]:
        """The words that ``text`` completes."""
        found: list[Word] = []
        for place, c in enumerate(text, self._offset):
            if c.isspace() or unicodedata.category(c) in ("Cc", "Cs"):
                if self._held:
                    self._end(place, found)
                self._spaced = True
                self._lines += c == "\n"
                continue
            if self._held and (len(self._held) >= LONGEST_WORD or (self._held[-1] in BREAKS and c not in BREAKS)):
                self._end(place, found)
                self._spaced = False
            elif _glued(self._held, c):
                self._end(place, found)
                self._spaced = True
            if not self._held:
                self._start = place
            self._held.append(c)
        self._offset += len(text)
        return found

    def flush(self) -> list[Word]:
        """The unfinished word, if any; what is fed next begins anew."""
        found: list[Word] = []
        if self._held:
            self._end(self._offset, found)
        self._spaced, self._lines, self._headed = True, 1, False
        return found

    def clear(self, skipped: int) -> None:
        """Forget the unfinished word; ``skipped`` characters that were never fed count for the places."""
        self._held.clear()
        self._offset += skipped
        self._spaced, self._lines, self._headed = True, 1, False

    def _end(self, place: int, found: list[Word]) -> None:
        raw = "".join(self._held)
        text = "".join(c for c in raw if unicodedata.category(c) not in ("Cf", "Me") and c != "\ufe0f")
        if self._form == "NFKC":
            text = _MIXED.sub("-", _RAISED.sub("^", text))
        text = unicodedata.normalize(self._form, text)
        listed = raw in ("-", "*", "•", "–") or raw[0] in "|#" or (raw[:-1].isdigit() and raw[-1] in ".)")
        paragraph = self._lines > 1 or (self._lines == 1 and (listed or self._headed))
        if self._lines:
            self._headed = raw.strip("#") == ""
        # NFKC may make white space out of a ligature or a stand-alone accent; a word has none.
        text = "".join(text.split()).translate(_PLAIN)
        if text:
            found.append(Word(text, self._start, place, self._spaced, paragraph))
        self._held.clear()
        self._lines = 0
