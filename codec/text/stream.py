"""Text that arrives in deltas → what can be spoken already, piece by piece.

A *fragment* is given out as soon as nothing that follows can change it: a word once it is complete, an expression like
"March 3, 2024" once the word after it shows that it has ended. A *piece* is what the model speaks in one go; it ends
with a sentence, or inside one that is too long for the model, at a clause if there is one.

Where fragments and pieces end is a function of the text alone, never of how it was cut: looking ahead means waiting.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from codec.text import english
from codec.text.vocabulary import (
    ABBREVIATIONS,
    ARROWS,
    BEFORE_NAMES,
    CLOSING,
    DAYS,
    MARKS,
    MONTH,
    OPENERS,
    OPENING,
    ROADS,
    SIGNS,
    ZONES,
)
from codec.text.words import Word, Words
from engines.manifest import TextRules

SHORT: Final = 16
"""Characters of a piece below which a sentence end does not end it: models run on after "Hi."."""
CLAUSE_SHARE: Final = 0.6
"""Of the longest piece; from there on a clause ends it too, where the model's rules name no length of their own."""
MAX_GROUP: Final = 6

_ENDS: Final = frozenset(".!?…。！？")
_CLAUSES: Final = frozenset(",;:，、；：")
_PLAIN_MARKS: Final = str.maketrans("。！？；，、：…", ".!?;,,:.")
_PAUSES: Final = ARROWS | {"-", "--", "---", "–", "—", "|"}
"""Words that are read as a comma."""
_RULED: Final = re.compile(r"[|:=*_-]{4,}|[|:*_-]{3}")
"""Lines under headings and between the rows of tables."""
_MARKUP: Final = str.maketrans("_", " ", "*`~#<>")
_UNREAD: Final = re.compile(r"(?<=\])\([^()\s]*\)|</?(?:b|i|u|p|br|em|sub|sup|code|strong)/?>|\\[()\[\]]", re.I)
"""Where a Markdown link goes to, HTML, and brackets of formulas."""
_DOTTED: Final = re.compile(r"(?:[^\W\d_]\.)+[,;:]?")
"""Abbreviations of any language: z.B., p.ej."""
_ARTICLES: Final = frozenset(("a", "an", "A", "An"))
"""After these a measure is not many: "a $20 bill", "a 5 km run"."""
_AFTER_TIMES: Final = ZONES | DAYS.keys() | MONTH.keys()
"""What may follow "a.m." in the same sentence although it has a capital."""
_INITIAL: Final = re.compile(r"[A-HJ-Z]|(?:[^\W\d_]\.)+[^\W\d_]")


@dataclass(frozen=True, slots=True)
class Fragment:
    """Text to be read next: words with a space before each, except where a written word was cut."""

    text: str
    start: int
    end: int
    """Characters of the raw text that it stands for."""


@dataclass(frozen=True, slots=True)
class PieceEnd:
    """The fragments since the last one are a piece."""


Item = Fragment | PieceEnd


class TextStream:
    """Streaming normaliser and splitter of one session."""

    def __init__(self, rules: TextRules, *, english: bool = True) -> None:
        """
        Args:
            rules: what the model's text may hold.
            english: turn digits, dates, units and abbreviations into words.
        """
        self._rules, self._english = rules, english
        self._longest = rules.longest
        self._clause = rules.clause if rules.clause is not None else CLAUSE_SHARE * self._longest
        self._breaks = english and rules.clause is not None
        """Whether a piece may end at a pause without a mark: models whose rules name a clause's length."""
        self._before = ""
        """The word given out last."""
        self._words = Words(compatible=english)
        self._group: list[Word] = []
        self._length = 0
        """Characters given out of the open piece."""
        self._place = 0
        """Where the last fragment ended."""
        self._mark = ""
        """A clause mark that waits for the next word (models with an alphabet of their own only)."""

    def feed(self, text: str) -> list[Item]:
        """What ``text`` makes certain."""
        items: list[Item] = []
        for word in self._words.feed(text):
            self._take(word, items)
        return items

    def flush(self) -> list[Item]:
        """Everything that was held back, and the end of the piece."""
        items: list[Item] = []
        for word in self._words.flush():
            self._take(word, items)
        self._close(None, items)
        self._end(items)
        return items

    def clear(self, skipped: int) -> None:
        """Forget what was held back; ``skipped`` characters were never fed. Places go on counting."""
        self._words.clear(skipped)
        self._group.clear()
        self._length, self._mark, self._before = 0, "", ""

    # ---------------------------------------------------------------- words → groups

    def _take(self, word: Word, items: list[Item]) -> None:
        if word.paragraph:
            self._close(None, items)
            self._end(items)
        if self._group:
            written = [w.text for w in self._group]
            if self._english and word.spaced and len(written) < MAX_GROUP and english.binds(written, word.text):
                self._group.append(word)
            else:
                self._close(word, items)
        if not self._group:
            self._group = [word]
        if not self._must_wait():
            self._close(None, items)

    def _must_wait(self) -> bool:
        """Whether the next word may change how the group is read, or whether a sentence ends with it."""
        if not self._english:
            return False
        last = self._group[-1].text
        return english.may_bind([w.text for w in self._group]) or _abbreviation(last) is not None

    def _close(self, following: Word | None, items: list[Item]) -> None:
        """Give out the group. ``following`` is looked at only where :meth:`_must_wait` said so."""
        if not self._group:
            return
        group, self._group = self._group, []
        if len(group) > 2 and group[-1].text in _PAUSES:  # nothing followed that a dash is between
            *self._group, dash = group
            self._close(dash, items)
            group = [dash]
        # A group that was not read as one falls apart into its words.
        said = self._expression(group)
        if said is not None:
            if self._before in _ARTICLES:
                said = english.singular(said)
            found = _abbreviation(group[-1].text)
            if found is not None:  # the stop of "10 a.m." or "6 ft." may end the sentence as well
                said = said.replace(".,", ",").rstrip(".")
                if said[-1] not in MARKS and _ends_here(found, following):
                    said += "."
            self._give(said, group[0], group[-1].end, following, items)
            return
        for word, after in zip(group, [*group[1:], following], strict=True):
            self._give(self._word(word.text, after), word, word.end, after, items)

    # ---------------------------------------------------------------- groups → speech

    def _expression(self, group: list[Word]) -> str | None:
        if len(group) == 1:
            return None
        lead, begun, _ = _strip(group[0].text)
        lead = lead if begun else ""  # a lone sign
        _, core, tail = _strip(group[-1].text)
        if group[-1].text.lower().rstrip(",;:!?").endswith(".m."):
            core, tail = group[-1].text.rstrip(",;:!?"), group[-1].text[len(group[-1].text.rstrip(",;:!?")) :]
        words = [group[0].text[len(lead) :], *(w.text for w in group[1:-1]), core or group[-1].text]
        said = english.say_group(words)
        return None if said is None else _read(lead, begun, tail, said)

    def _word(self, text: str, following: Word | None) -> str:
        if not self._english:
            return text
        if text in _PAUSES:
            return ","
        if text in SIGNS and len(text) > 1:
            return SIGNS[text]
        if _RULED.fullmatch(text):
            return ""
        lead, core, tail = _strip(_UNREAD.sub(lambda m: " " * m[0].startswith("<br"), text).strip())
        found = _abbreviation(text)
        if found is not None and found not in ABBREVIATIONS and not _ends_here(found, following):
            return _read(lead, core, tail[1:], english.say_word(core))  # an initial, or several: "D.C."
        if found is not None and found in ABBREVIATIONS:
            ends = _ends_here(found, following)
            said = ABBREVIATIONS[found]
            if found in ROADS and core[0].isupper() and ("," in tail or not _capital(following)):
                said = ROADS[found]
            return _read(lead, core, tail[1:] if "," in tail else tail if ends else "", said)
        if counted := english.roman(self._before, core):
            return _read(lead, core, tail, counted)
        if self._rules.alphabet is not None:
            core = english.spelled(core)
        parts = [p for p in re.split(r"[—…]|\.\.\.|--", core) if p] if not core.isalpha() else [core]
        said = ", ".join(english.say_word(part) for part in parts)
        if self._before in _ARTICLES and any(c.isdecimal() for c in core):
            said = english.singular(said)
        return _read(lead, core, tail, said)

    def _give(self, said: str, word: Word, end: int, following: Word | None, items: list[Item]) -> None:
        """Give out what one group says, cut where the piece would become too long."""
        ends = said.rstrip(CLOSING)[-1:] in _ENDS and not (
            (found := _abbreviation(word.text)) is not None and not _ends_here(found, following)
            if self._english
            else _DOTTED.fullmatch(word.text)
        )
        clause = said.rstrip(CLOSING)[-1:] in _CLAUSES
        if self._breaks and self._length >= self._clause and english.begins_clause(self._before, word.text):
            self._end(items)
        self._before = word.text
        for place, part in enumerate(self._allowed(said).split()):
            # A long number is many words; each is a part that a piece may end before.
            text = part if place == 0 and not word.spaced else " " + part
            if self._length and self._length + len(text) + len(self._mark) > self._longest:
                self._end(items)
            self._speak(text, word.start, end, items)
        if ends and self._length >= SHORT:
            self._end(items)
        elif clause and self._length >= self._clause:
            self._end(items)

    def _allowed(self, said: str) -> str:
        """``said`` in the model's letters and marks."""
        kept = "".join(c for c in said if unicodedata.category(c) not in ("So", "Co", "Cn"))
        alphabet = self._rules.alphabet
        if alphabet is None:
            return kept
        if not any(c.isupper() for c in alphabet):
            kept = kept.casefold()
        folded = unicodedata.normalize("NFKD", kept.replace("’", "'").replace("‘", "'").translate(_PLAIN_MARKS))
        plain = "".join(
            c if c in alphabet or c in self._rules.marks else "" if unicodedata.combining(c) else " " for c in folded
        )
        # Apostrophes are letters inside a word only; of several marks the last counts.
        inner = re.sub(r"(?<![^\W_])'|'(?![^\W_])", " ", plain)
        marks = re.escape(self._rules.marks)
        single = re.sub(rf"[{marks}](?=[{marks} ]*[{marks}])", "", inner)
        return re.sub(rf"([{marks}])(?=[^\s{marks}])", r"\1 ", re.sub(rf" +([{marks}])", r"\1", single))

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
            if not self._length:  # nothing to say yet
                return
            text = text.lstrip()
        elif not self._length:
            text = text.lstrip()
        self._length += len(text)
        self._place = end
        items.append(Fragment(text, start, end))

    def _end(self, items: list[Item]) -> None:
        """Close the open piece, with the mark it must end with."""
        if not self._length:
            self._mark = ""
            return
        mark = self._mark
        if self._rules.ends and (not mark or mark not in self._rules.ends):
            mark = self._rules.ends[0]
        if mark:
            items.append(Fragment(mark, self._place, self._place))
        items.append(PieceEnd())
        self._length, self._mark = 0, ""


def spoken_text(text: str, rules: TextRules, *, english: bool) -> str:
    """All of ``text`` as it is read, in one string; "" where there is nothing to read."""
    stream = TextStream(rules, english=english)
    said, ended = "", False
    for item in stream.feed(text) + stream.flush():
        if isinstance(item, Fragment):
            gap = " " if said and not item.text.startswith(" ") and (ended or said[-1] in MARKS) else ""
            said += gap + item.text
            ended = False
        else:
            ended = True
    return said


def _read(lead: str, core: str, tail: str, said: str) -> str:
    """What is said of a word with the marks around it: markup is nothing, some signs before a number are words."""
    return english.opening(lead, core, tail).translate(_MARKUP) + said + tail.translate(_MARKUP)


def _strip(text: str) -> tuple[str, str, str]:
    """Marks before the word, the word, marks after it."""
    rest = text.lstrip(OPENING)
    lead = text[: len(text) - len(rest)]
    core = rest.rstrip(MARKS + CLOSING)
    if not core and rest:
        return lead, "", rest
    return lead, core, rest[len(core) :]


def _abbreviation(text: str) -> str | None:
    """The abbreviation or initial that ``text`` is, in lower case without its last stop; None if it is none."""
    _, core, tail = _strip(text)
    if not tail.startswith(".") or core == "EST":  # the time zone
        return None
    if core.lower() in ABBREVIATIONS or _INITIAL.fullmatch(core):
        return core.lower()
    return None


def _capital(following: Word | None) -> bool:
    return following is not None and following.text[:1].isupper()


def _ends_here(abbreviation: str, following: Word | None) -> bool:
    """Whether the stop of an abbreviation ends the sentence as well."""
    if abbreviation in BEFORE_NAMES or len(abbreviation) == 1:
        return following is None
    if following is None:
        return True
    title = _abbreviation(following.text) in BEFORE_NAMES
    word = following.text.strip(OPENING + CLOSING + MARKS)
    if abbreviation in ("a.m", "p.m"):
        return word[:1].isupper() and word.lower() not in _AFTER_TIMES
    if "." in abbreviation or abbreviation in ("jr", "sr"):
        return word[:1].isupper() and word.lower() in OPENERS
    return word[:1].isupper() and not title
