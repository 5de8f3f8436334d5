"""The session: samples in, events out. No sockets, no asyncio, no time but the sample count.

Two sides. ``feed`` is the clock (``streaming/clock.py``): it decides what is speech and where an utterance ends, and
never waits for a model. The work, here, is done in the model's lane, a bounded piece at a time: either whoever drives
the session asks for one by :meth:`Listener.step`, or the session was attached to somebody who is told
(:meth:`Listener.attach`), and the lane takes piece after piece. Which one that is, and of how much audio, is decided
when its turn comes. Interims change nothing that lasts: one that is under way is withdrawn when the final is due, and
the newest audio wins.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.lane import Cancelled, Owner, Steps, Task, at_once
from engines.scheduling import SLACK, Priority
from streaming.clock import Clock
from streaming.decoding import Hypothesis
from streaming.engine import Engine, Head
from streaming.events import Event, Transcript
from streaming.options import ListenOptions
from streaming.segment import KvSequence, Segment
from streaming.speakers import Speakers
from streaming.transcripts import Transcripts
from streaming.turn import Turn, spoken
from streaming.utterance import INTERIM_SECONDS, PRIORITIES, QUIET, Early, Utterance, WorkKind
from streaming.work import Work

Floats = npt.NDArray[np.float32]

BEHIND_SECONDS: Final = 1.0
"""A session whose work is later than this, audio that waits included, gets the time that others leave and makes no
interims."""

CLOCK_FRAMES: Final = 32
"""How many frames the clock goes on by in one piece of work, about a second of audio and 2 ms of work."""


@dataclass(frozen=True, slots=True)
class Told:
    """What an attached session tells: ``events`` in order; ``due``, the seconds on its clock at which the oldest work
    before theirs became due; and whether that was all, or what went wrong."""

    events: Sequence[Event]
    due: float
    finished: bool = False
    error: BaseException | None = None


@dataclass(slots=True)
class _Doing:
    """The piece under way; of the clock's own, no utterance's. ``end`` is where the audio of an early final ends."""

    utterance: Utterance | None
    kind: WorkKind
    end: int | None


class Listener:
    """One session. ``feed``, ``rest``, ``finalize`` and ``finish`` belong to one thread at a time, ``step`` to another
    one; ``close`` and the properties may be used from any."""

    def __init__(
        self,
        engine: Engine,
        options: ListenOptions,
        language: str | None,
        head: Head,
        live: bool,
        on_close: "Callable[[Listener], None]",
    ) -> None:
        """``on_close`` is called once, with the listener, when it has given everything back."""
        self.live: Final = live
        self.work = Work()
        self._clock = Clock(engine, options, language, head, self.work)
        self._lock = self._clock.lock
        self._engine, self._language, self._on_close = engine, language, on_close
        self._rate = self.sample_rate = engine.sample_rate
        self._owner = Owner()
        self._transcripts = Transcripts(engine)
        self._speakers = Speakers(engine.speakers(), options.known, keep=not live) if options.speakers else None
        self._waiting = 0.0
        """Seconds of audio that came and were not fed yet."""
        self._task: Task[list[Event]] | None = None
        """The piece of work that waits for its turn or is under way."""
        self._doing: _Doing | None = None
        """The same piece once it has begun."""
        self._tell: Callable[[Told], None] | None = None
        self._held = False
        """Whether no piece of work begins."""
        self._behind = self._seconds = 0.0
        self._sequence = KvSequence(engine, language, self.work)
        self._closed = False

    # ---------------------------------------------------------------- the clock

    def feed(self, samples: Floats, waiting: float = 0.0) -> None:
        """Hear ``samples``, float32 mono at the model's rate, any number; ``waiting``: seconds that came after them.
        What is no number is silence, what is beyond ±1 is clipped.

        Raises:
            Cancelled: the listener is closed.
            ValueError: it was finished.
        """
        at_once(self.hear(samples, waiting))

    def hear(self, samples: Floats, waiting: float = 0.0) -> Steps[None]:
        """Do what ``feed`` does; whoever drives it makes the calls of the voice activity, which sessions may share."""
        with self._lock:
            self._check()
            self._waiting = waiting
        yield from self._clock.hear(samples)
        with self._lock:
            self._moved()
        if self.live:
            self._engine.load.beside(len(samples) / self._rate)

    def finalize(self) -> None:
        """Close the open utterance at the last sample fed; answered, in its turn, by one ``from_finalize`` transcript.

        Raises:
            Cancelled, ValueError: as ``feed``.
        """
        with self._lock:
            self._check()
        self._clock.finalize()
        with self._lock:
            self._moved()

    def configure(self, *, endpointing: Turn | float | None, keyterms: Sequence[str] | None = None) -> None:
        """Change what ends an utterance from here on, and the keyterms from the next one on. From any thread.

        Args:
            endpointing: as in the options, None too: never.
            keyterms: None: they stay.

        Raises:
            OptionError: outside the limits; nothing changes.
        """
        options = replace(self.options, endpointing=endpointing)
        if keyterms is not None:
            options = replace(options, keyterms=tuple(keyterms))
        head = None if keyterms is None else self._engine.head(options.keyterms, self._language)
        self._clock.configure(options, head)
        with self._lock:
            self._moved()

    def rest(self, seconds: float) -> bool:
        """Assume ``seconds`` of silence after what was fed, because nothing came for so long by the wall clock: what
        they end is over, but the session's clock stands.

        Returns:
            Whether more of it could end something.

        Raises:
            Cancelled, ValueError: as ``feed``.
        """
        with self._lock:
            self._check()
        more = self._clock.rest(seconds)
        with self._lock:
            self._moved()
        return more

    def finish(self) -> None:
        """The audio has ended: close what is open. Idempotent.

        Raises:
            Cancelled: the listener is closed.
        """
        if self._owner.cancelled:
            raise Cancelled
        if not self._clock.finishing:
            self._clock.finish()
            with self._lock:
                self._moved()

    def close(self) -> None:
        """Give everything back. Idempotent; work under way elsewhere stops at its next model call."""
        self._owner.cancel()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._clock.clear()
            task = self._task
        if task is not None:
            self._engine.lane.wake()
            wait((task.future,))
        self._sequence.release()
        self._on_close(self)

    def _check(self) -> None:
        if self._owner.cancelled:
            raise Cancelled
        if self._clock.finishing:
            raise ValueError("the listener was finished")

    @property
    def options(self) -> ListenOptions:
        """What the session has chosen."""
        return self._clock.options

    @property
    def seconds(self) -> float:
        """Audio fed so far."""
        return self._seconds

    @property
    def behind(self) -> float:
        """Seconds of audio fed since the oldest work that a final needs became due; 0 where none waits."""
        return self._behind

    @property
    def heard(self) -> float:
        """Seconds of audio whose finals are made, as far as they are due."""
        return self._seconds - self._behind

    # ---------------------------------------------------------------- the work

    @property
    def ready(self) -> bool:
        """Whether ``step`` has something to do."""
        with self._lock:
            return self._clock.sayable or self._next() is not None

    @property
    def finished(self) -> bool:
        """Whether the audio has ended and everything was said."""
        with self._lock:
            return self._clock.over

    def step(self) -> list[Event]:
        """Do one piece of work, if one is due, and return what can be said by now, in order. It waits for the lane, and
        is not for an attached session.

        Raises:
            Cancelled: the listener was closed.
        """
        with self._lock:
            if self._owner.cancelled:
                raise Cancelled
            said = self._clock.say()
            if said or self._next() is None:
                return said
            task = self._begin_task()
        try:
            return task.future.result()
        except Cancelled:
            if self._owner.cancelled or not task.withdrawn:
                raise  # The session is closed, or the model is.
            return []

    def drain(self) -> list[Event]:
        """Call ``step`` while there is something to do, and return all events: for callers without a clock."""
        events: list[Event] = []
        while self.ready:
            events += self.step()
        return events

    def drained(self) -> Steps[list[Event]]:
        """Do what ``drain`` does, as a part of the lane's work: a file is heard so.

        Raises:
            Cancelled: the listener was closed.
        """
        events: list[Event] = []
        while True:
            with self._lock:
                if self._owner.cancelled:
                    raise Cancelled
                events += self._clock.say()
                if self._next() is None:
                    return events
            events += yield from self._do()

    def settled(self, finals: Sequence[Transcript]) -> list[Transcript]:
        """All ``finals`` of a file with their speakers judged again, now that all was heard
        (``Speakers.settled``)."""
        return list(finals) if self._speakers is None else self._speakers.settled(finals)

    def attach(self, tell: Callable[[Told], None]) -> None:
        """From now on the work is done as it becomes due, and ``tell`` is called with what is said, from any thread; it
        must return at once. Once it was told that all is said, or of an error, it is called no more."""
        with self._lock:
            self._tell = tell
            self._moved()

    def beside(self) -> None:
        """Count the calling thread among those that work for live sessions (``engines.load.Load.beside``)."""
        self._engine.load.beside()

    def hold(self, held: bool) -> None:
        """Begin no piece of work, or go on, as long as nobody takes the events of an attached session."""
        with self._lock:
            self._held = held
            self._moved()

    # ---------------------------------------------------------------- the work's side

    @property
    def _late(self) -> bool:
        # What queues up while the clock stands is late through the work that is judged here, not through others.
        behind = self._clock.timeline.behind(self._clock.samples)
        return not self.live or behind + self._waiting > BEHIND_SECONDS

    def _next(self) -> tuple[Utterance | None, WorkKind] | None:
        """Find the piece of work that comes next."""
        if self._clock.stalled:
            return None, WorkKind.CLOCK
        utterance = self._clock.timeline.unfinished
        kind = utterance and utterance.due(interim=self.options.interim and not self._late)
        return (utterance, kind) if utterance and kind else None

    def _priority(self, utterance: Utterance | None, kind: WorkKind) -> Priority:
        if self._late:
            return Priority.BACKLOG
        waited = utterance is not None and (utterance.closed is not None or utterance.awaited)
        return Priority.FINAL if waited else PRIORITIES[kind]

    def _moved(self) -> None:
        """Take in that something changed, under the lock: how far behind the session is, and how urgent the work is
        that waits or is under way, or whether it is in vain. An attached session also says what it can and begins what
        comes next."""
        self._tally()
        if self._task is not None:
            self._urge(self._task)
        if self._tell is None or self._owner.cancelled:
            return
        if said := self._clock.say():
            self._say(said, self.heard)
        elif self._clock.over:
            self._say([], self.heard)
        if self._task is None and not self._held and self._next() is not None:
            try:
                self._begin_task()
            except Cancelled as closed:  # The model is closed.
                self._say([], self.heard, closed)

    def _tally(self) -> None:
        """Take in how far behind the session is, under the lock."""
        self._seconds, self._behind = self._clock.fed / self._rate, self._clock.behind if not self._closed else 0.0

    def _say(self, events: Sequence[Event], due: float, error: BaseException | None = None) -> None:
        self._tally()
        if (tell := self._tell) is not None:
            finished = self._clock.over
            if finished or error is not None:
                self._tell = None
            tell(Told(events, due, finished, error))

    def _begin_task(self) -> Task[list[Event]]:
        """Let the next piece of work wait for its turn."""
        task = Task(self._do(), Priority.BACKLOG, owner=self._owner, deadline=_due_by(Priority.BACKLOG))
        self._urge(task)
        self._engine.lane.start(task)
        self._task = task
        task.future.add_done_callback(self._dropped)
        return task

    def _urge(self, task: Task[list[Event]]) -> None:
        """Tell ``task`` how urgent it is by now."""
        doing, next_ = self._doing, self._next()
        if doing is None:
            if next_ is None:
                return
            priority = self._priority(*next_)
        else:
            utterance = doing.utterance
            if utterance is None:
                return
            in_vain = (doing.kind is WorkKind.INTERIM and utterance.due(interim=False) is not None) or (
                doing.kind is WorkKind.EARLY and utterance.silence_end != doing.end
            )
            if in_vain and not task.withdrawn:
                task.withdrawn = True
                self._engine.lane.wake()
            if task.priority is Priority.BACKLOG or not (utterance.closed is not None or utterance.awaited):
                return
            priority = Priority.FINAL
        if priority is not task.priority:
            deadline = _due_by(priority)
            task.deadline = min(task.deadline, deadline) if priority < task.priority else deadline
            task.priority = priority

    def _dropped(self, future: "Future[list[Event]]") -> None:
        """Take in that work has ended; where it never began, nothing else tells so."""
        with self._lock:
            if self._task is not None and self._task.future is future:
                self._ended(future.exception())

    def _ended(self, error: BaseException | None) -> None:
        """Take in that the piece of work is done, was given up or went wrong."""
        with self._lock:
            task, self._task, self._doing = self._task, None, None
            if task is not None and task.withdrawn and isinstance(error, GeneratorExit):
                self.work.withdrawn += 1
            elif error is not None and not self._owner.cancelled:
                self._say([], self.heard, Cancelled() if isinstance(error, GeneratorExit) else error)
            self._moved()

    def _do(self) -> Steps[list[Event]]:
        """Do the piece of work that comes next when its turn has come, and return what is said by its end, unless the
        session is attached."""
        error: BaseException | None = None
        try:
            with self._lock:
                next_, due = self._next(), self.heard
                if next_ is None:
                    return []
                utterance, kind = next_
                self._doing = doing = _Doing(utterance, kind, utterance and utterance.silence_end)
                samples = None if utterance is None else utterance.audio(0, utterance.length)
            if utterance is None or samples is None:
                yield from self._clock.go_on(CLOCK_FRAMES)
                made = list[Event]()
            else:
                made = yield from self._make(utterance, kind, doing.end, samples)
            with self._lock:
                events = [*made, *self._clock.say()]
                if self._tell is None:
                    return events
                if events:
                    self._say(events, due)
                return []
        except BaseException as wrong:
            error = wrong
            raise
        finally:
            self._ended(error)

    def _make(self, utterance: Utterance, kind: WorkKind, end: int | None, samples: Floats) -> Steps[list[Event]]:
        """Do a piece of work with the ``samples`` of its utterance so far, and return what it says at once."""
        if utterance.segment is None:
            utterance.segment = yield from self._sequence.segment(utterance.head, self.options.mel_maximum)
        segment = utterance.segment
        segment.extend(samples[segment.length :])
        match kind:
            case WorkKind.WINDOW:
                before = utterance.cached
                yield from segment.advance()
                utterance.advanced += 1
                self._count(utterance.cached - before)
                return []
            case WorkKind.VOICE if self._speakers is not None and utterance.prints is not None:
                yield from self._speakers.add(utterance.prints, samples, end)
                return []
            case WorkKind.INTERIM:
                return [(yield from self._interim(utterance, segment))]
            case WorkKind.EARLY:
                return [] if end is None else (yield from self._early(utterance, segment, end))
            case _:
                yield from self._final(utterance, segment)
                return []

    def _interim(self, utterance: Utterance, segment: Segment) -> Steps[Transcript]:
        self.work.ticks_skipped += int((segment.length - utterance.looked) / (INTERIM_SECONDS * self._rate)) - 1
        utterance.looked = segment.length
        utterance.hypothesis = yield from segment.interim(utterance.hypothesis, utterance.stability.tokens)
        self._engine.load.looked()
        self._commit(utterance, segment, utterance.hypothesis, pause=False)
        return self._transcripts.interim(utterance, utterance.hypothesis, segment.length)

    def _commit(self, utterance: Utterance, segment: Segment, hypothesis: Hypothesis, *, pause: bool) -> bool:
        """Commit words of ``hypothesis``, and return whether it goes on from those that are committed."""
        return utterance.stability.hear(hypothesis, self._engine.prompt, segment.ctc, pause=pause)

    def _early(self, utterance: Utterance, segment: Segment, end: int) -> Steps[list[Event]]:
        hypothesis = yield from segment.final(end, QUIET)
        with self._lock:
            if utterance.silence_end != end:  # Speech goes on.
                self.work.finals_discarded += 1
                return []
        taken = self.options.interim and self._commit(utterance, segment, hypothesis, pause=True)
        if taken:
            utterance.hypothesis = hypothesis
        interim = self._transcripts.interim(utterance, hypothesis, end)
        with self._lock:
            utterance.early = Early(
                end, hypothesis, interim, spoken([word.text for word in interim.words], hypothesis.ending)
            )
        return [interim] if taken else []

    def _final(self, utterance: Utterance, segment: Segment) -> Steps[None]:
        closed = utterance.closed
        assert closed is not None
        early = utterance.early
        if early is not None and early.end == closed.end:
            hypothesis = early.hypothesis
        else:
            hypothesis = yield from segment.final(closed.end, QUIET)
        event = yield from self._transcripts.final(utterance, segment, hypothesis)
        if self._speakers is not None and utterance.prints is not None:
            event, utterance.speaker_changes = yield from self._speakers.tell(
                segment.audio(0, closed.end), utterance.prints, event
            )
        self._count(closed.end - utterance.cached)
        with self._lock:
            utterance.final = event
            utterance.segment = None

    def _count(self, samples: int) -> None:
        """Tell the load what work was done for so many samples, unless it was backlog: the lane tells how long it
        took."""
        if self._task is not None and self._task.priority is not Priority.BACKLOG:
            self._engine.load.heard(samples / self._rate)


def _due_by(priority: Priority) -> float:
    """The deadline of a session's work that becomes due now. A session that is behind goes before files, whose slack is
    longer; but a file that has waited for five seconds more goes before it, so that files get on beside a flood."""
    return time.monotonic() + (BEHIND_SECONDS if priority is Priority.BACKLOG else SLACK[priority])
