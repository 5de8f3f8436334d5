"""Raw text → words with their places, as it arrives.

A word ends at white space, after the marks of scripts without spaces, or after 64 characters; so where it ends does
not depend on what comes later, and memory is bounded. Control characters are white space.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Literal

from codec.text.markup import Break, Markup, Passed
from codec.text.units import unit_name

LONGEST_WORD: Final = 64
"""How many characters a word has at most; longer runs (keys, text without spaces) are cut there. No English word that
anybody writes is longer, and every pattern stays quick."""

LONGEST_PAUSE: Final = 10.0
"""How many seconds several breaks in a row may ask for together: as long as SSML's usual limit for one."""
WRAPPED: Final = 55
"""How many characters make a line so long that it may have been wrapped at its end, as mail and code are at 65 to 80:
no pause is read there."""

BREAKS: Final = frozenset("。！？；，、：")
"""The marks after which a word ends without white space."""

_RAISED: Final = re.compile(r"(?:(?<=[0-9₀-₉)\]])|([A-Za-zµÀ-ω]+(?:/[A-Za-z]+)?))(?=([⁺⁻]?[⁰¹²³⁴-⁹]))")
_MIXED: Final = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
"""The places at which NFKC would join what is no one number: "10²" is not 102, "x²" not x2 (but "m²" is a unit), and
"3½" not 31/2."""


_ISOTOPE: Final = re.compile("([⁰¹²³⁴-⁹]{1,3})([A-Z][a-z]?)")
"""The number of an isotope stands before its element, and is read after it."""
_INCHES: Final = re.compile(r"""\(?[\d./'′x×-]*\d"(?:[x×][\d.]+")?[.,;:!?)]*""")
_PLAIN: Final = str.maketrans({"\u2044": "/", "\u2010": "-"})
"""NFKC's fraction slash and hyphen."""


def _powered(m: re.Match[str]) -> str:
    unit = unicodedata.normalize("NFKC", f"{m[1]}{m[2]}") if m[1] else None
    return m[0] if unit and unit_name(unit) else f"{m[1] or ''}^"


class Gap(Enum):
    """What the white space between two words means. Those that come later are stronger."""

    NONE = auto()
    LINE = auto()
    """A line break after a short line, or before a list item or a row of a table."""
    PARAGRAPH = auto()
    """A blank line."""
    HEADING = auto()
    """The end of a heading."""


@dataclass(frozen=True, slots=True)
class WrittenWord:
    """A word as it was written, marks included, in the splitter's normal form, without invisible characters."""

    text: str
    start: int
    end: int
    """Where the word stands, in characters since the stream began, as they arrived."""
    spaced: bool
    """Whether white space, or nothing, stands before the word."""
    before: Gap = Gap.NONE
    """What parts the word from the one before."""
    pause: float = 0.0
    """How many seconds of silence before the word the author asked for (``<break>``)."""


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
        """``compatible``: NFKC, which writes "５" and "½" as "5" and "1/2" ("3½" as "3-1/2", "10²" as "10^2"), and
        markup is taken out; else NFC, which changes no sign, and nothing is taken out."""
        self._form: Literal["NFKC", "NFC"] = "NFKC" if compatible else "NFC"
        self._markup = Markup() if compatible else None
        self._offset = 0
        self._begin()

    def _begin(self) -> None:
        self._held: list[str] = []
        """The characters of the unfinished word."""
        self._start = 0
        self._spaced = True
        self._lines = 1
        """How many line breaks the white space before the word has; the beginning of the text counts as one."""
        self._headed = False
        """Whether the line is a heading."""
        self._column = self._length = 0
        """How many characters the line has so far, and how many the line before had."""
        self.pause = 0.0
        """How many seconds of silence were asked for since the last word."""
        self._quoted = False
        """Whether a straight quotation mark is open."""

    def feed(self, text: str) -> list[WrittenWord]:
        """The words that ``text`` completes."""
        found: list[WrittenWord] = []
        offset, self._offset = self._offset, self._offset + len(text)
        self._read(self._markup.feed(text, offset) if self._markup else zip(text, range(offset, self._offset)), found)
        return found

    def flush(self) -> list[WrittenWord]:
        """The unfinished word, if any; what is fed next begins anew, and ``pause`` is what was asked for at the end."""
        found: list[WrittenWord] = []
        if self._markup:
            self._read(self._markup.flush(), found)
        if self._held:
            self._end(self._offset, found)
        pause = self.pause
        self._begin()
        self.pause = pause
        return found

    def clear(self, skipped: int) -> None:
        """Forget the unfinished word; ``skipped`` characters that were never fed count for the places."""
        if self._markup:
            self._markup.clear()
        self._offset += skipped
        self._begin()

    def _read(self, passed: Iterator[Passed], found: list[WrittenWord]) -> None:
        for one in passed:
            if isinstance(one, Break):
                if self._held:
                    self._end(one.place, found)
                self.pause = min(self.pause + one.seconds, LONGEST_PAUSE)
                self._spaced = True
                continue
            c, place = one
            if c.isspace() or unicodedata.category(c) in ("Cc", "Cs"):
                if self._held:
                    self._end(place, found)
                self._spaced = True
                if c == "\n":
                    if not self._lines:
                        self._length = self._column
                    self._lines += 1
                    self._column = 0
                continue
            self._column += 1
            if self._held and (len(self._held) >= LONGEST_WORD or (self._held[-1] in BREAKS and c not in BREAKS)):
                self._end(place, found)
                self._spaced = False
            elif _glued(self._held, c):
                self._end(place, found)
                self._spaced = True
            if not self._held:
                self._start = place
            self._held.append(c)

    def _end(self, place: int, found: list[WrittenWord]) -> None:
        raw = "".join(self._held)
        text = raw if raw.isascii() else self._composed(raw)
        if self._form == "NFKC" and '"' in text:
            text = self._measured(text)
        if text:
            found.append(WrittenWord(text, self._start, place, self._spaced, self._gap(raw), self.pause))
            self.pause = 0.0
        if self._lines:
            self._headed = raw.strip("#") == ""
        self._held.clear()
        self._lines = 0

    def _composed(self, raw: str) -> str:
        """``raw`` without invisible characters, in the splitter's normal form."""
        text = "".join(c for c in raw if unicodedata.category(c) not in ("Cf", "Me") and c != "\ufe0f")
        if self._form == "NFKC":
            if isotope := _ISOTOPE.fullmatch(text.rstrip(".,;:!?)")):
                text = f"{isotope[2]}-{unicodedata.normalize('NFKC', isotope[1])}{text[len(isotope[0]) :]}"
            text = _MIXED.sub("-", _RAISED.sub(_powered, text))
        text = unicodedata.normalize(self._form, text)
        # NFKC may make white space out of a ligature or a stand-alone accent; a word has none.
        return "".join(text.split()).translate(_PLAIN)

    def _measured(self, text: str) -> str:
        """``text``, which has a straight quotation mark, with a double prime where that stands for inches: after a
        digit, where no quotation is open."""
        if not self._quoted and _INCHES.fullmatch(text):
            return text.replace('"', "′′")
        closes = text.rstrip(".,;:!?)")[-1:] == '"' and len(text) > 1
        self._quoted = not closes and (self._quoted or text.lstrip("(")[:1] == '"')
        return text

    def _gap(self, raw: str) -> Gap:
        if not self._lines:
            return Gap.NONE
        if self._headed:
            return Gap.HEADING
        if self._lines > 1:
            return Gap.PARAGRAPH
        listed = raw in ("-", "*", "•", "–", "+", ">") or raw[0] in "|#" or (raw[:-1].isdigit() and raw[-1] in ".)")
        short = 0 < self._length < WRAPPED and (raw[0].isupper() or raw[0].isdecimal())
        return Gap.LINE if listed or short else Gap.NONE
