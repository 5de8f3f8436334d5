"""A session's clock: samples in, utterances and what is known of them at once out.

Contract: at multiples of 512 samples it decides what is speech, where an utterance begins, pauses and ends, and where a
long one is split. Everything that a final text depends on lies here and follows from the samples alone, so a stream and
a file of the same samples have the same utterances, however the stream was cut and however late the work is. It waits
for no model: the calls of its voice activity are yielded to whoever drives it. Knows no lane and no text.
"""

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audio.pcm import bounded
from engines.lane import Steps, at_once
from streaming.endpoint import Continued, Endpoint, Endpointer, EndpointEvent, Onset, Silence
from streaming.engine import Engine, Head
from streaming.events import Event, SpeechStarted, Transcript
from streaming.options import ListenOptions
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
        self.finishing = False
        """Whether the audio has ended."""
        self._rate = engine.sample_rate
        self._endpointer = Endpointer(VoiceActivity(engine.vad, options.threshold), options.endpointing)
        self._pending = np.empty(0, np.float32)
        """The samples of a frame that is not complete."""
        self._rested = 0
        """Samples of silence that are assumed after those on the clock, until more come."""
        self._recent = np.empty(0, np.float32)
        """The last samples, in which an utterance that begins now has its preroll."""
        self._open: Utterance | None = None
        self._covered = 0
        """The end of the last closed utterance: the next one starts there at the earliest."""

    # ---------------------------------------------------------------- what is known

    @property
    def fed(self) -> int:
        """How many samples were fed."""
        return self.samples + len(self._pending)

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
        return self.finishing and self.timeline.over(self.samples + self._rested)

    # ---------------------------------------------------------------- what happens

    def hear(self, samples: Floats) -> Steps[None]:
        """Go on by ``samples``, float32 mono at the model's rate, any number. What is no number is silence, what is
        beyond ±1 is clipped."""
        audio = np.concatenate([self._pending, bounded(samples)])
        whole = len(audio) // FRAME * FRAME
        for start in range(0, whole, FRAME):
            yield from self._hear(audio[start : start + FRAME])
        with self.lock:
            self._pending = audio[whole:].copy()

    def finalize(self) -> None:
        """Close the open utterance at the last sample fed, or say that there was none."""
        if self._end_here(from_finalize=True):
            return
        with self.lock:
            # Speech that begins now begins its preroll earlier.
            earliest = self.samples - int(self.options.preroll * self._rate)
            self._end_of_nothing(max(earliest, self._covered), from_finalize=True)

    def rest(self, seconds: float) -> bool:
        """Assume ``seconds`` of silence after what was fed; whether more of it could end something."""
        needed, gap = self.options.endpointing, self.options.utterance_end
        if self._open is not None and needed is not None and seconds >= needed:
            self._end_here(from_finalize=False)
        with self.lock:
            self._rested = int(seconds * self._rate)
            return (self._open is not None and needed is not None) or (gap is not None and seconds < gap)

    def finish(self) -> None:
        """Close what is open, because the audio has ended."""
        self._end_here(from_finalize=False)
        with self.lock:
            self.finishing = True

    def configure(self, options: ListenOptions, head: Head | None) -> None:
        """Take other options from here on, and another prompt for the next utterance where there is one."""
        with self.lock:
            self.options = self.timeline.options = options
            self._endpointer.wait(options.endpointing)
            self.head = head or self.head

    def clear(self) -> None:
        """Forget what is open and what was not said."""
        with self.lock:
            self._open = None
            self.timeline.clear()

    # ---------------------------------------------------------------- frame by frame

    def _hear(self, frame: Floats) -> Steps[None]:
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
                    self._open.pause(sample, known)
                case Endpoint():
                    if self._open is not None:
                        self._end(self._open, self._open.end, speech_final=True)
                    else:  # It was full in this silence, when nobody knew that it was over.
                        self._end_of_nothing(self._covered, from_finalize=False)
                case _:
                    pass
        if self._open is not None:
            if (eager := self.options.eager) is not None and self._open.silent >= eager * self._rate:
                self._open.likely_over = True
            if self._open.full:
                self._split(self._open)

    def _begin(self, onset: int) -> None:
        oldest = self.samples - len(self._recent)
        start = max(onset - int(self.options.preroll * self._rate), self._covered, oldest, 0)
        self.timeline.append(self.samples, SpeechStarted(onset / self._rate))
        self._open_at(start, self._recent[start - oldest :])

    def _open_at(self, start: int, samples: Floats) -> None:
        self._open = utterance = Utterance(self._engine.manifest, start, self._engine.rule, self.head)
        utterance.extend(samples)
        self.timeline.append(self.samples, utterance)

    def _end(self, utterance: Utterance, end: int, *, speech_final: bool, from_finalize: bool = False) -> None:
        utterance.closed = Closed(end, self.samples, speech_final, from_finalize)
        self._covered = utterance.start + end
        self._open = None

    def _end_here(self, *, from_finalize: bool) -> bool:
        """Hear the last, incomplete frame and close the open utterance; whether there was one."""
        rest, self._pending = self._pending, np.empty(0, np.float32)
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
