"""Which part of a growing hypothesis is final: committed / unstable.

LocalAgreement on words: a word is committed when it, and all words before it, stood in the last hypotheses
(``Rule.agreement`` of them), when it is *sure*, and when words stand behind it; the longer it has stood, the less sure
it must be. Committed words are append-only while the segment is open: the next hypotheses are decoded after them. Only
the final, which is decoded without them, may lack some: ``python -m bench.stability`` counts how many.

How sure a word is, is a sum of logarithms: the least probability of its tokens in the last hypotheses; weighed, that of
the token after it in the newest, because a word may yet go on ("may" … "maybe", "contain" … "contained") and the
decoder then doubts what follows it, not the word; and, weighed, what the CTC head gives its tokens. That head hears the
sound alone and is not carried along by what the words before suggest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from itertools import takewhile
from math import inf, log
from typing import Final

from streaming.ctc import CtcRows
from streaming.decoding import Hypothesis
from streaming.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Rule:
    """When words are committed.

    Attributes:
        agreement: successive hypotheses that must agree; a tick every 0.25 s makes them.
        bound: how sure a word must be, natural logarithm.
        patience: by how much that falls with each further hypothesis that agrees, up to ``most`` in all: what has stood
            for two seconds will stay.
        most: hypotheses that count.
        after: weight of the token after the word; 0: it does not count.
        ctc: weight of the CTC head; 0: it is not asked.
        hold_back: last words of a hypothesis that are never committed: the model is still hearing them. At least one
            where the token after a word counts.
        seconds: of segment audio before anything is committed (forced prefixes from little evidence never heal).
    """

    agreement: int
    bound: float
    patience: float
    most: int
    after: float
    ctc: float
    hold_back: int
    seconds: float


DECODER_ALONE: Final = Rule(
    agreement=7, bound=log(0.75), patience=0.0, most=7, after=0.0, ctc=0.0, hold_back=2, seconds=2.0
)
"""For models without a CTC head: the words themselves. Chosen on pocket-asr-en's decoder; how sure other models are of
what, nobody has measured."""
WITH_CTC: Final = Rule(agreement=2, bound=-0.9, patience=0.1, most=8, after=0.6, ctc=0.3, hold_back=1, seconds=1.0)
"""For models with one. Chosen on the 323 clips that pocket-asr-en's training held out: 51 % of a final's words are
committed half a second before it, and 0.7 % of those are taken back; at a bound of -1.05 57 and 1.4 %."""


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
        self._newest: list[Sequence[Heard]] = []
        """Hypotheses, the newest first."""

    def hear(self, hypothesis: Hypothesis, prompt: Prompt, seconds: float, ctc: CtcRows) -> None:
        """Take a new hypothesis that begins with the committed tokens; ``ctc``: of the clip it was heard in."""
        body, sure = hypothesis.answer.body, hypothesis.body_probabilities
        words = prompt.words(body, hypothesis.answer.language)
        heard = [
            Heard(word, tuple(body[a:b]), min(sure[a:b]), sure[b] if b < len(sure) else 0.0) for word, a, b in words
        ]
        self.update(heard, seconds, lambda: ctc.word_scores(body, [(a, b) for _, a, b in words]))

    def update(self, words: Sequence[Heard], seconds: float, ctc: Callable[[], Sequence[float]]) -> None:
        """Take the words of a new hypothesis that begins with the committed tokens.

        Args:
            seconds: of the segment so far.
            ctc: gives the mean log-probability of each word's tokens by the CTC head. Called once at most, and only
                if a word would be committed were that head certain of it.
        """
        rule = self._rule
        self._newest = [words, *self._newest][: rule.most]
        if seconds < rule.seconds:
            return
        agreed, heard, alike = len(self.words), None, self._newest
        while agreed < len(words) - rule.hold_back:
            alike = list(takewhile(partial(_agrees, index=agreed, words=words), alike))
            if len(alike) < rule.agreement:
                break
            sure = _log(min(each[agreed].sure for each in alike[: rule.agreement]))
            sure += rule.patience * (len(alike) - rule.agreement)
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


def _agrees(hypothesis: Sequence[Heard], *, index: int, words: Sequence[Heard]) -> bool:
    """Whether ``hypothesis`` has the same word at ``index``."""
    return index < len(hypothesis) and hypothesis[index].tokens == words[index].tokens


def _log(probability: float) -> float:
    return log(probability) if probability > 0 else -inf
