"""Which part of a growing hypothesis is final: committed / unstable.

LocalAgreement on words: a word is committed when it, and all words before it, stood in the last :data:`AGREEMENT`
hypotheses, each time with every token at least :data:`SURE`, and it is not among the last :data:`HOLD_BACK` words.
Committed words are append-only while the segment is open: the next hypotheses are decoded after them. Only the final,
which is decoded without them, may lack some: ``make bench`` counts how many.

Finals choose among more texts than hypotheses do, so a word must be very sure not to be taken back. With six agreeing
hypotheses and 0.55, 0.65 and 0.75, finals lacked 8 of 767, 3 of 587 and 1 of 433 committed words of the 323 clips that
the model's training held out, and 7 of 411 and 3 of 287 of tests/data with 0.65 and 0.75; hence seven, and 0.75.
Two agreeing hypotheses and nothing else (LocalAgreement-2, Macháček et al. 2023) committed 56 % of the words that an
earlier model showed, and finals lacked 5 % of those; these settings commit a tenth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

AGREEMENT: Final = 7
"""Successive hypotheses that must agree: 1.5 s between the first and the last, at a tick every 0.25 s."""
SURE: Final = 0.75
"""Least probability of a committed word's tokens (label smoothing in training keeps even certain ones below 0.95)."""
HOLD_BACK: Final = 2
"""Last words of a hypothesis that are never committed: the model is still hearing them."""
MIN_EVIDENCE: Final = 2.0
"""Seconds of segment audio before anything is committed (forced prefixes from little evidence never heal)."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A word of a hypothesis: its text, its tokens and the probability of the least certain of them."""

    text: str
    tokens: tuple[int, ...]
    sure: float


class Stability:
    """The committed prefix of one segment, in tokens and words."""

    def __init__(self) -> None:
        self.tokens: tuple[int, ...] = ()
        self.words: tuple[str, ...] = ()
        self._earlier: list[Sequence[Heard]] = []

    def update(self, words: Sequence[Heard], seconds: float) -> None:
        """Take the words of a new hypothesis that begins with the committed tokens."""
        hypotheses = [*self._earlier, words]
        self._earlier = hypotheses[-(AGREEMENT - 1) :]
        if len(hypotheses) < AGREEMENT or seconds < MIN_EVIDENCE:
            return
        agreed = len(self.words)
        while agreed < len(words) - HOLD_BACK and all(_agrees(h, agreed, words) for h in hypotheses):
            agreed += 1
        if agreed > len(self.words):
            self.words = tuple(w.text for w in words[:agreed])
            self.tokens = tuple(t for w in words[:agreed] for t in w.tokens)

    def retracted(self, final_words: Sequence[str]) -> int:
        """Committed words that ``final_words`` lacks (those outside the longest matching blocks of the two)."""
        matcher = SequenceMatcher(None, self.words, final_words, autojunk=False)
        return len(self.words) - sum(block.size for block in matcher.get_matching_blocks())

    def keeps(self, words: Sequence[str]) -> bool:
        """Whether ``words`` begin with the committed ones."""
        return tuple(words[: len(self.words)]) == self.words


def _agrees(hypothesis: Sequence[Heard], index: int, words: Sequence[Heard]) -> bool:
    """Whether ``hypothesis`` has the same, sure word at ``index``."""
    if index >= len(hypothesis):
        return False
    word = hypothesis[index]
    return word.tokens == words[index].tokens and word.sure >= SURE
