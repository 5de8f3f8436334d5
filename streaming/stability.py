"""Which words of a growing hypothesis are committed, so that later interims keep them.

The rule is LocalAgreement on words, weighted by how sure the model is. A word is committed when it and all words before
it stood in the last two hypotheses and it is *sure*; the more hypotheses agree, the less sure it must be. The final
that is decoded in a pause needs no second opinion and its bound is lower: if the pause is the end, that is the final.
While the segment is open, hypotheses are decoded after the committed words, so they keep them. Only the final, which is
decoded without them, may lack some: ``python -m bench.stability`` counts how many.

How sure a word is, is a weighted sum of log-probabilities. The first is the least of its tokens' in the last
hypotheses. The second is that of the token after the word in the newest: a word may yet go on ("may" … "maybe",
"contain" … "contained"), and the decoder then doubts what follows rather than the word. The third is the CTC head's for
the word's tokens, since that head judges by the sound alone and not by what the words before suggest.

A mark after a word (``, . ? !``) is not part of the word: it is committed with the next word.
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
"""How many hypotheses in a row must agree; there is one for every 0.25 s of audio. By agreement alone 8.0 % of
committed words are taken back with two, 5.9 % with three and 5.5 % with four (notes/2026-11-commits.md), so more
hypotheses cannot replace the test of how sure a word is, and two commit soonest."""
PATIENCE: Final = 0.1
"""By how much the bound falls with each further hypothesis that agrees, up to :data:`MOST` in all."""
MOST: Final = 8
"""How many hypotheses are remembered: eight are two seconds, and a word that has stood so long mostly stays."""
AFTER: Final = 0.6
"""The weight of the token after a word, chosen with the rules below."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When words are committed.

    Attributes:
        bound: how sure a word must be, a natural logarithm.
        pause: by how much the bound falls for a final that is decoded in a pause.
        ctc: the weight of the CTC head's log-probability; 0 where there is no such head.
    """

    bound: float
    pause: float
    ctc: float


DECODER_ALONE: Final = Rule(bound=-0.3, pause=0.5, ctc=0.0)
"""The rule for models without a CTC head. It was chosen on pocket-asr-en's decoder alone; on other models it has not
been measured."""
WITH_CTC: Final = Rule(bound=-0.2, pause=1.3, ctc=0.3)
"""The rule for models with a CTC head. Both rules were chosen on clips that pocket-asr-en's training held out
(notes/2026-11-commits.md)."""


@dataclass(frozen=True, slots=True)
class TokenWord:
    """A word of a hypothesis without the mark that follows it: its text, its tokens, and the mark's tokens.

    ``sure`` is the probability, 0…1, of the least certain of its tokens, ``after`` that of the token after them.
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
        """The committed words, without the marks that follow them."""
        self._rule = rule
        self._newest: list[Sequence[TokenWord]] = []
        """The words of the last hypotheses, the newest first."""

    def hear(self, hypothesis: Hypothesis, prompt: Prompt, ctc: CtcRows, *, pause: bool = False) -> bool:
        """Take in a new hypothesis and commit what it makes sure.

        Args:
            hypothesis: an interim, which begins with the committed tokens; or a final decoded in a pause, which may
                not, and is then ignored.
            prompt: splits the hypothesis into words.
            ctc: the CTC head's rows of the hypothesis's clip.
            pause: whether it is such a final.

        Returns:
            Whether it begins with the committed words and was taken in.
        """
        body, sure = hypothesis.answer.body, hypothesis.body_probabilities
        if body[: len(self.tokens)] != self.tokens:
            return False
        words: list[TokenWord] = []
        spans: list[tuple[int, int]] = []
        for word, a, b in prompt.words(body, hypothesis.answer.language):
            end = prompt.unmarked(body, a, b)
            after = sure[end] if end < len(sure) else float(pause)
            words.append(TokenWord(bare(word), body[a:end], body[end:b], min(sure[a:end]), after))
            spans.append((a, end))
        if tuple(word.text for word in words[: len(self.words)]) != self.words:
            return False  # The last committed word goes on in this text, as from "Tom" to "Tom's".
        self.update(words, lambda: ctc.word_scores(body, spans), pause=pause)
        return True

    def update(self, words: Sequence[TokenWord], ctc: Callable[[], Sequence[float]], *, pause: bool = False) -> None:
        """Take in the words of a new hypothesis that begins with the committed tokens.

        Args:
            words: all words of the hypothesis.
            ctc: gives for each word the mean log-probability of its tokens by the CTC head. It is called at most once,
                and only if a word would be committed were that head certain of it.
            pause: whether the hypothesis is a final decoded in a pause.
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
        """How many committed words ``final_words`` lacks: those outside the longest matching blocks of the two."""
        matcher = SequenceMatcher(None, self.words, [bare(word) for word in final_words], autojunk=False)
        return len(self.words) - sum(block.size for block in matcher.get_matching_blocks())


def _agrees(hypothesis: Sequence[TokenWord], *, index: int, words: Sequence[TokenWord]) -> bool:
    """Whether ``hypothesis`` has the same word at ``index``."""
    return index < len(hypothesis) and hypothesis[index].tokens == words[index].tokens


def _log(probability: float) -> float:
    """The natural logarithm; -inf for 0."""
    return log(probability) if probability > 0 else -inf
