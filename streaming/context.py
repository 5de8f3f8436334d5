"""Keyterms that leak: context words in a hypothesis that nobody said.

The system turn biases the decoder towards its words. Over noise or speech it cannot make out, a model may recite them
(QwenLM/Qwen3-ASR#106). Three or more of them in a row, in the list's order, are suspicious; they stay if the CTC head,
which never sees the context, heard them too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from streaming.alignment import align

LEAK_WORDS: Final = 3
"""Context words in a row that make a hypothesis suspicious."""
SUPPORT: Final = -3.5
"""Mean CTC log-probability of their tokens above which they were said. Words that were said score above -2."""


@dataclass(frozen=True, slots=True)
class Run:
    """Words ``start … stop`` of a hypothesis that recite the context."""

    start: int
    stop: int


def recited(words: Sequence[str], context: Sequence[str]) -> Run | None:
    """The longest run of at least :data:`LEAK_WORDS` words that stand in ``context`` in the same order, or None."""
    heard, given = [_plain(w) for w in words], [_plain(w) for w in context]
    best: Run | None = None
    for i in range(len(heard)):
        for k in range(len(given)):
            n = 0
            while i + n < len(heard) and k + n < len(given) and heard[i + n] == given[k + n]:
                n += 1
            if n >= LEAK_WORDS and (best is None or n > best.stop - best.start):
                best = Run(i, i + n)
    return best


def supported(log_probs: npt.NDArray[np.float32], tokens: Sequence[int], span: tuple[int, int], blank: int) -> bool:
    """Whether the CTC head heard tokens ``span`` of ``tokens``.

    Args:
        log_probs: float32 [rows, vocabulary + 1] of the whole segment.
        tokens: of the whole text, without blanks.
        span: (first, one past the last) token in question.
        blank: index of the blank.
    """
    alignment = align(log_probs, tokens, blank)
    return alignment is not None and float(alignment.score[span[0] : span[1]].mean()) >= SUPPORT


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())
