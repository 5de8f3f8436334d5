"""Which part of a growing hypothesis is final: committed / unstable.

LocalAgreement on words: a word is committed when it, and all words before it, stood in the last hypotheses
(``Rule.agreement`` of them), when it is *sure*, and when words stand behind it. Committed words are append-only while
the segment is open: the next hypotheses are decoded after them. Only the final, which is decoded without them, may lack
some: ``make bench`` counts how many.

How sure a word is, is a sum of logarithms: the least probability of its tokens in any of those hypotheses; that of the
token after it in the newest, because a word may yet go on ("may" … "maybe", "contain" … "contained") and the decoder
then doubts what follows it, not the word; and, weighed, what the CTC head gives its tokens. That head hears the sound
alone and is not carried along by what the words before suggest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import inf, log
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """When words are committed.

    Attributes:
        agreement: successive hypotheses that must agree; a tick every 0.25 s makes them.
        bound: how sure a word must be, natural logarithm.
        after: weight of the token after the word; 0: it does not count.
        ctc: weight of the CTC head; 0: it is not asked.
        hold_back: last words of a hypothesis that are never committed: the model is still hearing them. At least one
            where the token after a word counts.
        seconds: of segment audio before anything is committed (forced prefixes from little evidence never heal).
    """

    agreement: int
    bound: float
    after: float
    ctc: float
    hold_back: int
    seconds: float


DECODER_ALONE: Final = Rule(agreement=7, bound=log(0.75), after=0.0, ctc=0.0, hold_back=2, seconds=2.0)
"""For models without a CTC head: the words themselves. Chosen on pocket-asr-en's decoder; how sure other models are of
what, nobody has measured."""
WITH_CTC: Final = Rule(agreement=2, bound=-0.75, after=1.0, ctc=0.2, hold_back=1, seconds=1.5)
"""For models with one. Chosen on the 323 clips that pocket-asr-en's training held out, at three speeds, tests/data and
tests/synthetic: it commits 2.3 times as many words as ``DECODER_ALONE``, and finals lack 0.26 % of them instead of
0.18 % (docs/streaming.md has the neighbours). A bound of -0.85 commits 13 % more and 0.44 % are lacking."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A word of a hypothesis: its text and its tokens.

    ``sure`` is the probability of the least certain of them, ``after`` that of the token after them (0 for none).
    """

    text: str
    tokens: tuple[int, ...]
    sure: float
    after: float


class Stability:
    """The committed prefix of one segment, in tokens and words."""

    def __init__(self, rule: Rule) -> None:
        self.tokens: tuple[int, ...] = ()
        self.words: tuple[str, ...] = ()
        self._rule = rule
        self._earlier: list[Sequence[Heard]] = []

    def update(self, words: Sequence[Heard], seconds: float, ctc: Callable[[], Sequence[float]]) -> None:
        """Take the words of a new hypothesis that begins with the committed tokens.

        Args:
            seconds: of the segment so far.
            ctc: gives the mean log-probability of each word's tokens by the CTC head. Called once at most, and only
                if a word would be committed were that head certain of it.
        """
        rule = self._rule
        hypotheses = [*self._earlier, words]
        self._earlier = hypotheses[-rule.agreement + 1 :] if rule.agreement > 1 else []
        if len(hypotheses) < rule.agreement or seconds < rule.seconds:
            return
        agreed, heard = len(self.words), None
        while agreed < len(words) - rule.hold_back and all(_agrees(h, agreed, words) for h in hypotheses):
            sure = _log(min(h[agreed].sure for h in hypotheses))
            if rule.after:
                sure += rule.after * _log(words[agreed].after)
            if rule.ctc and sure >= rule.bound:
                heard = ctc() if heard is None else heard
                sure += rule.ctc * heard[agreed]
            if sure < rule.bound:
                break
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
    """Whether ``hypothesis`` has the same word at ``index``."""
    return index < len(hypothesis) and hypothesis[index].tokens == words[index].tokens


def _log(probability: float) -> float:
    return log(probability) if probability > 0 else -inf
