"""The session: samples in, events out. No sockets, no asyncio, no clock but the sample count.

Two sides, which may be two threads. :meth:`Listener.feed` is the clock: it decides at multiples of 512 samples what is
speech, where an utterance ends and where a long one is split, and never waits for a model. :meth:`Listener.step` is the
work: one bounded piece of it a call, in worker threads. Everything that a final text depends on lies on the clock, so a
stream and a file of the same samples give the same finals, however the stream was cut and however late the work is.
Interims change nothing that lasts: one that waits is withdrawn when the final is due, and the newest audio wins.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from audio.pcm import bounded
from engines.batching import Cancelled, Owner, Priority, Task
from streaming.decoding import Hypothesis
from streaming.endpoint import Continued, Endpoint, Endpointer, Onset, Silence
from streaming.engine import Engine, Head
from streaming.events import Event, SpeechStarted, Transcript
from streaming.options import ListenOptions
from streaming.segment import KvSequence, Segment
from streaming.transcripts import Transcripts
from streaming.utterance import INTERIM_SECONDS, PRIORITIES, QUIET, Closed, Early, Piece, Timeline, Utterance
from streaming.vad import FRAME, VoiceActivity
from streaming.work import Work

Floats = npt.NDArray[np.float32]

BEHIND_SECONDS: Final = 1.0
"""A session whose work is later than this, audio that waits included, gets what others leave over, and no interims."""


class Listener:
    """One live session. ``feed``, ``finalize`` and ``finish`` belong to one thread at a time, ``step`` to another one;
    ``close`` and the properties may be used from any."""

    def __init__(
        self,
        engine: Engine,
        options: ListenOptions,
        language: str | None,
        head: Head,
        on_close: "Callable[[Listener], None]",
    ) -> None:
        self.options = options
        self.work = Work()
        self._engine, self._language, self._on_close = engine, language, on_close
        self._rate = engine.sample_rate
        self._owner = Owner()
        self._transcripts = Transcripts(engine)
        self._endpointer = Endpointer(VoiceActivity(engine.vad, options.threshold), options.endpointing)
        self._lock = threading.Lock()
        """Of what both sides touch; of the model's calls it is held for voice activity alone, 0.1 ms a frame."""
        self._pending = np.empty(0, np.float32)
        """An incomplete frame."""
        self._clock, self._waiting = 0, 0.0
        self._recent = np.empty(0, np.float32)
        self._open: Utterance | None = None
        self._covered = 0
        """End of the last closed utterance: the next one starts there at the earliest."""
        self._timeline = Timeline(options, engine.sample_rate)
        self._finishing = False
        self._running: tuple[Utterance, Piece, Task] | None = None
        self._stepping = threading.Lock()
        self._sequence = KvSequence(engine, language, self.work)
        self._closed = False
        self._head = head
        """Of the next utterance."""

    # ---------------------------------------------------------------- the clock

    def feed(self, samples: Floats, waiting: float = 0.0) -> None:
        """Hear ``samples``, float32 mono at the model's rate, any number; ``waiting``: seconds that came after them.
        What is no number is silence, what is beyond ±1 is clipped.

        Raises:
            Cancelled: the listener is closed.
            ValueError: it was finished.
        """
        with self._lock:
            self._check()
            self._waiting = waiting
            audio = np.concatenate([self._pending, bounded(samples)])
            whole = len(audio) // FRAME * FRAME
            for start in range(0, whole, FRAME):
                self._hear(audio[start : start + FRAME])
            self._pending = audio[whole:].copy()

    def finalize(self) -> None:
        """Close the open utterance at the last sample fed; answered, in its turn, by one ``from_finalize`` transcript.

        Raises:
            Cancelled, ValueError: as ``feed``.
        """
        with self._lock:
            self._check()
            if not self._end_here(from_finalize=True):
                # Speech that begins now begins its preroll earlier.
                earliest = self._clock - int(self.options.preroll * self._rate)
                self._end_of_nothing(max(earliest, self._covered), from_finalize=True)

    def configure(
        self, *, endpointing: float | None, eager: float | None, keyterms: Sequence[str] | None = None
    ) -> None:
        """Change what ends an utterance from here on, and the keyterms from the next one on. From any thread.

        Args:
            endpointing, eager: as in the options, None too: never, and off.
            keyterms: None: they stay.

        Raises:
            OptionError: outside the limits; nothing changes.
        """
        options = replace(self.options, endpointing=endpointing, eager=eager)
        if keyterms is not None:
            options = replace(options, keyterms=tuple(keyterms))
        head = None if keyterms is None else self._engine.head(options.keyterms, self._language)
        with self._lock:
            self.options = self._timeline.options = options
            self._endpointer.wait(endpointing)
            self._head = head or self._head

    def finish(self) -> None:
        """The audio has ended: close what is open. Idempotent.

        Raises:
            Cancelled: the listener is closed.
        """
        with self._lock:
            if self._owner.cancelled:
                raise Cancelled
            if not self._finishing:
                self._end_here(from_finalize=False)
                self._finishing = True

    def close(self) -> None:
        """Give everything back. Idempotent; a ``step`` running elsewhere stops at its next model call."""
        self._owner.cancel()
        with self._stepping:
            with self._lock:
                if self._closed:
                    return
                self._closed, self._open = True, None
                self._timeline.clear()
            self._sequence.release()
        self._on_close(self)

    @property
    def seconds(self) -> float:
        """Audio fed so far."""
        with self._lock:
            return self._fed / self._rate

    @property
    def behind(self) -> float:
        """Seconds of audio fed since the oldest work that a final needs became due; 0 where none waits."""
        with self._lock:
            return self._timeline.behind(self._fed)

    @property
    def heard(self) -> float:
        """Seconds of audio whose finals are made, as far as they are due."""
        with self._lock:
            return self._fed / self._rate - self._timeline.behind(self._fed)

    # ---------------------------------------------------------------- the work

    @property
    def ready(self) -> bool:
        """Whether ``step`` has something to do."""
        with self._lock:
            return self._timeline.sayable(self._clock) or self._next() is not None

    @property
    def finished(self) -> bool:
        """Whether the audio has ended and everything was said."""
        with self._lock:
            return self._finishing and self._timeline.over(self._clock)

    def step(self) -> list[Event]:
        """Do one piece of work, if one is due, and return what can be said by now, in order. Blocking.

        Raises:
            Cancelled: the listener was closed.
        """
        with self._stepping:
            if self._owner.cancelled:
                raise Cancelled
            with self._lock:
                said, next_ = self._timeline.say(self._clock), self._next()
                if said or next_ is None:
                    return said
                utterance, piece = next_
                priority = PRIORITIES[piece] if utterance.closed is None else Priority.FINAL
                task = Task(self._owner, Priority.BACKLOG if self._late else priority)
                self._running = utterance, piece, task
            try:
                made = self._do(utterance, piece, task)
            except Cancelled:
                if self._owner.cancelled or not task.cancelled:
                    raise  # the session is closed, or the model
                self.work.withdrawn += 1
                return []
            finally:
                with self._lock:
                    self._running = None
            with self._lock:
                return [*made, *self._timeline.say(self._clock)]

    def drain(self) -> list[Event]:
        """``step`` while there is something to do: for callers without a clock."""
        events: list[Event] = []
        while self.ready:
            events += self.step()
        return events

    # ---------------------------------------------------------------- the clock's side

    def _check(self) -> None:
        if self._owner.cancelled:
            raise Cancelled
        if self._finishing:
            raise ValueError("the listener was finished")

    def _hear(self, frame: Floats) -> None:
        """One frame of the session's clock."""
        self._clock += len(frame)
        keep = int((self.options.preroll + 0.5) * self._rate)
        self._recent = np.concatenate([self._recent, frame])[-max(keep, len(frame)) :]
        if self._open is not None:
            self._open.extend(frame)
        for turn in self._endpointer.feed(frame):
            match turn:
                case Onset(sample=sample):
                    self._begin(sample)
                case Continued(sample=sample):
                    if self._open is None:
                        self._begin(sample)
                    else:
                        self.work.finals_discarded += self._open.resume()
                        self._withdraw(self._open, Piece.EARLY)
                case Silence(sample=sample, decided=known) if self._open is not None:
                    self._open.pause(sample, known)
                case Endpoint():
                    if self._open is not None:
                        self._end(self._open, self._open.end, speech_final=True)
                    else:  # it was full in this silence, when nobody knew that it was over
                        self._end_of_nothing(self._covered, from_finalize=False)
                    # A client that lost its session goes on in a new one, from the end of the last final on: the same
                    # frames make the same utterances there.
                    self._endpointer.restart(self._covered)
                case _:
                    pass
        if self._open is None:
            return
        if (eager := self.options.eager) is not None and self._open.silent >= eager * self._rate:
            self._open.likely_over = True
        if self._open.full:
            self._split(self._open)
        elif self._open.due(interim=False) is not None:
            self._withdraw(self._open, Piece.INTERIM)

    def _begin(self, onset: int) -> None:
        oldest = self._clock - len(self._recent)
        start = max(onset - int(self.options.preroll * self._rate), self._covered, oldest, 0)
        self._timeline.append(self._clock, SpeechStarted(onset / self._rate))
        self._open_at(start, self._recent[start - oldest :])

    def _open_at(self, start: int, samples: Floats) -> None:
        self._open = utterance = Utterance(self._engine.manifest, start, self._engine.rule, self._head)
        utterance.extend(samples)
        self._timeline.append(self._clock, utterance)

    def _end(self, utterance: Utterance, end: int, *, speech_final: bool, from_finalize: bool = False) -> None:
        utterance.closed = Closed(end, self._clock, speech_final, from_finalize)
        self._covered = utterance.start + end
        self._open = None
        self._withdraw(utterance, Piece.INTERIM)
        if (running := self._running) and running[0] is utterance and running[2].priority is not Priority.BACKLOG:
            running[2].hasten(Priority.FINAL)

    def _end_here(self, *, from_finalize: bool) -> bool:
        """Hear the last, incomplete frame and close the open utterance; whether there was one."""
        rest, self._pending = self._pending, np.empty(0, np.float32)
        if len(rest):
            self._hear(rest)
        utterance = self._open
        if utterance is not None:
            self._end(utterance, utterance.end, speech_final=True, from_finalize=from_finalize)
        self._endpointer.close(self._clock)
        return utterance is not None

    def _end_of_nothing(self, sample: int, *, from_finalize: bool) -> None:
        """Say that nothing is open up to ``sample``, where nothing that follows begins before."""
        at = sample / self._rate
        nothing = Transcript(
            at, at, "", (), 0, self._language, is_final=True, speech_final=True, from_finalize=from_finalize
        )
        self._timeline.append(self._clock, nothing)

    def _split(self, full: Utterance) -> None:
        """Close a full utterance at its split point and open the next one there, unless that is silence."""
        cut = full.split_point()
        silent = cut == full.silence_end
        self._end(full, cut, speech_final=False)
        if not silent:
            self._open_at(full.start + cut, full.audio(cut, full.length))

    def _withdraw(self, utterance: Utterance, piece: Piece) -> None:
        """Give up the piece of that kind that is being done for ``utterance``, if one is."""
        if self._running is not None and self._running[:2] == (utterance, piece):
            self._running[2].cancel()

    # ---------------------------------------------------------------- the work's side

    @property
    def _fed(self) -> int:
        """Samples, those included that are no whole frame yet."""
        return self._clock + len(self._pending)

    @property
    def _late(self) -> bool:
        return self._timeline.behind(self._clock) + self._waiting > BEHIND_SECONDS

    def _next(self) -> tuple[Utterance, Piece] | None:
        """The piece of work that comes next."""
        utterance = self._timeline.unfinished
        piece = utterance and utterance.due(interim=self.options.interim and not self._late)
        return (utterance, piece) if utterance and piece else None

    def _do(self, utterance: Utterance, piece: Piece, task: Task) -> list[Event]:
        """Do ``piece``; what it says at once."""
        if piece is Piece.INTERIM:
            # Its turn comes first, then its audio: what waited for its turn would be old.
            self._engine.encoder_lane.call(lambda: None, owner=task)
        segment = self._segment(utterance, task)
        with self._lock:
            silence_end, samples = utterance.silence_end, utterance.audio(segment.length, utterance.length)
        segment.extend(samples)
        match piece:
            case Piece.WINDOW:
                before = utterance.cached
                segment.advance(task)
                utterance.advanced += 1
                self._count(utterance.cached - before, task)
                return []
            case Piece.INTERIM:
                return [self._interim(utterance, segment, task)]
            case Piece.EARLY:
                return [] if silence_end is None else self._early(utterance, segment, silence_end, task)
            case Piece.FINAL:
                self._final(utterance, segment, task)
                return []

    def _segment(self, utterance: Utterance, task: Task) -> Segment:
        if utterance.segment is None:
            utterance.segment = self._sequence.segment(utterance.head, self.options.mel_maximum, self._owner, task)
        return utterance.segment

    def _interim(self, utterance: Utterance, segment: Segment, task: Task) -> Transcript:
        self.work.ticks_skipped += int((segment.length - utterance.looked) / (INTERIM_SECONDS * self._rate)) - 1
        utterance.looked = segment.length
        utterance.hypothesis = segment.interim(utterance.hypothesis, utterance.stability.tokens, task)
        self._engine.load.looked()
        self._commit(utterance, segment, utterance.hypothesis, pause=False)
        return self._transcripts.interim(utterance, utterance.hypothesis, segment.length)

    def _commit(self, utterance: Utterance, segment: Segment, hypothesis: Hypothesis, *, pause: bool) -> bool:
        """Commit words of ``hypothesis``; whether it goes on from those that are."""
        return utterance.stability.hear(hypothesis, self._engine.prompt, segment.ctc, pause=pause)

    def _early(self, utterance: Utterance, segment: Segment, end: int, task: Task) -> list[Event]:
        hypothesis = segment.final(end, task, QUIET)
        with self._lock:
            if utterance.silence_end != end:  # speech goes on
                self.work.finals_discarded += 1
                return []
        taken = self.options.interim and self._commit(utterance, segment, hypothesis, pause=True)
        if taken:
            utterance.hypothesis = hypothesis
        interim = self._transcripts.interim(utterance, hypothesis, end)
        with self._lock:
            utterance.early = Early(end, hypothesis, interim)
        return [interim] if taken else []

    def _final(self, utterance: Utterance, segment: Segment, task: Task) -> None:
        closed = utterance.closed
        assert closed is not None
        early = utterance.early
        hypothesis = early.hypothesis if early and early.end == closed.end else segment.final(closed.end, task, QUIET)
        event = self._transcripts.final(utterance, segment, hypothesis, task)
        self._count(closed.end - utterance.cached, task)
        with self._lock:
            utterance.final = event
            utterance.segment = None

    def _count(self, samples: int, task: Task) -> None:
        """Tell the load what work was done for so many samples, unless it was backlog: the lanes tell how long it
        took."""
        if task.priority is not Priority.BACKLOG:
            self._engine.load.heard(samples / self._rate)
