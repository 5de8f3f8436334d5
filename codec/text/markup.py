"""Markup in raw text: what is meant for a program and not for a reader is taken out as the text arrives.

Tags of HTML and SSML, character references (``&amp;``), fenced code, the thoughts that a language model writes between
``<think>`` and ``</think>``, the colours of a terminal, and words that were hyphenated at the end of a line. Only what
is certain is taken out: "a <b and c" has no tag in it. What may still become a tag or a reference is held back for a
few characters, at most ``LONGEST`` of them; how the text is cut changes nothing.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from codec.text import numbers
from codec.text.formula import say_formula

LONGEST: Final = 256
"""How many characters a tag or a formula has at most; what is longer is text. So much is held back at most."""
LONGEST_REFERENCE: Final = 10
"""How many characters a character reference has at most: ``&thetasym;``."""
LONGEST_PAUSE: Final = 10.0
"""How many seconds a ``<break>`` may ask for, as in the cloud services' SSML; a longer one is as long as that."""

_BREAKS: Final = frozenset(
    "p br div li ul ol tr table h1 h2 h3 h4 h5 h6 hr blockquote pre section article title par html body main header"
    " footer nav aside figure figcaption dl dt dd".split()
)
"""Tags that end a line of text."""
_PLAIN: Final = frozenset(
    "a abbr audio b big button cite code del desc em emphasis font head i img ins kbd label lang lexicon link"
    " mark media meta metadata phoneme prosody q s samp say-as small span speak strike strong sub sup t tbody"
    " td th thead time tt u var voice w amazon:effect mstts:express-as google:style".split()
)
_SKIPPED: Final = frozenset(("think", "thinking", "thought", "reasoning", "script", "style"))
"""What stands between these tags is not for the reader."""
_TAGS: Final = _BREAKS | _PLAIN | _SKIPPED | {"break"}
_SPELLING: Final = frozenset("characters character digits spell-out spell verbatim".split())
"""What ``<say-as>`` asks for where every character is read."""
_STRENGTHS: Final = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.8, "x-strong": 1.2}
"""How many seconds each ``<break strength>`` is; SSML 1.1, section 3.2.3, names the strengths without a length."""
_DECLARED: Final = {"<!--": "-->", "<?xml": "?>", "<!doctype": ">", "<![cdata[": ""}
"""What begins what is no content, and what ends that; of CDATA nothing but the beginning is left out."""
_NAME: Final = re.compile(r"</?([a-zA-Z][\w:-]*)?\Z")
_OPEN: Final = re.compile(
    r"""</?[a-zA-Z][\w:-]*(?:\s+[\w:-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>=`]+))*"""
    r"""(?:\s+(?:[\w:-]+\s*(?:=\s*(?:"[^"<]*|'[^'<]*|[^\s"'<>=`]+)?)?)?)?(?:\s*/)?\Z"""
)
"""A tag that has not ended: each attribute but the last has a value, so that "a <b and" is none."""
_ATTRIBUTE: Final = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>=`/]+))""")
_TIME: Final = re.compile(r"\s*\+?(\d{1,6}(?:\.\d{1,6})?|\.\d{1,6})\s*(ms|s)\s*")
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*([@-~])?)?")
"""What tells a terminal a colour or a place (ECMA-48, 5.4), or its beginning."""
_REFERENCE: Final = re.compile(r"&(?:#(?:\d*|[xX][0-9a-fA-F]*)|[a-zA-Z]\w*)?\Z")


_CLOSING: Final = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}
"""What a formula begins with, and ends with."""
_FORMULA: Final = re.compile(r"[\w\s\\^{}()\[\]+*/=<>≤≥≠±×÷·−.,|!':;&~-]\Z")
_PROSE: Final = re.compile(
    r"\A\s|\n|[.!?;,:] \Z|(?<![A-Za-z\\{])(?!(?:sin|cos|tan|log|exp|lim|max|min|det|mod|gcd)\Z)[A-Za-z]{3,}\Z"
)
"""What is not in a formula between single dollar signs: a sentence's end, a word. "$5 and $6" are sums."""


@dataclass(frozen=True, slots=True)
class Break:
    """Silence that the author asks for, in seconds, at a place of the raw text."""

    seconds: float
    place: int


Passed = tuple[str, int] | Break
"""What is left for the reader: a character and its place in the raw text, or a break."""


class Markup:
    """Streaming filter of one session: :meth:`feed` characters, :meth:`flush` at the end."""

    def __init__(self) -> None:
        self._held: list[tuple[str, int]] = []
        """What may become a tag, a reference, a fence or a hyphen at the end of a line."""
        self._skipping = ""
        """The tag, or the fence, whose end is waited for."""
        self._line_begins, self._after_letter, self._after_word = True, False, False
        self._spelling = False
        """Whether what comes is read by its characters."""
        self._counting = ""
        """What has come of an ordinal number, behind a space; empty outside of one."""

    def feed(self, text: str, offset: int) -> Iterator[Passed]:
        """What ``text``, whose first character is the stream's number ``offset``, makes certain."""
        for place, c in enumerate(text, offset):
            for passed in self._take(c, place):
                yield passed
                if self._spelling and not isinstance(passed, Break) and passed[0].isalnum():
                    yield self._given(" ", place)

    def flush(self) -> Iterator[Passed]:
        """What was held back; after it the text begins anew."""
        held, skipping = self._held, self._skipping
        self.clear()
        if skipping:
            return
        text = "".join(c for c, _ in held)
        if len(text) > 2 and text[0] == "$" == text[-1] and text[1] != "$":  # Nothing follows that would make it money.
            yield from ((c, held[0][1]) for c in say_formula(text[1:-1]))
        else:
            yield from held

    def clear(self) -> None:
        """Forget what was held back, and what was skipped."""
        self._held, self._skipping = [], ""
        self._line_begins, self._after_letter, self._after_word = True, False, False
        self._spelling, self._counting = False, ""

    def _take(self, c: str, place: int) -> Iterator[Passed]:
        if self._skipping:
            yield from self._skip(c, place)
            return
        if not self._held:
            fence = c in "`~" and self._line_begins
            formula = c == "\\" or (c == "$" and not self._after_word)
            if c in "<&\x1b" or fence or formula or (c == "-" and self._after_letter):
                self._held.append((c, place))
            else:
                yield self._given(c, place)
            return
        self._held.append((c, place))
        match self._held[0][0]:
            case "<":
                yield from self._tag()
            case "&":
                yield from self._reference()
            case "\x1b":
                yield from self._escape()
            case "-":
                yield from self._hyphen()
            case "$" | "\\":
                yield from self._formula()
            case _:
                yield from self._fence()

    def _given(self, c: str, place: int) -> Passed:
        self._line_begins = c == "\n" or (self._line_begins and c in " \t")
        self._after_letter, self._after_word = c.isalpha(), c.isalnum() or c in "$\\"
        if self._counting and len(self._counting) < LONGEST_REFERENCE:
            self._counting += c
        return c, place

    def _release(self) -> Iterator[Passed]:
        """What was held is text after all: its first character is, and the others are looked at again."""
        (first, at), *rest = self._held
        self._held = []
        yield self._given(first, at)
        for c, place in rest:
            yield from self._take(c, place)

    def _tag(self) -> Iterator[Passed]:
        text = "".join(c for c, _ in self._held)
        for opening, closing in _DECLARED.items():
            if opening.startswith(text.lower()):
                if text.lower() == opening:
                    self._skipping, self._held = closing, []
                return
        if text[-1] != ">":
            name = _NAME.match(text)
            known = name is not None and (not name[1] or any(tag.startswith(name[1].lower()) for tag in _TAGS))
            whole = re.match(r"</?([a-zA-Z][\w:-]*)", text)
            open_ = known or (whole is not None and whole[1].lower() in _TAGS and _OPEN.match(text) is not None)
            if len(text) > LONGEST or not open_:
                yield from self._release()
            return
        name = re.match(r"<(/?)([a-zA-Z][\w:-]*)", text)
        if name is None or name[2].lower() not in _TAGS or not _OPEN.match(text[:-1]):
            yield from self._release()
            return
        place = self._held[0][1]
        self._held = []
        yield from self._told(name[2].lower(), bool(name[1]), text, place)

    def _told(self, name: str, closing: bool, text: str, place: int) -> Iterator[Passed]:
        """What a whole tag means to the reader."""
        values = {key.lower(): "".join(forms) for key, *forms in _ATTRIBUTE.findall(text)}
        if name == "break":
            yield Break(_seconds(values), place)
        elif name in _BREAKS:
            for c in "\n" if name == "br" else "\n\n":
                yield self._given(c, place)
        elif name in _SKIPPED and not closing and not text.endswith("/>"):
            self._skipping = f"</{name}>"
        elif name == "say-as":
            if closing and self._counting[-1:].isdecimal():  # An ordinal number ends.
                for c in numbers.ending(self._counting):
                    yield self._given(c, place)
            meant = "" if closing else values.get("interpret-as", "").lower()
            self._spelling, self._counting = meant in _SPELLING, " " * (meant == "ordinal")
        elif name == "sub" and not closing and values.get("alias"):
            for c in values["alias"]:
                yield self._given(" " if c.isspace() else c, place)
            self._skipping = "</sub>"

    def _reference(self) -> Iterator[Passed]:
        text = "".join(c for c, _ in self._held)
        if text[-1] == ";" and (meant := html.unescape(text)) != text:
            place = self._held[0][1]
            self._held = []
            for c in meant:  # A "<" that was written as a reference begins no tag.
                yield self._given(c, place)
        elif len(text) > LONGEST_REFERENCE or not _REFERENCE.match(text):
            yield from self._release()

    def _escape(self) -> Iterator[Passed]:
        text = "".join(c for c, _ in self._held)
        begun = _ESCAPE.fullmatch(text)
        if begun and begun[1]:
            self._held = []
        elif not begun or len(text) > LONGEST:
            yield from self._release()

    def _formula(self) -> Iterator[Passed]:
        """What stands between dollar signs, ``\\(…\\)`` or ``\\[…\\]`` is read as a formula, unless it is two sums."""
        text = "".join(c for c, _ in self._held)
        if text in ("$$", "\\(", "\\["):
            return
        begin = text[:2] if text[:2] in _CLOSING else "$" if text[0] == "$" else ""
        body, close = text[len(begin) :], _CLOSING.get(begin, "")
        if not begin or len(text) > LONGEST:
            yield from self._release()
        elif begin == "$" and len(body) > 2 and body[-2] == "$":  # "$5-$10" is two sums, not a formula.
            if body[-1].isdecimal():
                yield from self._release()
            else:
                yield from self._say(body[:-2], self._held[-1:])
        elif begin == "$" and len(body) > 1 and body[-1] == "$":
            if body[-2] == " ":
                yield from self._release()
        elif close and begin != "$" and body.endswith(close):
            yield from self._say(body[: -len(close)], [])
        elif not _FORMULA.search(body, 0 if begin != "$" else max(0, len(body) - 40)) or (
            begin == "$" and _PROSE.search(body)
        ):
            yield from self._release()

    def _say(self, formula: str, rest: list[tuple[str, int]]) -> Iterator[Passed]:
        """Give ``formula`` in words, all at the place where it begins, then the characters of ``rest``."""
        place, self._held = self._held[0][1], []
        for c in say_formula(formula):
            yield self._given(c, place)
        for c, at in rest:
            yield from self._take(c, at)

    def _hyphen(self) -> Iterator[Passed]:
        """ "citi-⏎zens" is one word; a hyphen before anything else is a hyphen."""
        text = "".join(c for c, _ in self._held)
        if text in ("-\n", "-\r", "-\r\n"):
            return
        if text[-2] == "\n" and text[-1].islower():
            _, (c, place) = self._held[-2:]
            self._held = []
            yield self._given(c, place)
        else:
            (first, at), *rest = self._held
            self._held = []
            yield self._given(first, at)
            for c, place in rest:
                yield from self._take(c, place)

    def _fence(self) -> Iterator[Passed]:
        """Three backticks or tildes at the beginning of a line begin code, which is named and not read."""
        text = "".join(c for c, _ in self._held)
        if text == "```" or text == "~~~":
            place = self._held[0][1]
            self._held, self._skipping = [], text
            for c in "\n\ncode\n\n":
                yield self._given(c, place)
        elif text not in ("``", "~~"):
            yield from self._release()

    def _skip(self, c: str, place: int) -> Iterator[Passed]:
        self._held.append((c, place))
        if len(self._held) > len(self._skipping):
            del self._held[0]
        if "".join(c for c, _ in self._held).lower() == self._skipping:
            skipped, self._skipping, self._held = self._skipping, "", []
            for c in "" if skipped == "</sub>" or skipped in _DECLARED.values() else "\n\n":
                yield self._given(c, place)


def _seconds(values: dict[str, str]) -> float:
    time = _TIME.fullmatch(values.get("time", ""))
    if time is None:
        return _STRENGTHS.get(values.get("strength", "medium"), _STRENGTHS["medium"])
    return min(float(time[1]) / (1000 if time[2] == "ms" else 1), LONGEST_PAUSE)
