"""The CTC rows of a segment: what a head beside the encoder heard in the clip that was read last.

There are two such heads at most, each with rows of its own: that of tokens and that of phones, which spell words only
by way of streaming/pronunciation.py and so answer nothing but ``log_probs``.

Contract: rows of closed windows stay, those of the tail are the last read's. A model without such a head has none, and
then supports nothing. The head has never seen the context and is not carried along by what the words before suggest.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streaming.alignment import word_scores
from streaming.context import supported

Floats = npt.NDArray[np.float32]


class CtcRows:
    """Log-probabilities of tokens (or phones) and of ``blank``, their index; None: there is no head."""

    def __init__(self, blank: int | None) -> None:
        self._blank = blank
        self._closed: list[Floats] = []
        self._tail: Floats | None = None

    @property
    def log_probs(self) -> Floats | None:
        """float32 [rows, classes, the blank among them] of the whole clip; None where there are no rows."""
        parts = [*self._closed, *([] if self._tail is None else [self._tail])]
        return np.concatenate(parts) if parts else None

    def append(self, rows: Floats | None) -> None:
        """A window closed."""
        if rows is not None:
            self._closed.append(rows)

    def end(self, rows: Floats | None) -> None:
        """The clip ends with these after the closed windows."""
        self._tail = rows

    def word_scores(self, tokens: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[float]:
        """How sure the head is of each word of a text (streaming/alignment.py); -inf where it cannot say."""
        rows = self.log_probs
        if rows is None or self._blank is None:
            return [-math.inf] * len(spans)
        return word_scores(rows, tokens, spans, self._blank)

    def supports(self, tokens: Sequence[int], span: tuple[int, int]) -> bool:
        """Whether the head heard tokens ``span`` of a text (streaming/context.py)."""
        rows = self.log_probs
        return rows is not None and self._blank is not None and supported(rows, tokens, span, self._blank)
