"""A segment's text, token by token: from the logits after its prompt to its end.

One row a call, greedily. Two guards: a *budget* of tokens by the length of the audio, and *loops*, which are cut back
to their first turn. A final goes on behind a loop with another token than the one that began the second turn, so what
was said after it is still heard; an interim stops there. Finals of small models then have second thoughts
(streaming/doubt.py).
"""

import time
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from engines.batching import Owner
from engines.gguf import Rows
from streaming.bias import KeytermBias
from streaming.doubt import Draft, choose, doubts, inverse
from streaming.repetition import loop_period
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel

Floats = npt.NDArray[np.float32]

TOKENS_PER_SECOND: Final = 16
"""Text tokens a second of audio may cost before decoding stops: twice the rate of fast speech."""
TOKENS_EXTRA: Final = 12
MAX_BANS: Final = 4
"""Repetition loops broken within one final before it is taken as it stands."""


class Decoding:
    """Decodes the texts of one segment into its sequence of the KV cache. Blocking; one thread at a time."""

    def __init__(self, model: "AsrModel", sequence: int, language: str | None, owner: Owner, work: Work) -> None:
        self._model, self._sequence, self._language = model, sequence, language
        self._owner, self._work = owner, work

    def interim(
        self, draft: Draft, logits: Floats, position: int, samples: int, bias: KeytermBias, *, kept: int
    ) -> None:
        """Append to ``draft`` what follows from ``logits`` [vocabulary], which ``bias`` has been applied to.

        Args:
            position: of the next row.
            samples: length of the clip.
            kept: tokens of ``draft`` that a loop does not take back.
        """
        self._follow(draft, logits, position, samples, bias, kept=kept)

    def final(self, logits: Floats, position: int, samples: int, bias: KeytermBias) -> Draft:
        """The text of a clip of ``samples``; ``logits`` [vocabulary] choose its first token, of row ``position``."""
        draft, doubting = Draft(), self._model.doubts
        bias.apply(logits, draft.tokens)
        self._follow(draft, logits, position, samples, bias, bans=MAX_BANS, weigh=doubting)
        return self._reconsider(draft, position, samples, bias) if doubting else draft

    def _reconsider(self, first: Draft, position: int, samples: int, bias: KeytermBias) -> Draft:
        """The likeliest of ``first``, whose tokens begin at ``position``, and what follows from its runner-ups."""
        if not first.ended or first.looped:
            return first
        answer = self._model.prompt.answer(first.tokens, self._language)
        best = first
        for at in doubts(first.choices, len(first.tokens) - len(answer.body)):
            draft, token = first.until(at), first.choices[at].runner_up
            if token in self._model.prompt.stop:
                draft.ended = True
            else:
                draft.tokens.append(token)
                draft.probabilities.append(float(np.exp(first.choices[at].runner_up_log)))
                logits = self._step(token, position + at)
                bias.apply(logits, draft.tokens)
                # A loop ends it: going back before the doubt would change the cache under those still to come.
                self._follow(draft, logits, position + at + 1, samples, bias, weigh=True)
                self._work.doubts += 1
            if draft.ended and not draft.looped and draft.total > best.total:
                best = draft
        return best

    def _follow(
        self,
        draft: Draft,
        logits: Floats,
        position: int,
        samples: int,
        bias: KeytermBias,
        *,
        kept: int = 0,
        bans: int = 0,
        weigh: bool = False,
    ) -> None:
        """Decode greedily from ``logits`` on, appending to ``draft``; ``position`` is the next free one.

        A loop is cut back to its first turn, but not into the first ``kept`` tokens. At most ``bans`` times it then
        goes on with another token than the one that began the second turn. ``weigh``: keep the draft's choices.
        """
        tokens, probabilities = draft.tokens, draft.probabilities
        seconds = samples / self._model.sample_rate
        budget = min(int(seconds * TOKENS_PER_SECOND) + TOKENS_EXTRA, len(tokens) + self._model.decoder.rows - position)
        first_position = position - len(tokens)
        banned: dict[int, set[int]] = {}
        biased = True  # the caller's logits are
        while len(tokens) < budget:
            if not biased:
                bias.apply(logits, tokens)
            biased = False
            for token in banned.get(len(tokens), ()):
                logits[token] = -np.inf
            best = int(logits.argmax())
            reciprocal = inverse(logits, best)
            if weigh:
                draft.choices.append(choose(logits, best, reciprocal))
            if best in self._model.prompt.stop:
                draft.ended = True
                return
            tokens.append(best)
            probabilities.append(float(1.0 / reciprocal))
            period = loop_period(tokens)
            if period:
                self._work.loops_broken += 1
                draft.looped = True
                # Back to the end of the loop's first turn; its second turn may not begin there again.
                cut = period.start + period.length
                if bans == 0:
                    del tokens[max(cut, kept) :], probabilities[max(cut, kept) :]
                    return
                bans -= 1
                banned.setdefault(cut, set()).add(tokens[cut])
                del tokens[cut:], probabilities[cut:]
                position = first_position + cut - 1
                logits = self._step(tokens[-1], position)
            else:
                logits = self._step(best, position)
            position += 1

    def _step(self, token: int, position: int) -> Floats:
        began = time.perf_counter()
        row = self._model.decoder.embed([token])
        logits = self._model.evaluate(Rows(self._sequence, position, row, 0), self._owner)
        self._work.steps += 1
        self._work.step_seconds += time.perf_counter() - began
        return logits[0]
