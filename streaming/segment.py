"""A segment on the model's side: what of its audio is in the KV cache, and its hypotheses.

KV layout of the session's sequence::

    head (prompt, context) | closed windows, one call each | volatile: tail audio · suffix · text

Head and windows are evaluated once, and again only where a context had to be taken back; each evaluation begins where
the volatile rows begin, which forgets the last one's. A *final* is decoded from the samples alone: tail and suffix in
one call, then token by token (streaming/decoding.py). Its calls have the same shapes however the audio arrived and
whether interims ran or not, so its text is the same, bit for bit (engines/gguf.py says what that rests on). An
*interim* evaluates tail audio, suffix, committed text and the last hypothesis as a draft in one call, keeps the
agreeing part and decodes on from the first difference; nothing of it reaches the final.
"""

import time
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from engines.batching import Owner
from engines.gguf import Rows
from streaming.ctc import CtcRows
from streaming.decoding import MAX_BANS, Draft, Hypothesis, accepted, budget, follow, inverse
from streaming.encoder import Encoded
from streaming.engine import TEXT_ROWS, Engine, Head
from streaming.fun_asr.clip import WholeClip
from streaming.fun_asr.fbank import Fbank
from streaming.keyterms import SUPPORT, KeytermBias, recited
from streaming.rescoring import rescored
from streaming.windows import Windows
from streaming.work import Work

Floats = npt.NDArray[np.float32]


class KvSequence:
    """A session's sequence of the KV cache: got with its first segment, each head of the prompt evaluated once."""

    def __init__(self, engine: Engine, language: str | None, work: Work) -> None:
        self._engine, self._language, self._work = engine, language, work
        self._number: int | None = None
        self._head: Head | None = None
        """The one in the cache."""

    def segment(self, head: Head, mel_maximum: float | None, session: Owner, owner: Owner) -> "Segment":
        """A new segment after ``head``. Blocking; ``owner``: whose work it is, in ``session``."""
        if self._number is None:
            self._number = self._engine.acquire(session)
        if self._head is not head:
            self._engine.evaluate(Rows(self._number, 0, head.rows, len(head.rows)), owner)
            self._head = head
            self._work.head_rows += len(head.rows)
        return Segment(self._engine, self._number, head, self._language, self._work, mel_maximum)

    def release(self) -> None:
        """Give it back. Idempotent."""
        if self._number is not None:
            self._engine.release(self._number)
            self._number = None


class Segment:
    """One segment in sequence ``sequence`` of the cache, which holds ``head``. Blocking; one thread at a time."""

    def __init__(
        self,
        engine: Engine,
        sequence: int,
        head: Head,
        language: str | None,
        work: Work,
        mel_maximum: float | None = None,
    ) -> None:
        self._engine, self._sequence, self._language, self._work = engine, sequence, language, work
        self._asked = head
        self._head = head
        """What is in the cache before the closed windows: ``head``, or one without its context."""
        self._whole = True
        """Whether all of that and the closed windows are there."""
        front = engine.log_mel
        self._windows = (
            WholeClip(engine, front, work) if isinstance(front, Fbank) else Windows(engine, work, mel_maximum)
        )
        self._rows = len(head.rows)
        """Rows that stay in the cache: the position of what comes after them."""
        self._window: Encoded | None = None
        """A window that is encoded and not in the cache yet."""
        self._closed: list[Floats] = []
        """Embeddings of the closed windows, kept only where a context may have to be taken back."""
        self.ctc = CtcRows(engine.manifest.encoder.ctc_blank)
        """Of the clip that was read last."""

    # ---------------------------------------------------------------- audio

    @property
    def length(self) -> int:
        """Samples so far."""
        return self._windows.length

    def extend(self, samples: Floats) -> None:
        """Append samples, float32 mono at the model's rate."""
        self._windows.extend(samples)

    def audio(self, start: int, stop: int) -> Floats:
        """A view of the samples ``start … stop`` of the segment."""
        return self._windows.audio(start, stop)

    def advance(self, owner: Owner) -> None:
        """Encode the oldest complete window and put it into the cache, in a call of its own."""
        self._hold(self._asked, owner)
        self._window = window = self._window or self._windows.take(owner)
        self._evaluate(window.embeddings, self._rows, len(window.embeddings), owner)
        self._window = None
        if self._head.keyterms:
            self._closed.append(window.embeddings)
        self._rows += len(window.embeddings)
        self._work.window_rows += len(window.embeddings)
        self.ctc.append(window.ctc)

    # ---------------------------------------------------------------- text

    def final(self, end: int, owner: Owner, quiet: int = 0) -> Hypothesis:
        """The text of the clip that ends at sample ``end``, whose complete windows are in the cache, with ``quiet``
        zeros behind it; depends on those samples alone."""
        self._hold(self._asked, owner)
        audio = self._tail(end, owner, quiet)
        hypothesis = self._decoded(audio, end, owner)
        if self._recites(hypothesis):
            self._work.context_redecoded += 1
            self._hold(self._engine.head((), self._language), owner)
            hypothesis = self._decoded(audio, end, owner)
            self._hold(self._asked, owner)
        self._work.finals += 1
        return hypothesis

    def _decoded(self, audio: Floats, end: int, owner: Owner) -> Hypothesis:
        bias = self._head.bias.heard(self.ctc)  # milliseconds, in which the decoder serves others
        return self._engine.chain(partial(self._decode, audio, end, owner, bias), owner)

    def interim(self, last: Hypothesis, committed: Sequence[int], owner: Owner) -> Hypothesis:
        """What is heard in all audio so far, whose complete windows are in the cache.

        Args:
            last: the hypothesis before this one, verified as a draft.
            committed: the tokens of its text that stay.
        """
        self._hold(self._asked, owner)
        audio = self._tail(self.length, owner)
        bias = self._head.bias.heard(self.ctc)
        hypothesis = self._engine.chain(partial(self._revise, audio, last, committed, owner, bias), owner)
        self._work.ticks += 1
        return hypothesis

    def _revise(
        self, audio: Floats, last: Hypothesis, committed: Sequence[int], owner: Owner, bias: KeytermBias
    ) -> Hypothesis:
        kept = (*last.header, *committed) if committed else ()
        guess = last.tokens[len(kept) :]
        logits, position = self._read(audio, [*kept, *guess], len(kept), owner)
        if committed:
            # Committed words are whole: what follows begins a word (or ends the text).
            follows = self._engine.prompt.after_word(last.answer.language, logits.shape[1])
            logits[0, ~follows] = -np.inf
        count = accepted(guess, logits, bias, kept)
        sure = (float(1.0 / inverse(logits[i], guess[i])) for i in range(count))
        draft = Draft([*kept, *guess[:count]], [*last.probabilities[: len(kept)], *sure])
        self._follow(draft, logits[count], position - (len(guess) - count), self.length, owner, bias, kept=len(kept))
        return self._understood(draft)

    def _tail(self, end: int, owner: Owner, quiet: int = 0) -> Floats:
        """Embeddings after the closed windows of the clip that ends at sample ``end``."""
        tail = self._windows.tail(end, owner, quiet)
        self.ctc.end(tail.ctc)
        return tail.embeddings

    def _read(self, audio: Floats, text: Sequence[int], known: int, owner: Owner) -> tuple[Floats, int]:
        """Evaluate tail ``audio`` · suffix · ``text`` in one call.

        Returns:
            The logits that choose the token after ``text[:known]`` and each later one of ``text``, and the token after
            it: float32 [len(text) - known + 1, vocabulary]; and the position of the next row.
        """
        suffix = self._engine.prompt.suffix(self._language)
        rows = np.concatenate([audio, self._engine.embed([*suffix, *text])])
        logits = self._evaluate(rows, self._rows, len(audio) + len(suffix) + known - 1, owner)
        self._work.tail_rows += len(audio)
        self._work.text_rows += len(rows) - len(audio)
        return logits, self._rows + len(rows)

    def _decode(self, audio: Floats, end: int, owner: Owner, bias: KeytermBias) -> Hypothesis:
        """The text of the closed windows and the tail rows ``audio``, decoded afresh."""
        logits, position = self._read(audio, (), 0, owner)
        draft, rescores = Draft(), self._engine.rescores
        bias.apply(logits[0], ())
        self._follow(draft, logits[0], position, end, owner, bias, bans=MAX_BANS, choices=rescores)
        rows, blank = self.ctc.log_probs, self.ctc.blank
        if rescores and draft.ended and not draft.looped and rows is not None and blank is not None:
            draft = self._rescore(draft, rows, blank, position, end, owner, bias)
        return self._understood(draft)

    def _rescore(
        self, draft: Draft, rows: Floats, blank: int, position: int, end: int, owner: Owner, bias: KeytermBias
    ) -> Draft:
        began = time.perf_counter()

        def evaluate(tokens: Sequence[int], at: int, wanted: int) -> Floats:
            self._work.rescoring_rows += len(tokens)
            return self._engine.evaluate(Rows(self._sequence, at, self._engine.embed(tokens), wanted), owner)

        best = rescored(
            draft,
            len(draft.tokens) - len(self._understood(draft).answer.body),
            position,
            rows,
            blank,
            evaluate=evaluate,
            stop=self._engine.prompt.stop,
            bias=bias,
            limit=self._budget(end),
        )
        self._work.rescoring_seconds += time.perf_counter() - began
        return best

    def _follow(
        self,
        draft: Draft,
        logits: Floats,
        position: int,
        samples: int,
        owner: Owner,
        bias: KeytermBias,
        *,
        kept: int = 0,
        bans: int = 0,
        choices: bool = False,
    ) -> None:
        def step(token: int, at: int) -> Floats:
            self._work.steps += 1
            return self._engine.evaluate(Rows(self._sequence, at, self._engine.embed([token]), 0), owner)[0]

        began = time.perf_counter()
        follow(
            draft,
            logits,
            position,
            step=step,
            stop=self._engine.prompt.stop,
            bias=bias,
            limit=self._budget(samples),
            kept=kept,
            bans=bans,
            choices=choices,
        )
        self._work.step_seconds += time.perf_counter() - began

    def _budget(self, samples: int) -> int:
        """Most tokens of the text of a clip of ``samples``: an interim's still fits behind the longest one."""
        suffix = self._engine.prompt.suffix(self._language)
        return budget(samples, self._engine.sample_rate, TEXT_ROWS - len(suffix))

    def _understood(self, draft: Draft) -> Hypothesis:
        answer = self._engine.prompt.answer(draft.tokens, self._language)
        return Hypothesis(tuple(draft.tokens), tuple(draft.probabilities), answer)

    # ---------------------------------------------------------------- context

    def _recites(self, hypothesis: Hypothesis) -> bool:
        """Whether the text recites the context where the CTC head (if there is one) heard something else."""
        if not self._head.keyterms:
            return False
        body = hypothesis.answer.body
        found = self._engine.prompt.words(body, hypothesis.answer.language)
        run = recited([w for w, _, _ in found], " ".join(self._head.keyterms).split())
        return run is not None and self.ctc.word_scores(body, [(found[run[0]][1], found[run[1] - 1][2])])[0] < SUPPORT

    def _hold(self, head: Head, owner: Owner) -> None:
        """See to it that the cache holds ``head`` and the closed windows, in the partition they came in: the same bits.
        What is cancelled in between is made good by the next call."""
        if self._whole and self._head is head:
            return
        self._head, self._whole = head, False
        self._evaluate(head.rows, 0, len(head.rows), owner)
        self._rows = len(head.rows)
        for embeddings in self._closed:
            self._evaluate(embeddings, self._rows, len(embeddings), owner)
            self._rows += len(embeddings)
        self._whole = True

    def _evaluate(self, rows: Floats, start: int, logits_from: int, owner: Owner) -> Floats:
        """Evaluate ``rows`` [n, width] from position ``start`` on: logits [n - logits_from, vocabulary]."""
        began = time.perf_counter()
        logits = self._engine.evaluate(Rows(self._sequence, start, rows, logits_from), owner)
        self._work.prefill_seconds += time.perf_counter() - began
        return logits
