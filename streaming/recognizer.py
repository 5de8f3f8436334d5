"""The text half of a segment: what of its audio is in the KV cache, and its hypotheses (audio: streaming/windows.py).

KV layout of the session's sequence::

    head (prompt, context) | closed windows, one call each | volatile: tail audio · suffix · text

Head and windows are evaluated once, and again only where another hearing stood in their place or a context had to be
taken back; each evaluation begins where the volatile rows begin, which forgets the last one's. A *final* is decoded
from the samples alone: tail and suffix in one call, then token by token (streaming/decoding.py). Its calls have the
same shapes however the audio arrived and whether interims (streaming/interims.py) ran or not, so its text is the same,
bit for bit (engines/gguf.py says what that rests on).
"""

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engines.batching import Owner, Urgency
from streaming.bias import KeytermBias
from streaming.context import recited
from streaming.ctc_rows import CtcRows
from streaming.decoding import Decoding
from streaming.doubt import Draft, Read
from streaming.hypothesis import Hypothesis
from streaming.opinions import Sounds
from streaming.prefix import Head, Prefix
from streaming.reading import Reading
from streaming.windows import Windows
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel

Floats = npt.NDArray[np.float32]


class Segment:
    """The state of one open segment. Blocking; one thread at a time."""

    def __init__(
        self,
        model: "AsrModel",
        sequence: int,
        head: Head,
        language: str | None,
        owner: Owner,
        work: Work,
        mel_maximum: float | None = None,
        reading: Reading | None = None,
    ) -> None:
        """``reading``: of the clip whose words it is to hear again."""
        self._model, self._sequence, self._language = model, sequence, language
        self._owner, self._work = owner, work
        self._mel_maximum = mel_maximum
        self._urgency = Urgency.DUE
        self._windows = Windows(model, owner, work, mel_maximum)
        self._decoding = Decoding(model, sequence, language, owner, work, reading)
        self._prefix = Prefix(model, sequence, head, owner, work)
        self._rest: Floats | None = None
        """Embeddings after the closed windows of the clip that was decoded last."""
        self._asked: tuple[Floats, int] | None = None
        """What chose its text's first token, logits [vocabulary] and the row's position, while that clip is in the
        cache."""
        self.recited = False
        """Whether the last final was decoded without context, because it recited it."""
        encoder = model.manifest.encoder
        self._ctc = CtcRows(encoder.ctc_blank)
        self._phones = CtcRows(None if encoder.phones is None else encoder.phones.classes)

    @property
    def _head(self) -> Head:
        return self._prefix.head

    @property
    def bias(self) -> KeytermBias:
        """What prefers those in the prompt."""
        return self._head.bias

    @property
    def keyterms(self) -> tuple[str, ...]:
        """Those in the prompt: the session's, none while the context is taken out."""
        return self._head.keyterms

    # ---------------------------------------------------------------- audio

    @property
    def length(self) -> int:
        """Samples so far."""
        return self._windows.length

    @property
    def ctc(self) -> Floats | None:
        """CTC log-probabilities [rows, vocabulary + 1] of the last clip that was read; None without such a head."""
        return self._ctc.log_probs

    @property
    def phones(self) -> Floats | None:
        """Phone log-probabilities [frames, classes + 1] of that clip; None without such a head."""
        return self._phones.log_probs

    def word_scores(self, body: Sequence[int], spans: Sequence[tuple[int, int]]) -> Sequence[float]:
        """Mean CTC log-probability of the tokens of each word of ``body``, which stands at ``spans``, in the last clip
        that was read."""
        return self._ctc.word_scores(body, spans)

    @property
    def found(self) -> Sequence[Draft]:
        """The texts of the last final that came nearest, with scores."""
        return self._decoding.found

    @property
    def _sounds(self) -> Sounds:
        return Sounds(self.ctc, self.phones)

    def extend(self, samples: Floats) -> None:
        """Append samples, float32 mono at the model's rate."""
        self._windows.extend(samples)

    def audio(self, start: int, stop: int) -> Floats:
        """A view of the samples ``start … stop`` of the segment."""
        return self._windows.audio(start, stop)

    def advance(self, limit: int) -> None:
        """Close the windows that the first ``limit`` samples complete; cheap, ``settle`` does the work."""
        self._windows.close(limit)

    def settle(self) -> None:
        """Encode the closed windows and put them into the KV cache, each in a call of its own. Nothing to do, nothing
        done: what another hearing displaced is put back when it is needed."""
        taken = self._windows.take(self._urgency)
        if taken:
            self._prefix.restore(self._urgency)
        for window in taken:
            self._prefix.append(window.embeddings, self._urgency)
            self._ctc.append(window.ctc)
            self._phones.append(window.phones)

    # ---------------------------------------------------------------- text

    def read(self, end: int, text: Sequence[int], known: int = 0, urgency: Urgency = Urgency.DUE) -> tuple[Floats, int]:
        """Evaluate the clip that ends at sample ``end`` and ``text`` after it, in one call: tail audio · suffix · text.

        Returns:
            The logits that choose the token after ``text[:known]`` and each later one of ``text``, and the token after
            it: float32 [len(text) - known + 1, vocabulary]; and the position of that token's row.
        """
        with self._at(urgency):
            return self._evaluate_text(self._tail(end), text, known)

    @contextmanager
    def _at(self, urgency: Urgency) -> Generator[None]:
        """What is evaluated inside is of ``urgency``."""
        before, self._urgency = self._urgency, urgency
        try:
            yield
        finally:
            self._urgency = before

    def _tail(self, end: int) -> Floats:
        """Embeddings after the closed windows for the clip that ends at sample ``end``."""
        self.settle()
        self._prefix.restore(self._urgency)
        tail = self._windows.tail(end, self._urgency)
        self._ctc.end(tail.ctc)
        self._phones.end(tail.phones)
        return tail.embeddings

    def _evaluate_text(self, audio: Floats, text: Sequence[int], known: int) -> tuple[Floats, int]:
        suffix = self._model.prompt.suffix(self._language)
        after = self._model.decoder.embed([*suffix, *text])
        rows = np.concatenate([audio, after])
        start, self._asked = self._prefix.rows, None
        logits = self._prefix.evaluate(rows, start, len(audio) + len(suffix) + known - 1, self._urgency)
        self._work.tail_rows += len(audio)
        self._work.text_rows += len(after)
        return logits, start + len(rows)

    def go_on(self, draft: Draft, logits: Floats, position: int, *, kept: int) -> None:
        """Append to ``draft`` what follows from ``logits`` [vocabulary], which the bias has been applied to.

        Args:
            position: of the next row.
            kept: tokens of ``draft`` that a loop does not take back.
        """
        self._decoding.interim(draft, logits, position, self.length, self._head.bias, kept=kept)

    def final(self, end: int) -> Hypothesis:
        """The segment's text for the clip that ends at sample ``end``; depends on those samples alone."""
        audio = self._rest = self._tail(end)
        hypothesis = self._decode(audio, end)
        self.recited = self.leaks(hypothesis)
        if self.recited:
            self._work.context_redecoded += 1
            with self._prefix.without_context(self._urgency):
                hypothesis = self._decode(audio, end)
        self._work.finals += 1
        return hypothesis

    def _decode(self, audio: Floats, end: int) -> Hypothesis:
        """The text of the closed windows and the tail rows ``audio``, decoded afresh."""
        logits, position = self._ask(audio)
        return self.hypothesis_of(self._decoding.final(logits, position, end, self._head.bias, self._sounds))

    def _ask(self, audio: Floats) -> tuple[Floats, int]:
        """Have the clip whose last rows are ``audio`` in the cache, and the suffix: the logits [vocabulary] that choose
        its text's first token, and the position of that token's row."""
        logits, position = self._evaluate_text(audio, (), 0)
        self._asked = logits[0].copy(), position
        return logits[0], position

    def beside(self, samples: Floats, urgency: Urgency) -> "Segment":
        """A segment of other ``samples`` in this one's sequence, behind the head that is in the cache now."""
        other = Segment(
            self._model,
            self._sequence,
            self._head,
            self._language,
            self._owner,
            Work(),
            self._mel_maximum,
            self._decoding.reading,
        )
        other._urgency = urgency
        other.extend(samples)
        other.advance(len(samples))
        return other

    def again(self, known: Hypothesis) -> Hypothesis:
        """What is heard in all samples of the words of another segment's final, ``known``, which has a score."""
        assert known.score is not None
        self._rest = self._tail(self.length)
        logits, position = self._ask(self._rest)
        draft = self._decoding.again(
            logits,
            position,
            self.length,
            self._head.bias,
            self._sounds,
            known=known.tokens,
            beat=known.score,
            urgency=self._urgency,
        )
        return self.hypothesis_of(draft)

    def weigh(
        self, texts: Sequence[tuple[int, ...]], urgency: Urgency
    ) -> tuple[npt.NDArray[np.float64], list[npt.NDArray[np.float64]]]:
        """How well ``texts`` fit the clip that was decoded last (streaming/decoding.py)."""
        assert self._rest is not None
        if self._asked is None:
            with self._at(urgency):
                self._prefix.restore(urgency)
                self._ask(self._rest)
        assert self._asked is not None
        return self._decoding.weigh(texts, *self._asked, self._head.bias, self._sounds, urgency)

    def displace(self) -> None:
        """Another segment takes its place in the cache."""
        self._prefix.displace()
        self._asked = None

    def context(self) -> AbstractContextManager[None]:
        """The context that the last final was decoded with: none, if it recited its own."""
        return self._prefix.without_context(self._urgency) if self.recited else nullcontext()

    def reader(self, urgency: Urgency) -> Read | None:
        """What tells how probable texts are without the audio; None where the model cannot."""
        return self._decoding.reading.reader(self._head.bias, urgency, self._work)

    def hypothesis_of(self, draft: Draft) -> Hypothesis:
        """``draft`` as this segment understands it."""
        answer = self._model.prompt.answer(draft.tokens, self._language)
        return Hypothesis(tuple(draft.tokens), tuple(draft.probabilities), answer, draft.score)

    def leaks(self, hypothesis: Hypothesis) -> bool:
        """Whether the text recites the context where the CTC head (if there is one) heard something else."""
        if not self.keyterms:
            return False
        body = hypothesis.answer.body
        found = self._model.prompt.words(body, hypothesis.answer.language)
        run = recited([w for w, _, _ in found], " ".join(self.keyterms).split())
        if run is None:
            return False
        return not self._ctc.supports(body, (found[run.start][1], found[run.stop - 1][2]))
