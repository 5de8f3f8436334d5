"""Text that arrives in deltas → what can be spoken already, piece by piece.

A fragment (codec/text/pieces.py) is given out as soon as nothing that follows can change it: a word once it is
complete, an expression like "March 3, 2024" once the word after it shows that it has ended.

Where fragments and pieces end is a function of the text alone, never of how it was cut: looking ahead means waiting.
"""

import re
from dataclasses import replace
from typing import Final

from codec.text import abbreviations, acronyms, context, english, groups, units
from codec.text.abbreviations import abbreviation, capital, ends_here, strip
from codec.text.addresses import say_path
from codec.text.dates import month
from codec.text.notation import reacts
from codec.text.numbers import NoNumber
from codec.text.pieces import Close, Fragment, Item, PieceEnd, Pieces
from codec.text.vocabulary import (
    ABBREVIATIONS,
    ARROWS,
    BOUGHT,
    CLOSING,
    DETERMINERS,
    LIQUIDS,
    MARKS,
    MONTH,
    OPENING,
    PACKAGES,
    ROADS,
    SIGNS,
    SURE_DAYS,
)
from codec.text.words import Gap, Words, WrittenWord
from engines.manifest import TextRules

_DASHES: Final = frozenset(("-", "--", "---", "–", "—"))
_PAUSES: Final = ARROWS | _DASHES | {"|"}
"""Words that are read as a comma; dashes as a dash where the model knows one."""
_RULED: Final = re.compile(r"[|:=*_-]{4,}|[|:*_-]{3}")
"""Lines under headings, between the rows of tables, and to be filled in."""
_MARKUP: Final = str.maketrans("_", " ", "*`~#<>")
_STARS: Final = re.compile("([★⭐]+)(☆*)")
_UNREAD: Final = re.compile(r"\[\^[\w-]+\]|\A==(?=\w)|(?<=\w)==\Z|(?<=\])\([^()\s]*\)|\\[()\[\]]")
"""What is not read: the target of a Markdown link, and the brackets of formulas."""
_PARTED: Final = re.compile(r"[—…]|\.\.\.|--")
"""What parts two words that have no white space between them."""
_DOTTED: Final = re.compile(r"(?:[^\W\d_]\.)+[,;:]?")
"""Abbreviations of any language: z.B., p.ej."""
_UNTIL: Final = re.compile(rf"(\d{{1,2}}(?:st|nd|rd|th)?|['’]\d\d|\d{{4}})([-–])((?:{'|'.join(MONTH)})\.?)", re.I)
_MONTH_UNTIL: Final = re.compile(rf"((?:{'|'.join(MONTH)})\.?)([-–])(\d{{1,2}})", re.I)
_UNIT_UNTIL: Final = re.compile(r"([A-Za-zμ°%]{1,3})([-–])(\d[\d,.]*)")
"""The day and the month between which a range has no white space."""
_EQUALS: Final = re.compile(rf"([A-Za-zα-ω]{{1,2}})(=)([-−]?{english.QUANTITY}[.,;:!?]?)")
"""A letter and its number, which may have its unit behind it."""
_ARTICLES: Final = frozenset(("a", "an", "A", "An"))
"""Words after which a measure is in the singular: "a $20 bill", "a 5 km run"."""

_BILL: Final = re.compile(r"\$(?:[125]|[125]0|100)[.?!]")
"""A sum for which there is a bill, at the end of a sentence: "He found a $20." names nothing else."""

_CLOSES: Final = {
    Gap.NONE: Close.SENTENCE, Gap.LINE: Close.LINE, Gap.PARAGRAPH: Close.PARAGRAPH, Gap.HEADING: Close.HEADING,
}  # fmt: skip


class TextStream:
    """Streaming normaliser and splitter of one session."""

    def __init__(self, rules: TextRules, *, english: bool = True) -> None:
        """
        Args:
            rules: what the model's text may hold.
            english: turn digits, dates, units and abbreviations into words.
        """
        self._english = english
        self._breaks = english and rules.clause is not None
        """Whether a piece may end at a pause without a mark: models whose rules name a clause's length."""
        self._spells = english and rules.alphabet is not None and rules.sounds is None
        """Whether what is read by its letters is given letter by letter: models that know no capitals."""
        self._before = self._earlier = ""
        """The written word that was given out last, and the one before it."""
        self._code = False
        """Whether a span of code is open, in which "|" joins commands."""
        self._words = Words(compatible=english)
        self._group: list[WrittenWord] = []
        self._pieces = Pieces(rules)
        self._dash = "—" if "—" in rules.marks else ","

    def feed(self, text: str) -> list[Item]:
        """Append ``text`` and return the fragments that no later text can change."""
        items: list[Item] = []
        for word in self._words.feed(text):
            self._take_apart(word, items)
        return items

    def flush(self) -> list[Item]:
        """Everything that was held back, and the end of the piece."""
        items: list[Item] = []
        for word in self._words.flush():
            self._take_apart(word, items)
        self._close(None, items)
        self._pieces.end(items, Close.SENTENCE)
        if self._words.pause:
            items.append(PieceEnd(Close.SENTENCE, self._words.pause))
        self._before, self._earlier, self._code = "", "", False
        self._pieces.spoke = False
        return items

    def clear(self, skipped: int) -> None:
        """Forget what was held back; ``skipped`` characters were never fed. Places go on counting."""
        self._words.clear(skipped)
        self._pieces.clear()
        self._group.clear()
        self._before, self._earlier, self._code = "", "", False

    def unread(self) -> str:
        """Letters, digits and signs that were left out since the last call, each once."""
        return self._pieces.unread()

    # ---------------------------------------------------------------- words → groups

    def _take_apart(self, word: WrittenWord, items: list[Item]) -> None:
        """Take a word, or the three that "15–May" of "April 15–May 1" is, or "A=440" of "A=440 Hz"."""
        if word.text.isalnum():  # Nothing parts it.
            self._take(word, items)
            return
        last = self._group[-1].text if self._group else self._before
        until = (_UNTIL if month(last.rstrip(".")) else _EQUALS).fullmatch(word.text)
        if last.isdecimal():
            until = _MONTH_UNTIL.fullmatch(word.text)
            unit = _UNIT_UNTIL.fullmatch(word.text)
            until = unit if unit and units.spaced_unit(unit[1]) else until
        for part in until.groups() if until else ():
            self._take(replace(word, text=part), items)
            word = replace(word, spaced=True, before=Gap.NONE, pause=0.0)
        if not until:
            self._take(word, items)

    def _take(self, word: WrittenWord, items: list[Item]) -> None:
        if word.before is not Gap.NONE or word.pause:
            self._close(None, items)
            self._pieces.end(items, _CLOSES[word.before])
            if self._pieces.spoke and (self._pieces.parted or word.pause):
                items.append(PieceEnd(_CLOSES[word.before], word.pause))
        if self._group:
            written = [w.text for w in self._group]
            if self._english and word.spaced and len(written) < groups.LONGEST and groups.binds(written, word.text):
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
        return (
            groups.may_bind([w.text for w in self._group])
            or (len(self._group) > 1 and last[-1] == ")")
            or abbreviations.waits(last)
            or context.waits(last, self._before, self._earlier)
            or (self._spells and acronyms.waits(last))
        )

    def _close(self, following: WrittenWord | None, items: list[Item]) -> None:
        """Give out the group. ``following`` is looked at only where :meth:`_must_wait` said so."""
        if not self._group:
            return
        group, self._group = self._group, []
        if len(group) > 2 and group[-1].text in _PAUSES:  # Nothing followed, so the dash parts nothing.
            *self._group, dash = group
            self._close(dash, items)
            group = [dash]
        # A group that was not read as one falls apart into its words.
        said = None if abbreviations.faces(group[-1].text, _text(following)) else self._expression(group)
        if said is not None:
            said = self._alone(said, group[-1].text, _text(following))
            if self._before.lower() == "the":
                said = said.removeprefix("the ")
            found = abbreviation(group[-1].text)
            if found is not None:  # The stop of "10 a.m." may end the sentence too.
                said = said.replace(".,", ",").rstrip(".")
                if said[-1] not in MARKS and ends_here(found, _text(following)):
                    said += "."
            self._give(said, group, following, items)
            return
        for word, after in zip(group, [*group[1:], following], strict=True):
            self._give(self._word(word, _text(after)), [word], after, items)

    # ---------------------------------------------------------------- groups → speech

    def _expression(self, group: list[WrittenWord]) -> str | None:
        if len(group) == 1:
            return None
        lead, begun, _ = strip(group[0].text)
        lead = lead if begun else ""  # The sign stands alone.
        mark, core, tail = strip(group[-1].text)
        # The mark belongs to the number, as in "Nov '23".
        core = f"{mark[-1:]}{core}" if mark[-1:] in ("'", "’") else core
        if group[-1].text.lower().rstrip(",;:!?").endswith(".m."):
            core, tail = group[-1].text.rstrip(",;:!?"), group[-1].text[len(group[-1].text.rstrip(",;:!?")) :]
        words = [group[0].text[len(lead) :], *(w.text for w in group[1:-1]), core or group[-1].text]
        try:
            said = groups.say_group(words)
        except NoNumber:  # The words only look like an expression ("£1m ft"), so they are read one by one.
            return None
        return None if said is None else _read(lead, begun, tail, said)

    def _word(self, word: WrittenWord, following: str | None) -> str:
        if not self._english:
            return word.text
        said = self._english_word(word, following)
        return acronyms.letters(said, self._before, following or "") if self._spells else said

    def _english_word(self, word: WrittenWord, following: str | None) -> str:
        text = word.text
        if text.isalnum():
            lead, core, tail = "", text, ""
        elif (sign := self._sign(word, following)) is not None:
            return sign
        else:
            lead, core, tail = strip(_UNREAD.sub(lambda m: " " * m[0].startswith("<br"), text).strip())
        if tail[:1] == "." and abbreviations.short_unit(core) and not ends_here(core, following):
            return _read(lead, core, tail[1:], self._alone(english.say_word(core), core, following))
        if tail.startswith("!)") and "(" in core:  # The factorial of "O(n!)".
            core, tail = core + "!", tail[1:]
        if said := abbreviations.direction(core, self._before, following):
            return _read(lead, core, tail.removeprefix("."), said)
        if said := abbreviations.full(core, tail, self._before, following):
            return _read(lead, core, tail[1:] if tail[:1] == "." and core not in SURE_DAYS else tail, said)
        found = abbreviation(text)
        if found is not None and found not in ABBREVIATIONS and not ends_here(found, following):
            return _read(lead, core, tail[1:], english.say_word(core))  # The word is an initial, or several: "D.C."
        if found is not None and found in ABBREVIATIONS:
            ends = ends_here(found, following)
            said = ABBREVIATIONS[found]
            named = self._before[:1].isupper() or self._before[:1].isdecimal()
            followed = capital(following) and not abbreviations.compass(following)
            if found in ROADS and core[0].isupper() and named and ("," in tail or not followed):
                said = ROADS[found]
            return _read(lead, core, tail[1:] if "," in tail else tail if ends else "", said)
        counted = context.read_before(core, tail, following) or context.read_after(
            self._before, self._earlier, core, tail, following
        )
        if counted:
            return _read(lead, core, tail.lstrip("!") if "factorial" in counted else tail, counted)
        if said := context.marked(lead, core, self._before):
            return _read(lead[:-1], core, tail, said + " factorial" * tail.startswith(")!"))
        parts = [core] if core.isalnum() else [p for p in _PARTED.split(core) if p]
        said = f"{self._dash} ".join(english.say_word(part) for part in parts)
        if any(map(str.isdecimal, core)):
            said = self._alone(said, text, following)
        return _read(lead, core, tail, said)

    def _sign(self, word: WrittenWord, following: str | None) -> str | None:
        """What a word says that is a sign, or has one at its front; None where it is read as any other."""
        text = word.text
        if word.before is not Gap.NONE and text == "+":  # The sign begins a list's item.
            return ""
        if text == "$" and word.before is not Gap.NONE:  # The prompt of a command.
            return ""
        if text in ("<", ">") and self._before and word.before is Gap.NONE:
            return "," if text == ">" and context.steps(self._before, following) else SIGNS[text]
        if text == "*" and word.before is Gap.NONE and context.multiplies(self._before, following):
            return "times"
        if said := context.operates(text, self._before, following):
            return said
        if text == "/" and context.divides(self._before, following):
            return "over"
        if text in _DASHES:
            if text in ("-", "–") and context.subtracts(self._before, following):
                return "minus"
            return "to" if context.spans(self._before, self._earlier, following) else self._dash
        if text in ARROWS and reacts(self._before, following):
            return "yields"
        if text == "|" and self._code:
            return "pipe"
        counts = following == "of" or (word.before is Gap.NONE and (text != "#" or (following or "")[:1].islower()))
        if text.rstrip(MARKS) == "#" and counts:
            return f"number{text[1:]}"
        if text in _PAUSES:
            return ","
        if text in SIGNS and (len(text) > 1 or text in "√∛∑∏∫"):
            return SIGNS[text]
        if stars := _STARS.fullmatch(text.rstrip(MARKS)):
            if self._before[:1].isdecimal():
                return "stars"
            return units.stars(len(stars[1]), len(stars[2]))
        if _RULED.fullmatch(text.rstrip(MARKS)) or (text in ("[x]", "[X]") and self._before == "-"):
            return ""
        if text == "*" and self._before.upper() == "SELECT":
            return "star"
        bare = text.rstrip(MARKS + CLOSING)
        if said := say_path(bare.lstrip("`\"'(")):
            return said + text[len(bare) :].translate(_MARKUP)
        return None

    def _alone(self, said: str, last: str, following: str | None) -> str:
        """The amount ``said``, whose last written word is ``last``, in the singular where it describes what follows:
        "a $20 bill", "the $5 million deal", "two 27″ screens"."""
        if said.endswith("points") and last.startswith("pts") and _core(following) in LIQUIDS:
            return said.removesuffix("points") + "pints"
        if self._before in _ARTICLES and _BILL.fullmatch(last):
            return f"{units.singular(said)} bill"
        if self._before in _ARTICLES or (last[-1:] == ")" and _core(following) in PACKAGES):
            return units.singular(said)
        if last.endswith("′′") and (following or "")[:2].isupper():
            return units.singular(said)
        if last[-1:] not in MARKS + CLOSING and _core(following) in BOUGHT:
            return units.singular(said)
        if last[-1:] in MARKS + CLOSING or not units.measures(following):
            return said
        owned = self._before.lower() in DETERMINERS or self._before.endswith(("'s", "’s"))
        if last.endswith("′′") or (owned and units.describes(said)):
            return units.singular(said)
        return said

    def _give(self, said: str, group: list[WrittenWord], following: WrittenWord | None, items: list[Item]) -> None:
        """Give out what one group says. A full stop that belongs to an abbreviation ends no sentence."""
        word = group[0]
        if self._english:
            found = abbreviation(word.text)
            stops = found is None or ends_here(found, _text(following))
        else:
            stops = _DOTTED.fullmatch(word.text) is None
        if self._breaks and self._pieces.long and english.begins_clause(self._before, word.text):
            self._pieces.end(items, Close.CLAUSE)
        if word.before is not Gap.NONE:
            self._code = False
        self._code ^= sum(w.text.count("`") for w in group) % 2 == 1
        self._earlier, self._before = [self._before, *(w.text for w in group)][-2:]
        self._pieces.give(said, word.start, group[-1].end, items, spaced=word.spaced, stops=stops)


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


def _core(following: str | None) -> str:
    return (following or "").strip(OPENING + MARKS + CLOSING)


def _text(word: WrittenWord | None) -> str | None:
    return None if word is None else word.text


def _read(lead: str, core: str, tail: str, said: str) -> str:
    """What is said of a word with the marks around it: markup is nothing, some signs before a number are words."""
    return english.opening(lead, core, tail).translate(_MARKUP) + said + tail.translate(_MARKUP)
