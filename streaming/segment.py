"""A segment and its part of the KV cache, from which its hypotheses are decoded.

The session's sequence in the cache holds::

    head (prompt, context) | closed windows, one call each | volatile: tail audio · suffix · text

Head and windows are evaluated once, and again only where a text recited the context and is decoded without it. Each
evaluation begins where the volatile rows begin, which discards those of the last one. A *final* is decoded from the
samples alone: tail and suffix in one call, then token by token (streaming/decoding.py). Its calls have the same shapes
however the audio arrived and whether or not interims were made, so its text is the same, bit for bit (engines/gguf.py
says what that rests on). An *interim* evaluates tail audio, suffix, committed text and the last hypothesis as a draft
in one call (a long draft in several), keeps the part that agrees and decodes on from the first difference. Nothing of
it reaches the final.
"""

import threading
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engines.gguf import Rows
from engines.lane import Cancelled, Steps, Task
from streaming.ctc import CtcRows
from streaming.decoding import BLOCK, MAX_BANS, Draft, Hypothesis, agree, budget, follow
from streaming.encoder import Encoded
from streaming.engine import TEXT_ROWS, Engine, Head
from streaming.keyterms import SUPPORT, KeytermBias, recited
from streaming.rescoring import DRAFT, expected, rescored
from streaming.work import Work

Floats = npt.NDArray[np.float32]


class KvSequence:
    """A session's sequence of the KV cache. It is taken for the first segment, so that a silent session holds none."""

    def __init__(self, engine: Engine, language: str | None, work: Work) -> None:
        self._engine, self._language, self._work = engine, language, work
        self._number: int | None = None
        self._released = False
        self._lock = threading.Lock()
        self._head: Head | None = None
        """The head that is in the cache, or None before the first segment."""

    def segment(self, head: Head, mel_maximum: float | None) -> Steps["Segment"]:
        """Begin a segment after ``head``, which is evaluated unless it is in the cache already.

        Raises:
            Cancelled: the sequence was released meanwhile.
        """
        number = self._number
        if number is None:
            number = yield from self._engine.acquire()
            self._keep(number)
        if self._head is not head:
            yield from self._engine.evaluate(Rows(number, 0, head.rows, len(head.rows)))
            self._head = head
            self._work.head_rows += len(head.rows)
        return Segment(self._engine, number, head, self._language, self._work, mel_maximum)

    def release(self) -> None:
        """Give the sequence back, for good. Idempotent."""
        with self._lock:
            number, self._number, self._released = self._number, None, True
        if number is not None:
            self._engine.release(number)

    def _keep(self, number: int) -> None:
        """Keep a sequence that was just taken. A session may be closed while it is: then nobody else would give it
        back."""
        with self._lock:
            if not self._released:
                self._number = number
                return
        self._engine.lane.start(Task(self._engine.decoder.release(number)))
        raise Cancelled


class Segment:
    """One segment in sequence ``sequence`` of the cache, which holds ``head``. Only one of its generators runs at a
    time; one that is closed before its end leaves the segment usable."""

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
        """The head in the cache before the closed windows: ``head``, or one without its context."""
        self._whole = True
        """Whether the cache holds all of that head and of the closed windows."""
        self._windows = engine.family.clip(engine.encoder, work, mel_maximum)
        self._rows = len(head.rows)
        """How many rows of the cache stay, head and closed windows: the position of the first volatile row."""
        self._window: Encoded | None = None
        """A window that is encoded but not in the cache yet, if there is one."""
        self._closed: list[Floats] = []
        """The embeddings of the closed windows. They are kept only if there are keyterms, to evaluate them again after
        another head."""
        self.ctc = CtcRows(engine.manifest.encoder.ctc_blank)
        """The CTC head's rows of the clip that was decoded last."""

    # ---------------------------------------------------------------- audio

    @property
    def length(self) -> int:
        """How many samples the segment has so far."""
        return self._windows.length

    def extend(self, samples: Floats) -> None:
        """Append samples, float32 mono at the model's rate."""
        self._windows.extend(samples)

    def audio(self, start: int, stop: int) -> Floats:
        """A view of the samples ``start … stop`` of the segment."""
        return self._windows.audio(start, stop)

    def advance(self) -> Steps[None]:
        """Encode the oldest complete window and put it into the cache, in a call of its own."""
        yield from self._hold(self._asked)
        self._window = window = self._window or (yield from self._windows.take())
        yield from self._evaluate(window.embeddings, self._rows, len(window.embeddings))
        self._window = None
        if self._head.keyterms:
            self._closed.append(window.embeddings)
        self._rows += len(window.embeddings)
        self._work.window_rows += len(window.embeddings)
        self.ctc.append(window.ctc)

    # ---------------------------------------------------------------- text

    def final(self, end: int, quiet: int = 0) -> Steps[Hypothesis]:
        """Decode the final text of the first ``end`` samples, with ``quiet`` zeros after them. Their complete windows
        must be in the cache. The text depends on those samples alone."""
        yield from self._hold(self._asked)
        audio = yield from self._tail(end, quiet)
        hypothesis = yield from self._decode(audio, end)
        if self._recites(hypothesis):
            self._work.context_redecoded += 1
            yield from self._hold(self._engine.head((), self._language))
            hypothesis = yield from self._decode(audio, end)
            yield from self._hold(self._asked)
        self._work.finals += 1
        return hypothesis

    def interim(self, last: Hypothesis, committed: Sequence[int]) -> Steps[Hypothesis]:
        """Decode an interim text of all audio so far, whose complete windows must be in the cache.

        Args:
            last: the previous hypothesis, which serves as a draft.
            committed: the tokens of its text that stay.
        """
        yield from self._hold(self._asked)
        audio = yield from self._tail(self.length)
        bias = self._head.bias.spotted(self.ctc)
        kept = (*last.header, *committed) if committed else ()
        guess = [*last.tokens[len(kept) :], *self._newly_heard(last.answer.body)]
        guess = guess[: max(0, self._budget(self.length) - len(kept))]
        logits, position = yield from self._read(audio, [*kept, *guess[:BLOCK]], len(kept))
        if committed:
            # Committed words are whole, so the next token must begin a word, be a mark or end the text.
            follows = self._engine.prompt.after_word(last.answer.language, logits.shape[1])
            logits[0, ~follows] = -np.inf
        else:
            self._ask_for_words(logits[0])
        draft = Draft([*kept], [*last.probabilities[: len(kept)]])
        chosen, at = yield from agree(draft, guess, logits, position, read=self._more, bias=bias)
        yield from self._follow(draft, chosen, at, self.length, bias, kept=len(kept))
        self._work.ticks += 1
        return self._understood(draft)

    def _newly_heard(self, body: Sequence[int]) -> Sequence[int]:
        """What the CTC head heard after the text ``body``, as a guess: rows of a call are cheaper than steps."""
        path = self.ctc.path()
        return expected(path, len(body) - 1, body[-1], 0) if body else path[:DRAFT]

    def _ask_for_words(self, logits: Floats) -> None:
        """Take the end of an answer out of ``logits`` [vocabulary], which choose its first token, if the CTC head hears
        a word: a clip that begins inside a word is noise to a decoder that has learned to write nothing for noise, and
        the head, which hears no word in noise either, tells the two apart (notes/2026-11-finals.md)."""
        if not self._engine.prompt.closers.marks.issuperset(self.ctc.path()):
            logits[list(self._engine.prompt.stop)] = -np.inf

    def _tail(self, end: int, quiet: int = 0) -> Steps[Floats]:
        """The embeddings of the first ``end`` samples after their closed windows, with ``quiet`` zeros after them."""
        tail = yield from self._windows.tail(end, quiet)
        self.ctc.end(tail.ctc)
        return tail.embeddings

    def _read(self, audio: Floats, text: Sequence[int], known: int) -> Steps[tuple[Floats, int]]:
        """Evaluate tail ``audio`` · suffix · ``text`` in one call.

        Returns:
            The logits that choose each token of ``text[known:]`` and the token after it, float32 [len(text) - known +
            1, vocabulary]; and the position of the next row.
        """
        suffix = self._engine.prompt.suffix(self._language)
        rows = np.concatenate([audio, self._engine.embed([*suffix, *text])])
        logits = yield from self._evaluate(rows, self._rows, len(audio) + len(suffix) + known - 1)
        self._work.tail_rows += len(audio)
        self._work.text_rows += len(rows) - len(audio)
        return logits, self._rows + len(rows)

    def _more(self, text: Sequence[int], position: int) -> Steps[Floats]:
        """Evaluate further rows of text; returns the logits after each."""
        self._work.text_rows += len(text)
        return self._evaluate(self._engine.embed(text), position, 0)

    def _decode(self, audio: Floats, end: int) -> Steps[Hypothesis]:
        """Decode the text of the closed windows and the tail rows ``audio`` from its first token on."""
        bias = self._head.bias.spotted(self.ctc)
        logits, position = yield from self._read(audio, (), 0)
        draft, rescores = Draft(), self._engine.rescores
        self._ask_for_words(logits[0])
        bias.apply(logits[0], ())
        yield from self._follow(draft, logits[0], position, end, bias, bans=MAX_BANS, choices=rescores)
        rows, blank = self.ctc.log_probs, self.ctc.blank
        if rescores and draft.ended and not draft.looped and rows is not None and blank is not None:
            draft = yield from self._rescore(draft, rows, blank, position, end, bias)
        return self._understood(draft)

    def _rescore(
        self, draft: Draft, rows: Floats, blank: int, position: int, end: int, bias: KeytermBias
    ) -> Steps[Draft]:
        """The best of ``draft`` and its alternatives (streaming/rescoring.py)."""
        began = time.perf_counter()

        def evaluate(tokens: Sequence[int], at: int, wanted: int) -> Steps[Floats]:
            self._work.rescoring_rows += len(tokens)
            return self._engine.evaluate(Rows(self._sequence, at, self._engine.embed(tokens), wanted))

        best = yield from rescored(
            draft,
            len(draft.tokens) - len(self._understood(draft).answer.body),
            position,
            rows,
            blank,
            evaluate=evaluate,
            stop=self._engine.prompt.stop,
            bias=bias,
            limit=self._budget(end),
            closers=self._engine.prompt.closers,
        )
        self._work.rescoring_seconds += time.perf_counter() - began
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
        choices: bool = False,
    ) -> Steps[None]:
        """``streaming.decoding.follow`` with this segment's rows and budget."""

        def step(token: int, at: int) -> Steps[Floats]:
            self._work.steps += 1
            return (yield from self._engine.evaluate(Rows(self._sequence, at, self._engine.embed([token]), 0)))[0]

        began = time.perf_counter()
        yield from follow(
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
            closers=self._engine.prompt.closers,
        )
        self._work.step_seconds += time.perf_counter() - began

    def _budget(self, samples: int) -> int:
        """How many tokens the text of a clip of ``samples`` may have."""
        suffix = self._engine.prompt.suffix(self._language)
        return budget(samples, self._engine.sample_rate, TEXT_ROWS - len(suffix))

    def _understood(self, draft: Draft) -> Hypothesis:
        answer = self._engine.prompt.answer(draft.tokens, self._language)
        return Hypothesis(tuple(draft.tokens), tuple(draft.probabilities), answer, draft.ending)

    # ---------------------------------------------------------------- context

    def _recites(self, hypothesis: Hypothesis) -> bool:
        """Whether the text recites the keyterms although the CTC head does not find them in the audio; without such a
        head reciting alone decides."""
        if not self._head.keyterms:
            return False
        body = hypothesis.answer.body
        found = self._engine.prompt.words(body, hypothesis.answer.language)
        run = recited([w for w, _, _ in found], " ".join(self._head.keyterms).split())
        return run is not None and self.ctc.word_scores(body, [(found[run[0]][1], found[run[1] - 1][2])])[0] < SUPPORT

    def _hold(self, head: Head) -> Steps[None]:
        """Make the cache hold ``head`` and the closed windows. Windows are evaluated in the calls that they first came
        in, so that their bits are the same. If this generator is closed before its end, the next one begins anew."""
        if self._whole and self._head is head:
            return
        self._head, self._whole = head, False
        yield from self._evaluate(head.rows, 0, len(head.rows))
        self._rows = len(head.rows)
        for embeddings in self._closed:
            yield from self._evaluate(embeddings, self._rows, len(embeddings))
            self._rows += len(embeddings)
        self._whole = True

    def _evaluate(self, rows: Floats, start: int, logits_from: int) -> Steps[Floats]:
        """Evaluate ``rows`` [n, width] from position ``start`` on; returns logits [n - logits_from, vocabulary]."""
        began = time.perf_counter()
        logits = yield from self._engine.evaluate(Rows(self._sequence, start, rows, logits_from))
        self._work.prefill_seconds += time.perf_counter() - began
        return logits
