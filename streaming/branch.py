"""A text that departs from another one: decoded greedily, with what the other one said as a draft.

After another token the rest is mostly the same. So once the decoder comes to a token that stands about there in the
text it departed from, that text's next tokens are evaluated along with it, and as many are kept as the decoder would
have said itself: the same text as token by token, in a third of the calls. All branches of a final share its sequence
of the KV cache, and only the rows in which a branch differs from the last are evaluated again. What is evaluated
depends on the clip alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from engines.gguf import Rows
from streaming.bias import KeytermBias
from streaming.doubt import Doubt, Draft, choose
from streaming.repetition import loop_period

if TYPE_CHECKING:
    from streaming.model import AsrModel

BEHIND: Final = 4
AHEAD: Final = 5
"""How far from its own place a token may be found again in the other text."""
DRAFT: Final = 8
"""Most tokens of a draft: those behind its first error were evaluated for nothing."""


class Branch:
    """Follows one text after the other in a final's sequence. To be used in the lane only."""

    def __init__(
        self, model: "AsrModel", sequence: int, position: int, budget: int, bias: KeytermBias, cached: Sequence[int]
    ) -> None:
        """``cached``: tokens whose rows are in the cache from ``position`` on; ``budget``: most tokens of a text."""
        self._model, self._sequence, self._position = model, sequence, position
        self._budget, self._bias = budget, bias
        self._cached = list(cached)
        self.rows = 0
        """Rows evaluated so far."""

    def follow(self, draft: Draft, doubt: Doubt) -> None:
        """Append the doubt's token to ``draft``, and what follows it. A text that loops or grows too long is not
        ended."""
        self._append(draft, doubt.token, doubt.log)
        self._go_on(draft, doubt.draft.tokens, doubt.position, ())

    def begin(self, draft: Draft, logits: npt.NDArray[np.float32], other: Sequence[int]) -> None:
        """Fill the empty ``draft`` from the ``logits`` [vocabulary] of its first token on, with the text ``other`` of
        another hearing of the same words as its draft."""
        self._bias.apply(logits, draft.tokens)
        best = int(logits.argmax())
        draft.choices.append(choose(logits, best))
        draft.ended = best in self._model.prompt.stop
        if not draft.ended:
            self._append(draft, best, draft.choices[-1].log)
            self._go_on(draft, other, 0, expected(other, 0, best, 0))

    def _go_on(self, draft: Draft, other: Sequence[int], start: int, guess: Sequence[int]) -> None:
        """Append what follows ``draft``, not looking before ``start`` in ``other``."""
        while len(draft.tokens) < self._budget and not loop_period(draft.tokens):
            logits = self._evaluate(draft.tokens, guess[: self._budget - len(draft.tokens)])
            best = -1
            for k, row in enumerate(logits):
                self._bias.apply(row, draft.tokens)
                best = int(row.argmax())
                draft.choices.append(choose(row, best))
                if best in self._model.prompt.stop:
                    draft.ended = True
                    return
                self._append(draft, best, draft.choices[-1].log)
                if k == len(guess) or best != guess[k] or loop_period(draft.tokens):
                    break
            guess = expected(other, len(draft.tokens) - 1, best, start)

    def _append(self, draft: Draft, token: int, log: float) -> None:
        draft.tokens.append(token)
        draft.probabilities.append(float(np.exp(log)))

    def _evaluate(self, tokens: Sequence[int], guess: Sequence[int]) -> npt.NDArray[np.float32]:
        """Logits after ``tokens`` and after each token of ``guess`` behind them: float32 [guess + 1, vocabulary]."""
        known = 0
        while known < min(len(self._cached), len(tokens) - 1) and self._cached[known] == tokens[known]:
            known += 1
        texts = [*tokens[known:], *guess]
        rows = Rows(self._sequence, self._position + known, self._model.embed(texts), len(texts) - len(guess) - 1)
        (logits,) = self._model.decoder.evaluate([rows])
        self._cached[known:] = texts
        self.rows += len(texts)
        return logits


def expected(other: Sequence[int], place: int, token: int, start: int) -> Sequence[int]:
    """What ``other`` says after the ``token`` that stands nearest to ``place`` in it, not before ``start``; nothing
    where it stands too far off."""
    near = range(max(start, place - BEHIND), min(len(other), place + AHEAD + 1))
    found = min((k for k in near if other[k] == token), key=lambda k: abs(k - place), default=None)
    return () if found is None else other[found + 1 : found + 1 + DRAFT]
