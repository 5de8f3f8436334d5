"""Which part of a growing hypothesis is final: committed / unstable.

LocalAgreement on words, weighed: a word is committed when it, and all words before it, stood in the last two hypotheses
and it is *sure*; the longer it has stood, the less sure it must be. The final that is decoded in a pause needs no
second opinion and is believed more: if the pause is the end, it is the final. Committed words are append-only while the
segment is open: the next hypotheses are decoded after them. Only the final, which is decoded without them, may lack
some: ``python -m bench.stability`` counts how many.

How sure a word is, is a sum of logarithms: the least probability of its tokens in the last hypotheses; weighed, that of
the token after it in the newest, because a word may yet go on ("may" … "maybe", "contain" … "contained") and the
decoder then doubts what follows it, not the word; and, weighed, what the CTC head gives its tokens. That head hears the
sound alone and is not carried along by what the words before suggest.

A mark behind a word (``, . ? !``) is no part of it: a word is committed without it, and its mark with the next word.
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
from streaming.events import bare
from streaming.prompt import Prompt

AGREEMENT: Final = 2
"""Hypotheses in a row that must agree; an interim every 0.25 s makes them."""
PATIENCE: Final = 0.1
"""By how much the bound falls with each further one, up to :data:`MOST` in all: what has stood for two seconds will
stay."""
MOST: Final = 8
AFTER: Final = 0.6
"""Weight of the token after a word."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When words are committed.

    Attributes:
        bound: how sure a word must be, natural logarithm.
        pause: by how much that falls in a final that is decoded in a pause.
        ctc: weight of the CTC head; 0: it is not asked.
    """

    bound: float
    pause: float
    ctc: float


DECODER_ALONE: Final = Rule(bound=-0.3, pause=0.5, ctc=0.0)
"""For models without a CTC head. Chosen on pocket-asr-en's decoder; how sure other models are of what, nobody has
measured."""
WITH_CTC: Final = Rule(bound=-0.2, pause=1.3, ctc=0.3)
"""For models with one. Both chosen on clips that pocket-asr-en's training held out (notes/2026-11-commits.md)."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A word of a hypothesis without the mark behind it: its text, its tokens and those of the mark.

    ``sure`` is the probability of the least certain of its tokens, ``after`` that of the token after them.
    """

    text: str
    tokens: tuple[int, ...]
    mark: tuple[int, ...]
    sure: float
    after: float


class Stability:
    """The committed prefix of one segment, in tokens and words."""

    def __init__(self, rule: Rule) -> None:
        self.tokens: tuple[int, ...] = ()
        self.words: tuple[str, ...] = ()
        """Without marks behind them."""
        self._rule = rule
        self._newest: list[Sequence[Heard]] = []
        """Hypotheses, the newest first."""

    def hear(self, hypothesis: Hypothesis, prompt: Prompt, ctc: CtcRows, *, pause: bool = False) -> bool:
        """Take a new hypothesis: an interim, which begins with the committed tokens, or the final decoded in a
        ``pause``, which may not and is then passed over. ``ctc``: of the clip it was heard in. Whether it was taken."""
        body, sure = hypothesis.answer.body, hypothesis.body_probabilities
        if body[: len(self.tokens)] != self.tokens:
            return False
        heard: list[Heard] = []
        spans: list[tuple[int, int]] = []
        for word, a, b in prompt.words(body, hypothesis.answer.language):
            end = prompt.unmarked(body, a, b)
            after = sure[end] if end < len(sure) else float(pause)
            heard.append(Heard(bare(word), body[a:end], body[end:b], min(sure[a:end]), after))
            spans.append((a, end))
        if tuple(word.text for word in heard[: len(self.words)]) != self.words:
            return False  # the last of them goes on: "Tom" … "Tom's"
        self.update(heard, lambda: ctc.word_scores(body, spans), pause=pause)
        return True

    def update(self, words: Sequence[Heard], ctc: Callable[[], Sequence[float]], *, pause: bool = False) -> None:
        """Take the words of a new hypothesis that begins with the committed tokens.

        Args:
            ctc: gives the mean log-probability of each word's tokens by the CTC head. Called once at most, and only
                if a word would be committed were that head certain of it.
            pause: it is the final of all that was said so far.
        """
        rule, agreed, scores = self._rule, len(self.words), None
        self._newest = alike = [words, *self._newest][:MOST]
        while agreed < len(words):
            alike = list(takewhile(partial(_agrees, index=agreed, words=words), alike))
            if len(alike) < AGREEMENT and not pause:
                break
            sure = _log(min(each[agreed].sure for each in alike[:AGREEMENT])) + rule.pause * pause
            sure += PATIENCE * (len(alike) - AGREEMENT) + AFTER * _log(words[agreed].after)
            if rule.ctc and sure >= rule.bound:
                scores = ctc() if scores is None else scores
                sure += rule.ctc * scores[agreed]
            if sure < rule.bound:
                break
            agreed += 1
        if agreed > len(self.words):
            self.words = tuple(word.text for word in words[:agreed])
            before = (token for word in words[: agreed - 1] for token in (*word.tokens, *word.mark))
            self.tokens = (*before, *words[agreed - 1].tokens)

    def retracted(self, final_words: Sequence[str]) -> int:
        """Committed words that ``final_words`` lacks (those outside the longest matching blocks of the two)."""
        matcher = SequenceMatcher(None, self.words, [bare(word) for word in final_words], autojunk=False)
        return len(self.words) - sum(block.size for block in matcher.get_matching_blocks())


def _agrees(hypothesis: Sequence[Heard], *, index: int, words: Sequence[Heard]) -> bool:
    """Whether ``hypothesis`` has the same word at ``index``."""
    return index < len(hypothesis) and hypothesis[index].tokens == words[index].tokens


def _log(probability: float) -> float:
    return log(probability) if probability > 0 else -inf
