"""Keyterms: words and names that a session expects, put into the prompt's system turn and favoured at decoding.

A term in the system turn changes little of what a small model writes; a bonus at decoding works with any model. The
first token of each term gets a small bonus, the next token of a term that was just begun a larger one. Where the
encoder has a CTC head, the head is asked whether it spots the term in the audio. A term that sounds like nothing there
gets no bonus. One that is spotted gets a much larger one, near the place and as often as it is spotted. A term of one
token never gets the larger one: the model knows such words, and would write them in place of others. The bonus depends
on the text so far, the audio and the terms alone.

Given noise or speech that it cannot make out, a model may recite the system turn (QwenLM/Qwen3-ASR#106). Three or more
of the keyterms' words in a row, in their order, are suspicious. They stay if the CTC head, which never sees the
keyterms, finds them in the audio.
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
"""The bonus, in logits, on a term's first token and on the token that continues it, where no place is known. With them
and the prompt 52 % of rare words come out, instead of 21 % without keyterms (notes/2026-11-finals.md)."""
FIRST_SPOTTED: Final = 4.5
NEXT_SPOTTED: Final = 12.0
"""The same two near a place where the term was spotted. They and ``SHORT`` were chosen on words of clips held out of
training (notes/2026-11-finals.md): with more of either, a term comes out early and replaces the word before it."""
SPOTTED: Final = -3.2
"""The score (:class:`streaming.ctc.Spot`) from which a term counts as spotted: 88 % of the words that are said reach
it, and 0.3 % of those that are not (notes/2026-11-finals.md)."""
UNLIKE: Final = -5.0
"""The score below which a term sounds like nothing in the audio, and gets no bonus (notes/2026-11-finals.md)."""
SHORT: Final = (1, 0.1)
PAST: Final = (3, 0.2)
"""How many tokens the text may be short of the place where a term was spotted, or past it, for the larger bonus: so
many, and this share of the tokens before the place. The decoder's count of tokens and the head's drift apart as the
text grows."""
LEAK_WORDS: Final = 3
"""How many words of the keyterms in a row make a text suspicious: two stand next to each other by chance too often."""
SUPPORT: Final = -3.5
"""The mean CTC log-probability of the suspicious tokens above which they count as said. Words that were said score
above -2."""

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Term:
    """One keyterm. ``forms``: its tokens in every way it may be written; ``places``: for each place where it was
    spotted, how many tokens of the text come before."""

    forms: tuple[Tokens, ...]
    places: tuple[int, ...] = ()

    def near(self, before: int) -> bool:
        """Whether the term was spotted near the place that has ``before`` tokens before it."""
        return any(-SHORT[0] - SHORT[1] * place <= before - place <= PAST[0] + PAST[1] * place for place in self.places)

    def said(self, tokens: Tokens) -> int:
        """How often the term stands in ``tokens``."""
        begins = {form[0] for form in self.forms}
        starts = [at for at, token in enumerate(tokens) if token in begins]
        return sum(tokens[at : at + len(form)] == form for form in self.forms for at in starts)


class KeytermBias:
    """The bonus that one session's keyterms get.

    Args:
        terms: for each term the token ids of every way in which it may be written inside a text.
        opener: the token after which the text begins if the model writes a language first; None if it begins at once.
        longer: gives for a token those that spell the same and more.
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

    def spotted(self, ctc: CtcRows) -> "KeytermBias":
        """The bonus for the text of one clip, of which ``ctc`` tells where each term is spotted."""
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
                bonus = FIRST_SPOTTED if left and term.near(len(text)) else FIRST
                self._raise(first, form, 0, bonus)
                for k in range(1, min(len(form), len(text) + 1)):
                    if text[len(text) - k :] == form[:k]:
                        bonus = NEXT_SPOTTED if left and term.near(len(text) - k) else NEXT
                        self._raise(following, form, k, bonus)
        for token, bonus in (*first.items(), *following.items()):
            logits[token] += bonus

    def _raise(self, bonuses: dict[int, float], form: Tokens, k: int, bonus: float) -> None:
        """Raise the bonus of token ``k`` of a term to at least ``bonus``. At the term's end longer tokens get the same,
        so that the model alone decides whether the word goes on, as from "student" to "students"."""
        for token in (form[k], *(self._longer[form[k]] if k == len(form) - 1 else ())):
            bonuses[token] = max(bonuses.get(token, 0.0), bonus)


def _places(where: Sequence[Spot]) -> tuple[int, ...]:
    """The places of the spots in ``where`` whose score is high enough; of overlapping ones the best counts."""
    kept = list[Spot]()
    for spot in sorted(where, key=lambda spot: -spot.score):
        if spot.score >= SPOTTED and all(spot.first > other.last or spot.last < other.first for other in kept):
            kept.append(spot)
    return tuple(sorted(spot.place for spot in kept))


def recited(words: Sequence[str], context: Sequence[str]) -> tuple[int, int] | None:
    """The longest run of ``words`` that stands in ``context`` in the same order, as (first, one past the last) index;
    None if it is shorter than :data:`LEAK_WORDS`. Case and punctuation do not count."""
    written, given = [_plain(word) for word in words], [_plain(word) for word in context]
    run = SequenceMatcher(None, written, given, autojunk=False).find_longest_match()
    return (run.a, run.a + run.size) if run.size >= LEAK_WORDS else None


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())
