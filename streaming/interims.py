"""What an open segment says while it grows: hypotheses of all its audio so far, and which of their words are committed.

A *tick* evaluates tail audio, suffix, committed text and the previous hypothesis as a draft in one call, keeps the
agreeing prefix and decodes on from the first difference. Nothing of it reaches the final, which is decoded from the
samples alone (streaming/recognizer.py). Blocking; one thread at a time.
"""

from typing import TYPE_CHECKING

import numpy as np

from engines.batching import Urgency
from streaming.doubt import Draft, inverse
from streaming.hypothesis import EMPTY, Hypothesis
from streaming.recognizer import Segment
from streaming.stability import DECODER_ALONE, WITH_CTC, Heard, Stability
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel


class Interims:
    """The interim hypotheses of one ``segment`` of ``model``."""

    def __init__(self, model: "AsrModel", segment: Segment, work: Work) -> None:
        self._model, self._segment, self._work = model, segment, work
        self.hypothesis = EMPTY
        """The newest."""
        self.stability = Stability(DECODER_ALONE if model.manifest.encoder.ctc_blank is None else WITH_CTC)
        """What of it is committed."""

    def tick(self) -> Hypothesis:
        """A new hypothesis for all audio so far; the previous one is verified as a draft."""
        segment, last, committed = self._segment, self.hypothesis, self.stability.tokens
        header = last.tokens[: len(last.tokens) - len(last.answer.body)]
        kept = (*header, *committed) if committed else ()
        draft = last.tokens[len(kept) :]
        logits, position = segment.read(segment.length, [*kept, *draft], len(kept), Urgency.LOOK)
        if committed:
            # Committed words are whole: what follows begins a word (or ends the text).
            follows = self._model.prompt.after_word(last.answer.language, logits.shape[1])
            logits[0, ~follows] = -np.inf
        accepted = 0
        while accepted < len(draft):
            segment.bias.apply(logits[accepted], [*kept, *draft[:accepted]])
            if logits[accepted].argmax() != draft[accepted]:
                break
            accepted += 1
        else:
            segment.bias.apply(logits[accepted], [*kept, *draft])
        self._work.draft_accepted += accepted
        known = last.probabilities[: len(kept)]
        probabilities = [*known, *(float(1.0 / inverse(logits[i], draft[i])) for i in range(accepted))]
        now = Draft([*kept, *draft[:accepted]], probabilities)
        segment.go_on(now, logits[accepted], position - (len(draft) - accepted), kept=len(kept))
        self.hypothesis = segment.hypothesis_of(now)
        self._commit()
        self._work.ticks += 1
        return self.hypothesis

    def _commit(self) -> None:
        """Commit what the new hypothesis makes sure."""
        segment, body, sure = self._segment, self.hypothesis.answer.body, self.hypothesis.body_probabilities
        words = self._model.prompt.words(body, self.hypothesis.answer.language)
        spans = [(a, b) for _, a, b in words]
        before = len(self.stability.words)
        self.stability.update(
            [Heard(word, tuple(body[a:b]), min(sure[a:b]), sure[b] if b < len(sure) else 0.0) for word, a, b in words],
            segment.length / self._model.sample_rate,
            lambda: segment.word_scores(body, spans),
        )
        self._work.committed_words += len(self.stability.words) - before
