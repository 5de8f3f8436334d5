"""Words as they are read → fragments and the ends of pieces: where the model may stop, and what mark it is given there.

A *fragment* is text to be read next. A *piece* is what the model speaks in one go; it ends with a sentence, or inside
one that is too long for the model, at a clause if there is one.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from codec.text.characters import Characters
from codec.text.vocabulary import CLOSING
from engines.manifest import TextRules

SHORT: Final = 16
"""A piece shorter than so many characters does not end with its sentence: models run on after "Hi."."""
CLAUSE_SHARE: Final = 0.6
"""From this share of the longest piece on a clause ends a piece too, where the model's rules name no length of their
own. Two pieces of a sentence that just does not fit are then about equally long."""

_ENDS: Final = frozenset(".!?…。！？")
_CLAUSES: Final = frozenset(",;:，、；：")


@dataclass(frozen=True, slots=True)
class Fragment:
    """Text to be read next: words with a space before each, except where a written word was cut."""

    text: str
    start: int
    end: int
    """Which characters of the raw text the fragment stands for, the end exclusive."""
    marked: bool = False
    """Whether a mark follows at once, which comes with the next fragment (models with an alphabet of their own)."""


class Close(Enum):
    """What a piece ends with. Those that come later have the longer pause."""

    CUT = auto()
    """Nothing: the piece would have become too long."""
    CLAUSE = auto()
    SENTENCE = auto()
    LINE = auto()
    """A line of a list, a table or a poem."""
    PARAGRAPH = auto()
    HEADING = auto()


@dataclass(frozen=True, slots=True)
class PieceEnd:
    """The fragments since the last one are a piece. Several in a row are the end of one piece: what parts it from the
    next is known when that begins."""

    close: Close = Close.SENTENCE
    pause: float = 0.0
    """How many seconds of silence the author asked for."""


Item = Fragment | PieceEnd


class Pieces:
    """The open piece of one session."""

    def __init__(self, rules: TextRules) -> None:
        self._rules = rules
        self._longest = rules.longest
        self._clause = rules.clause if rules.clause is not None else CLAUSE_SHARE * self._longest
        self._characters = Characters(rules)
        self._place = 0
        """Where the last fragment ended."""
        self.spoke = False
        """Whether anything was given out since the text began, or began anew."""
        self.parted = False
        """Whether the piece had ended already when its last end was asked for."""
        self._length = 0
        """How many characters of the open piece were given out."""
        self._mark = ""
        """A clause mark that waits for the next word (models with an alphabet of their own only)."""

    def clear(self) -> None:
        """Forget the open piece."""
        self._length, self._mark, self.spoke = 0, "", False

    @property
    def long(self) -> bool:
        """Whether a clause may end the open piece."""
        return self._length >= self._clause

    def unread(self) -> str:
        """Letters, digits and signs that were left out since the last call, each once."""
        return self._characters.unread()

    def give(self, said: str, start: int, end: int, items: list[Item], *, spaced: bool, stops: bool) -> None:
        """Give out ``said``, cut where the piece would become too long.

        Args:
            said: what is read of the raw text from ``start`` to ``end``, with its marks.
            items: what is made is appended here.
            spaced: white space stood before it.
            stops: whether a full stop in it may end a sentence.
        """
        mark = said.rstrip(CLOSING)[-1:]
        self.parted = False
        for place, part in enumerate(self._characters.kept(said).split()):
            # A long number is many words; each is a part that a piece may end before.
            text = part if place == 0 and not spaced else " " + part
            if self._length and self._length + len(text) + len(self._mark) > self._longest:
                self.end(items, Close.CUT)
            self._speak(text, start, end, items)
        if mark in _ENDS and stops and self._length >= SHORT:
            self.end(items, Close.SENTENCE)
        elif mark in _CLAUSES and self.long:
            self.end(items, Close.CLAUSE)

    def _speak(self, text: str, start: int, end: int, items: list[Item]) -> None:
        if self._rules.alphabet is not None:
            body = text.strip(self._rules.marks + " ")
            mark = text.strip()[-1:] if text.strip()[-1:] in self._rules.marks else ""
            if not body:  # a mark of its own belongs to the word before; only the stronger of two is kept
                if self._length and mark and (not self._mark or mark in _ENDS):
                    self._mark = mark
                return
            text = self._mark + (" " if text[0] == " " else "") + body
            self._mark = mark
        elif not any(c.isalnum() for c in text):
            if not self._length:  # There is nothing to say yet.
                return
            text = text.lstrip()
        elif not self._length:
            text = text.lstrip()
        self._length += len(text)
        self._place, self.spoke = end, True
        items.append(Fragment(text, start, end, bool(self._mark)))

    def end(self, items: list[Item], close: Close) -> None:
        """Close the open piece, with the mark it must end with."""
        self.parted = not self._length
        if not self._length:
            self._mark = ""
            return
        mark, ends = self._mark, self._rules.ends
        if ends and (not mark or mark not in ends):
            # A sentence that goes on must not fall as at a full stop, if the model can end a piece otherwise.
            mark = "," if close in (Close.CUT, Close.CLAUSE) and "," in ends else ends[0]
        if mark:
            items.append(Fragment(mark, self._place, self._place))
        items.append(PieceEnd(close))
        self._length, self._mark = 0, ""
