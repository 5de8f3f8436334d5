"""A segment's text, token by token: from the logits after its prompt to its end.

One row a call, greedily. Two guards: a *budget* of tokens by the length of the audio, and *loops*, which are cut back
to their first turn. A final goes on behind a loop with another token than the one that began the second turn, so what
was said after it is still heard; an interim stops there. Finals of small models then have second thoughts
(streaming/doubt.py).
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from engines.batching import Owner, Urgency
from engines.gguf import Rows
from streaming.bias import KeytermBias
from streaming.branch import Branch
from streaming.doubt import (
    DOUBTS,
    HOPELESS,
    PER_TOKEN,
    ROWS,
    Agenda,
    Draft,
    Opinion,
    Read,
    best_of,
    choose,
    inverse,
    opined,
)
from streaming.language_model import log_probabilities
from streaming.opinions import Sounds, by_phones, by_tokens
from streaming.reading import Reading
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

    def __init__(
        self,
        model: "AsrModel",
        sequence: int,
        language: str | None,
        owner: Owner,
        work: Work,
        reading: Reading | None = None,
    ) -> None:
        """``reading``: of a clip that another one has decoded and this one is to hear again."""
        self._model, self._sequence, self._language = model, sequence, language
        self._owner, self._work = owner, work
        self.reading = reading or Reading(model, language, owner, self._start)
        """How probable the texts of the last final are without sound."""
        self.found: list[Draft] = []
        """The texts of the last final, or of what was heard again, that came nearest; with scores."""

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

    def final(self, logits: Floats, position: int, samples: int, bias: KeytermBias, sounds: Sounds) -> Draft:
        """The text of a clip of ``samples``; ``logits`` [vocabulary] choose its first token, of row ``position``.

        ``sounds``: what the heads beside the encoder heard in the clip.
        """
        draft, doubting = Draft(), self._model.doubts
        self.found = []
        self.reading.forget()
        bias.apply(logits, draft.tokens)
        self._follow(draft, logits, position, samples, bias, bans=MAX_BANS, weigh=doubting)
        if not doubting or not draft.ended or draft.looped:
            return draft
        # One job: some thirty short calls that each waited for their turn would be late on a busy machine.
        drafts = self._model.lane.call(
            lambda: self._reconsider(draft, self._branch(position, samples, bias, draft.tokens)), owner=self._owner
        )
        return self._best(drafts, sounds, self.reading.reader(bias, Urgency.DUE, self._work))

    def again(
        self,
        logits: Floats,
        position: int,
        samples: int,
        bias: KeytermBias,
        sounds: Sounds,
        *,
        known: Sequence[int],
        beat: float,
        urgency: Urgency,
    ) -> Draft:
        """As :meth:`final` for a clip of whose words there is a text already, in few calls: one job of the lane that
        finds texts, and one that reads them where the model can.

        A loop, or a text without an end, is not mended: it comes without a score.

        Args:
            known: that text's tokens, the draft of this one.
            beat: its score; where this hearing's first text falls far behind, there are no second thoughts.
            urgency: of the job.
        """
        draft = Draft()
        here = self.reading.reader(bias, None, self._work)

        def hear() -> list[Draft]:
            branch = self._branch(position, samples, bias, ())
            branch.begin(draft, logits, known)
            if not draft.ended:
                return []
            score = self._best([draft], sounds, here).score
            return [draft] if score is None or score < beat - HOPELESS else self._reconsider(draft, branch)

        drafts = self._model.lane.call(hear, owner=self._owner, urgency=urgency)
        return self._best(drafts, sounds, self.reading.reader(bias, urgency, self._work)) if drafts else draft

    def _branch(self, position: int, samples: int, bias: KeytermBias, cached: Sequence[int]) -> Branch:
        return Branch(self._model, self._sequence, position, self._budget(samples, position), bias, cached)

    def _start(self, tokens: Sequence[int]) -> int:
        """Where the text begins in a draft's tokens; before it stands the language, where that was not forced."""
        return len(tokens) - len(self._model.prompt.answer(tokens, self._language).body)

    def _best(self, drafts: Sequence[Draft], sounds: Sounds, read: Read | None) -> Draft:
        best = best_of(drafts, self._opinions(sounds, self._start(drafts[0].tokens)), read)
        self.found = [draft for draft in drafts if draft.score is not None]
        return best

    def weigh(
        self,
        texts: Sequence[tuple[int, ...]],
        logits: Floats,
        position: int,
        bias: KeytermBias,
        sounds: Sounds,
        urgency: Urgency,
    ) -> tuple[npt.NDArray[np.float64], list[npt.NDArray[np.float64]]]:
        """How well texts fit a clip, whoever found them: the scores that decoder and heads give each of them, and the
        logarithms of each one's tokens and end. The texts begin alike, with the language where it was not forced.

        ``logits`` [vocabulary] choose the first token, of row ``position``.
        """
        model = self._model
        logs, _ = model.lane.call(
            lambda: log_probabilities(model.decoder, self._sequence, position, logits, texts, model.prompt.end, bias),
            owner=self._owner,
            urgency=urgency,
        )
        scores = np.array([each.sum() + PER_TOKEN * len(text) for each, text in zip(logs, texts, strict=True)])
        drafts = [Draft(list(text)) for text in texts]
        return opined(drafts, scores, self._opinions(sounds, self._start(texts[0]))), logs

    def _opinions(self, sounds: Sounds, start: int) -> list[Opinion]:
        """Of the heads that heard something, on texts that begin at ``start`` in their tokens."""
        prompt, blank = self._model.prompt, self._model.manifest.encoder.ctc_blank
        pronunciation = self._model.pronunciation
        opinions: list[Opinion] = []
        if sounds.ctc is not None and blank is not None:
            opinions.append(by_tokens(sounds.ctc, blank, start))
        if sounds.phones is not None and pronunciation is not None:
            said = by_phones(sounds.phones, lambda tokens: pronunciation.of(prompt.text(tokens[start:]).split()))

            def timed(drafts: Sequence[Draft]) -> npt.NDArray[np.float64]:
                began = time.perf_counter()
                scores = said(drafts)
                self._work.phone_seconds += time.perf_counter() - began
                return scores

            opinions.append(timed)
        return opinions

    def _reconsider(self, first: Draft, branch: Branch) -> list[Draft]:
        """``first`` and the texts that its second thoughts lead to, followed by ``branch``. Runs in the lane."""
        began = time.perf_counter()
        agenda, found, texts = Agenda(), [first], {tuple(first.tokens)}
        agenda.add(first, self._start(first.tokens))
        followed = 0
        while followed < DOUBTS and branch.rows < ROWS and (doubt := agenda.next()) is not None:
            draft = doubt.begun()
            if doubt.token in self._model.prompt.stop:
                draft.ended = True
            else:
                followed += 1
                branch.follow(draft, doubt)
            if draft.ended and tuple(draft.tokens) not in texts:
                texts.add(tuple(draft.tokens))
                found.append(draft)
                agenda.add(draft, doubt.position + 1)
        self._work.doubts += followed
        self._work.doubt_rows += branch.rows
        self._work.doubt_seconds += time.perf_counter() - began
        return found

    def _budget(self, samples: int, first_position: int) -> int:
        """Tokens that the text of a clip of ``samples`` may have, its first one's row at ``first_position``."""
        budget = int(samples / self._model.sample_rate * TOKENS_PER_SECOND) + TOKENS_EXTRA
        return min(budget, self._model.decoder.rows - first_position)

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
        first_position = position - len(tokens)
        budget = self._budget(samples, first_position)
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
