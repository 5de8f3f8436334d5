"""Keyterms: words and names that a session brings, in the prompt's system turn and as a bonus on logits.

The system turn alone moves a small model little; a bonus at decoding works with any. The first token of each term gets
a little, the next token of a term that was just begun gets more. Where the encoder has a CTC head, the bonus goes by
what that heard: a term that it heard nothing like gets none, one that it did hear gets much more, where it was heard
and as often. A term of one token never gets more: the model knows such words, and would say them where others are.
What was decoded so far, the audio and the terms alone decide.

Over noise, or speech it cannot make out, a model may recite the system turn (QwenLM/Qwen3-ASR#106). Three or more of
its words in a row, in the list's order, are suspicious; they stay if the CTC head, which never sees them, heard them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

import numpy as np
import numpy.typing as npt

from streaming.ctc import CtcRows, Spot, spots

FIRST: Final = 1.5
NEXT: Final = 4.0
"""Logits."""
FIRST_HEARD: Final = 4.5
NEXT_HEARD: Final = 12.0
"""The same of a term where it was heard. Chosen, with ``SHORT``, on words of clips held out of training
(notes/2026-11-finals.md): with more of either, a term comes out early and swallows the word before it."""
HEARD: Final = -3.2
"""Score from which a term was heard (:class:`streaming.ctc.Spot`). 88 % of said words have it, 0.3 % of others."""
UNLIKE: Final = -5.0
"""Score below which nothing like it was heard."""
SHORT: Final = (1, 0.1)
PAST: Final = (3, 0.2)
"""How far the text may be short of the place where a term was heard, or past it: tokens, and a share of those before
the place."""
LEAK_WORDS: Final = 3
"""Context words in a row that make a hypothesis suspicious."""
SUPPORT: Final = -3.5
"""Mean CTC log-probability of their tokens above which they were said. Words that were said score above -2."""

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Term:
    """``forms``: its tokens in every way it may be written; ``places``: tokens of the text before it, wherever it is
    known to have been heard."""

    forms: tuple[Tokens, ...]
    places: tuple[int, ...] = ()

    def near(self, before: int) -> bool:
        """Whether it was heard about where ``before`` tokens are."""
        return any(-SHORT[0] - SHORT[1] * place <= before - place <= PAST[0] + PAST[1] * place for place in self.places)

    def said(self, tokens: Tokens) -> int:
        """How often it stands in ``tokens``."""
        begins = {form[0] for form in self.forms}
        starts = [at for at, token in enumerate(tokens) if token in begins]
        return sum(tokens[at : at + len(form)] == form for form in self.forms for at in starts)


class KeytermBias:
    """The bonus of one session's terms.

    Args:
        terms: token ids of each term as it stands inside a text, in every way it may be written.
        opener: token after which the text begins, where the model writes its language first; None: it begins at once.
        longer: the tokens that a token is the beginning of.
    """

    def __init__(
        self,
        terms: Sequence[Sequence[Sequence[int]]],
        opener: int | None = None,
        longer: Callable[[int], Sequence[int]] = lambda _: (),
    ) -> None:
        self._opener = opener
        forms = (tuple(tuple(form) for form in term if form) for term in terms)
        self._terms = [_Term(term) for term in forms if term]
        self._longer = {form[-1]: tuple(longer(form[-1])) for term in self._terms for form in term.forms}

    def heard(self, ctc: CtcRows) -> "KeytermBias":
        """The bonus in the text of the clip whose rows are in ``ctc``."""
        rows = ctc.log_probs if self._terms else None
        if rows is None or ctc.blank is None:
            return self
        found = iter(spots(rows, [form for term in self._terms for form in term.forms], ctc.blank, UNLIKE))
        bias = KeytermBias([], self._opener)
        bias._longer = self._longer
        for term in self._terms:
            where = [spot for _ in term.forms for spot in next(found)]
            if where:
                places = () if any(len(form) == 1 for form in term.forms) else _places(where)
                bias._terms.append(_Term(term.forms, places))
        return bias

    def apply(self, logits: npt.NDArray[np.float32], tokens: Sequence[int]) -> None:
        """Add the bonus to ``logits`` [vocabulary], in place, for the token that follows ``tokens``."""
        if not self._terms:
            return
        if self._opener is not None:
            if self._opener not in tokens:
                return
            tokens = tokens[list(tokens).index(self._opener) + 1 :]
        text, first, following = tuple(tokens), dict[int, float](), dict[int, float]()
        for term in self._terms:
            left = bool(term.places) and term.said(text) < len(term.places)
            for form in term.forms:
                bonus = FIRST_HEARD if left and term.near(len(text)) else FIRST
                self._raise(first, form, 0, bonus)
                for k in range(1, min(len(form), len(text) + 1)):
                    if text[len(text) - k :] == form[:k]:
                        bonus = NEXT_HEARD if left and term.near(len(text) - k) else NEXT
                        self._raise(following, form, k, bonus)
        for token, bonus in (*first.items(), *following.items()):
            logits[token] += bonus

    def _raise(self, bonuses: dict[int, float], form: Tokens, k: int, bonus: float) -> None:
        """To at least ``bonus`` for token ``k`` of a term; at its end for longer tokens too: whether a word goes on, as
        "students" does after "student", is for the model to say."""
        for token in (form[k], *(self._longer[form[k]] if k == len(form) - 1 else ())):
            bonuses[token] = max(bonuses.get(token, 0.0), bonus)


def _places(where: Sequence[Spot]) -> tuple[int, ...]:
    """Of the best of overlapping ``where``, those that count as heard."""
    kept = list[Spot]()
    for spot in sorted(where, key=lambda spot: -spot.score):
        if spot.score >= HEARD and all(spot.first > other.last or spot.last < other.first for other in kept):
            kept.append(spot)
    return tuple(sorted(spot.place for spot in kept))


def recited(words: Sequence[str], context: Sequence[str]) -> tuple[int, int] | None:
    """(first, one past the last) of the longest run of at least :data:`LEAK_WORDS` ``words`` that stand in ``context``
    in the same order, or None."""
    heard, given = [_plain(word) for word in words], [_plain(word) for word in context]
    run = SequenceMatcher(None, heard, given, autojunk=False).find_longest_match()
    return (run.a, run.a + run.size) if run.size >= LEAK_WORDS else None


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())
