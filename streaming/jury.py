"""What all hearings of a clip together think of its texts, those that none of them found included.

A text that one hearing finds likely by chance the others do not: each of the nearest texts is weighed by one hearing
after the other, as long as it is not far behind, and what counts is their mean. Beside them stand texts with another
spelling of a doubtful word (streaming/respelling.py), which no hearing comes upon because the decoder does not know how
the word is spelt. At the end the decoder reads the best of all without sound, as in any final (streaming/doubt.py).

The numbers were chosen on the clips that the shipped model's training held out, none of the test split;
docs/streaming.md says what they give.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from engines.batching import Urgency
from streaming.doubt import Draft, Read, ranked
from streaming.respelling import UNKNOWN, Speller

Floats = npt.NDArray[np.float32]

POOL: Final = 10
"""Most texts that hearings found and all of them weigh."""
RESPELT: Final = 3
"""The best of them, in which other spellings are tried."""
BEHIND: Final = 10.0
"""How far behind the best, by the hearings that were asked already, a text may lie and still be weighed by the next."""


class Juror(Protocol):
    """One hearing of the clip."""

    @property
    def found(self) -> Sequence[Draft]:
        """Its texts that came nearest, with scores."""
        ...

    @property
    def phones(self) -> Floats | None:
        """float32 [frames, classes + 1]: what the phone head heard in it."""
        ...

    def weigh(
        self, texts: Sequence[tuple[int, ...]], urgency: Urgency
    ) -> tuple[npt.NDArray[np.float64], list[npt.NDArray[np.float64]]]:
        """Scores of texts, and the logarithms of each one's tokens."""
        ...


def confer(
    jury: Sequence[Juror], best: Sequence[int], start: int, speller: Speller | None, read: Read | None, urgency: Urgency
) -> Draft | None:
    """The text that the hearings together find best, with its score and the probabilities of the last one of ``jury``;
    None where there is nothing to weigh.

    Args:
        jury: in the order in which they are asked.
        best: tokens of the best text so far; it begins at token ``start``, before that stands the language.
        speller: proposes other spellings.
        read: what tells how probable texts are without the audio.
    """
    nearest: dict[tuple[int, ...], tuple[float, Draft, Juror]] = {}
    for juror in jury:
        for draft in juror.found:
            key, score = tuple(draft.tokens), draft.score
            if score is None or key[:start] != tuple(best[:start]):
                continue
            if key not in nearest or score > nearest[key][0]:
                nearest[key] = (score, draft, juror)
    pool = sorted(nearest, key=lambda key: -nearest[key][0])[:POOL]
    texts = dict.fromkeys(pool)
    if speller is not None:
        for key in pool[:RESPELT]:
            _, draft, juror = nearest[key]
            if juror.phones is not None:
                texts.update(dict.fromkeys(speller.respelt(draft, start, juror.phones)))
    if len(texts) < 2:
        return None
    some = list(texts)
    odd = np.array([0.0 if speller is None else UNKNOWN * speller.unknown(text[start:]) for text in some])
    sums, scores, logs = np.zeros(len(some)), np.zeros(len(some)), list[npt.NDArray[np.float64]]()
    for asked, juror in enumerate(jury, 1):
        near = np.flatnonzero(scores >= scores.max() - BEHIND)
        some, odd, sums = [some[i] for i in near], odd[near], sums[near]
        heard, logs = juror.weigh(some, urgency)
        sums += heard
        scores = sums / asked - odd
    drafts = [Draft(list(text), np.exp(each[:-1]).tolist(), ended=True) for text, each in zip(some, logs, strict=True)]
    return ranked(drafts, scores, read) if np.isfinite(scores).any() else None
