"""A session's clock: samples in, utterances and what is known of them at once out.

Contract: at multiples of 512 samples it decides what is speech, where an utterance begins, pauses and ends, and where a
long one is split. Everything that a final text depends on lies here and follows from the samples alone, so a stream and
a file of the same samples have the same utterances, however the stream was cut and however late the work is. It blocks
for no model: the calls of its voice activity are yielded to whoever drives it. Where what was said decides whether an
utterance ends (``streaming.turn``) it stands until the final in advance is there; samples queue up meanwhile, and
whoever comes next lets it go on. Knows no lane.
"""

import math
import threading
from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audio.pcm import bounded
from engines.lane import Steps, at_once
from streaming.endpoint import Continued, Endpoint, Endpointer, EndpointEvent, Onset, Silence
from streaming.engine import Engine, Head
from streaming.events import Event, SpeechStarted, Transcript
from streaming.options import ListenOptions
from streaming.turn import SHORTEST, Turn, sure
from streaming.utterance import Closed, Timeline, Utterance
from streaming.vad import FRAME, VoiceActivity
from streaming.work import Work

Floats = npt.NDArray[np.float32]


class Clock:
    """The clock of one session. ``hear``, ``finalize``, ``rest`` and ``finish`` belong to one thread at a time; whoever
    reads from another one holds ``lock``."""

    def __init__(self, engine: Engine, options: ListenOptions, language: str | None, head: Head, work: Work) -> None:
        """``head`` is the prompt of the next utterance, ``work`` counts finals that were decoded for nothing."""
        self._engine, self._language, self._work = engine, language, work
        self.options, self.head = options, head
        self.lock = threading.RLock()
        """It guards what the clock and the work both touch, and is held during no model's call."""
        self.timeline = Timeline(options, engine.sample_rate)
        """What the session has yet to say; the work puts its finals there."""
        self.samples = 0
        """How many samples were judged."""
        self.fed = 0
        """How many samples were fed."""
        self.finishing = False
        """Whether the audio has ended."""
        self._finished = False
        """The same once all of it was judged."""
        self._rate = engine.sample_rate
        self._endpointer = Endpointer(VoiceActivity(engine.vad, options.threshold))
        self._pending = np.empty(0, np.float32)
        """The samples that are not judged: those of a frame that is not complete, and all that came while the clock
        stands."""
        self._marks: deque[tuple[int, bool]] = deque()
        """The samples before each end that was asked for, and whether it is a finalize or the end of the audio."""
        self._going = False
        """Whether somebody lets the clock go on at present."""
        self._rested = 0
        """Samples of silence that are assumed after those on the clock, until more come."""
        self._recent = np.empty(0, np.float32)
        """The last samples, in which an utterance that begins now has its preroll."""
        self._open: Utterance | None = None
        self._covered = 0
        """The end of the last closed utterance: the next one starts there at the earliest."""

    # ---------------------------------------------------------------- what is known

    @property
    def behind(self) -> float:
        """Seconds of audio fed since the oldest work that a final needs became due, or that wait where the clock
        stands; 0 where nothing waits."""
        waiting = len(self._pending) / self._rate if len(self._pending) >= FRAME else 0.0
        return max(self.timeline.behind(self.fed), waiting)

    @property
    def sayable(self) -> bool:
        """Whether ``say`` has something."""
        return self.timeline.sayable(self.samples + self._rested)

    def say(self) -> list[Event]:
        """What can be said by now, in order."""
        return self.timeline.say(self.samples + self._rested)

    @property
    def over(self) -> bool:
        """Whether the audio has ended and everything was said."""
        return self._finished and self.timeline.over(self.samples + self._rested)

    @property
    def stalled(self) -> bool:
        """Whether the clock could go on and nobody lets it."""
        return not self._going and self._due() is not None

    # ---------------------------------------------------------------- what happens

    def hear(self, samples: Floats) -> Steps[None]:
        """Go on by ``samples``, float32 mono at the model's rate, any number. What is no number is silence, what is
        beyond ±1 is clipped."""
        with self.lock:
            self._pending = np.concatenate([self._pending, bounded(samples)])
            self.fed += len(samples)
        yield from self.go_on()

    def finalize(self) -> None:
        """Close the open utterance at the last sample fed, or say that there was none."""
        with self.lock:
            self._marks.append((self.fed, True))
        at_once(self.go_on())

    def rest(self, seconds: float) -> bool:
        """Assume ``seconds`` of silence after what was fed; whether more of it could end something."""
        needed, gap = self.options.endpointing, self.options.utterance_end
        with self.lock:
            if self._going or len(self._pending) >= FRAME:
                return True
            self._going = True
        needed = needed.wait(None) if isinstance(needed, Turn) else needed
        try:
            if self._open is not None and needed is not None and seconds >= needed:
                self._end_here(from_finalize=False)
        finally:
            self._going = False
        with self.lock:
            self._rested = int(seconds * self._rate)
            return (self._open is not None and needed is not None) or (gap is not None and seconds < gap)

    def finish(self) -> None:
        """Close what is open, because the audio has ended."""
        with self.lock:
            self.finishing = True
            self._marks.append((self.fed, False))
        at_once(self.go_on())

    def go_on(self, most: float = math.inf) -> Steps[None]:
        """Judge what came, up to where the clock stands, and at most so many frames. Nothing, where somebody does so
        already: that one takes what came meanwhile too."""
        with self.lock:
            if self._going:
                return
            self._going = True
        try:
            while True:
                with self.lock:
                    due = self._due()
                    if due is None or most < 1:
                        self._going = False
                        return
                    frame, self._pending = self._pending[: FRAME * due], self._pending[FRAME * due :]
                if due:
                    yield from self._hear(frame)
                    most -= 1
                else:
                    self._follow()
        except BaseException:
            self._going = False
            raise

    def _due(self) -> bool | None:
        """Whether the next thing is a frame, True, or a mark, False; None where there is neither, or the clock
        stands."""
        before = self._marks[0][0] - self.samples if self._marks else len(self._pending)
        if before >= FRAME:
            return None if self._open is not None and self._open.awaited else True
        return False if self._marks else None

    def _follow(self) -> None:
        """Do what the next mark asks."""
        until, finalize = self._marks.popleft()
        ended = self._end_here(until - self.samples, from_finalize=finalize)
        with self.lock:
            self._finished = not finalize
            if finalize and not ended:
                # Speech that begins now begins its preroll earlier.
                earliest = self.samples - int(self.options.preroll * self._rate)
                self._end_of_nothing(max(earliest, self._covered), from_finalize=True)

    def configure(self, options: ListenOptions, head: Head | None) -> None:
        """Take other options from here on, and another prompt for the next utterance where there is one."""
        with self.lock:
            self.options = self.timeline.options = options
            self.head = head or self.head

    def clear(self) -> None:
        """Forget what is open and what was not said."""
        with self.lock:
            self._open = None
            self.timeline.clear()

    # ---------------------------------------------------------------- frame by frame

    @property
    def _needed(self) -> float | None:
        """Seconds of silence that end what is open; None for none, or while it is not known."""
        ending, utterance = self.options.endpointing, self._open
        if not isinstance(ending, Turn):
            return ending
        if utterance is None:
            return ending.wait(None)
        return None if utterance.ahead is None else ending.wait(utterance.ahead.said)

    @property
    def _least(self) -> float | None:
        """Seconds of silence from which on it matters what was said before, be it for an end or for ``Paused``, which
        may come earlier; None for never."""
        ending = self.options.endpointing
        if not isinstance(ending, Turn):
            return None
        return ending.least if ending.eager is None else SHORTEST

    def _hear(self, frame: Floats) -> Steps[None]:
        self._endpointer.wait(self._needed)
        turns = yield from self._endpointer.feed(frame)
        with self.lock:
            self._turn(frame, turns)
        if any(isinstance(turn, Endpoint) for turn in turns):
            # A client that lost its session goes on in a new one, from the end of the last final on: the same frames
            # make the same utterances there.
            yield from self._endpointer.restart(self._covered)

    def _turn(self, frame: Floats, turns: Sequence[EndpointEvent]) -> None:
        """``turns`` happened in ``frame``."""
        self.samples += len(frame)
        self._rested = 0
        keep = int((self.options.preroll + 0.5) * self._rate)
        self._recent = np.concatenate([self._recent, frame])[-max(keep, len(frame)) :]
        if self._open is not None:
            self._open.extend(frame)
        for turn in turns:
            match turn:
                case Onset(sample=sample):
                    self._begin(sample)
                case Continued(sample=sample):
                    if self._open is None:
                        self._begin(sample)
                    else:
                        self._work.finals_discarded += self._open.resume()
                case Silence(sample=sample, decided=known) if self._open is not None:
                    self._open.pause(sample, known, least=self._least)
                case Endpoint():
                    if self._open is not None:
                        self._end(self._open, self._open.end, speech_final=True, by_silence=True)
                    else:  # It was full in this silence, when nobody knew that it was over.
                        self._end_of_nothing(self._covered, from_finalize=False)
                case _:
                    pass
        if self._open is not None:
            self._doubt(self._open)
            if self._open.full:
                self._split(self._open)

    def _doubt(self, utterance: Utterance) -> None:
        """Note whether ``utterance`` is likely over."""
        ending, early = self.options.endpointing, utterance.ahead
        if isinstance(ending, Turn) and ending.eager is not None and early is not None and not utterance.likely_over:
            silence = utterance.silent / self._rate
            likely = sure(early.said, silence)
            utterance.likely_over = likely if likely >= ending.eager and silence >= SHORTEST else 0.0

    def _begin(self, onset: int) -> None:
        oldest = self.samples - len(self._recent)
        start = max(onset - int(self.options.preroll * self._rate), self._covered, oldest, 0)
        self.timeline.append(self.samples, SpeechStarted(onset / self._rate))
        self._open_at(start, self._recent[start - oldest :])

    def _open_at(self, start: int, samples: Floats) -> None:
        speakers = self.options.speakers
        self._open = utterance = Utterance(
            self._engine.manifest, start, self._engine.rule, self.head, speakers=speakers
        )
        utterance.extend(samples)
        self.timeline.append(self.samples, utterance)

    def _end(
        self,
        utterance: Utterance,
        end: int,
        *,
        speech_final: bool,
        from_finalize: bool = False,
        by_silence: bool = False,
    ) -> None:
        silence, early = (utterance.silent / self._rate if by_silence else 0.0), utterance.ahead
        judged = by_silence and utterance.least is not None and early is not None
        probability = round(sure(early.said, silence), 4) if judged and early is not None else None
        utterance.closed = Closed(end, self.samples, speech_final, from_finalize, silence, probability)
        self._covered = utterance.start + end
        self._open = None

    def _end_here(self, samples: int | None = None, *, from_finalize: bool) -> bool:
        """Hear the next ``samples``, or all, which are no whole frame, and close the open utterance; whether there was
        one."""
        with self.lock:
            samples = len(self._pending) if samples is None else samples
            rest, self._pending = self._pending[:samples], self._pending[samples:]
        if len(rest):
            at_once(self._hear(rest))
        with self.lock:
            utterance = self._open
            if utterance is not None:
                self._end(utterance, utterance.end, speech_final=True, from_finalize=from_finalize)
        self._endpointer.close(self.samples)
        return utterance is not None

    def _end_of_nothing(self, sample: int, *, from_finalize: bool) -> None:
        """Say that nothing is open up to ``sample``, where nothing that follows begins before."""
        at = sample / self._rate
        nothing = Transcript(
            at, at, "", (), 0, self._language, is_final=True, speech_final=True, from_finalize=from_finalize
        )
        self.timeline.append(self.samples, nothing)

    def _split(self, full: Utterance) -> None:
        """Close a full utterance at its split point and open the next one there, unless that is silence."""
        cut = full.split_point()
        silent = cut == full.silence_end
        self._end(full, cut, speech_final=False)
        if not silent:
            self._open_at(full.start + cut, full.audio(cut, full.length))
