"""The session: samples in, events out. No sockets, no asyncio, no clock but the sample count.

A *segment* is speech from onset to endpoint, at most 24 s: at that limit it closes at the quietest point of its last
4 s and the audio after that point opens the next one. Everything that a final text depends on (onsets, chunk and
window ends, segment ends) is decided at multiples of 512 samples of the session's own clock, so a stream and a file
of the same samples give the same finals, however the stream was cut. Ticks (interim hypotheses) run at most once a
call and change nothing that lasts: when the caller falls behind, they are skipped and the newest audio wins.
"""

import threading
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from engines.batching import Cancelled, Owner
from engines.gguf import Rows
from streaming.bias import KeytermBias
from streaming.endpoint import Endpoint, Endpointer, Onset, Resumed, Silence
from streaming.events import Event, SpeechStarted, Transcript, UtteranceEnd
from streaming.open_segment import OpenSegment
from streaming.options import ListenOptions
from streaming.prefix import Head
from streaming.recognizer import Segment
from streaming.transcripts import Transcripts
from streaming.voice import VoiceActivity
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel

Floats = npt.NDArray[np.float32]

FRAME: Final = 512
"""Samples of one voice-activity decision, and the grain of the session's clock."""
PREROLL_SECONDS: Final = 0.3
"""Audio kept before a detected onset: plosives and breaths come before voice activity."""


class Listener:
    """One live session. ``feed``, ``finalize`` and ``finish`` block for model calls and belong to one thread at a time;
    ``close`` may come from any thread."""

    def __init__(self, model: "AsrModel", options: ListenOptions, language: str | None) -> None:
        self.options = options
        self.work = Work()
        self._model, self._language = model, language
        self._owner = Owner()
        self._transcripts = Transcripts(model, self._owner)
        self._rate = model.sample_rate
        self._endpointer = Endpointer(VoiceActivity(model.voice), options.endpointing)
        self._pending = np.empty(0, np.float32)
        self._clock = 0
        self._recent = np.zeros(0, np.float32)
        self._speech: OpenSegment | None = None
        self._covered = 0
        """End of the last closed segment: the next one starts there at the earliest."""
        self._last_word_end: float | None = None
        self._sequence: int | None = None
        self._head: Head | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def _segment(self) -> Segment | None:
        return None if self._speech is None else self._speech.segment

    # ---------------------------------------------------------------- the caller's side

    @property
    def seconds(self) -> float:
        """Audio heard so far."""
        return (self._clock + len(self._pending)) / self._rate

    def feed(self, samples: Floats) -> list[Event]:
        """Hear ``samples``, float32 mono at the model's rate, any number; return what followed from them.

        Raises:
            Cancelled: the listener was closed meanwhile.
        """
        with self._lock:
            events: list[Event] = []
            self._pending = np.concatenate([self._pending, samples]) if len(self._pending) else samples
            whole = len(self._pending) // FRAME * FRAME
            for start in range(0, whole, FRAME):
                self._hear(self._pending[start : start + FRAME], events)
            self._pending = self._pending[whole:].copy()
            if self._segment is not None:
                self._segment.settle()
            if self.options.interim and self._speech is not None:
                interim = self._speech.look(self._transcripts)
                events += [] if interim is None else [interim]
            return events

    def finalize(self) -> list[Event]:
        """Close the open segment at the last sample fed; always answers with one ``from_finalize`` transcript."""
        with self._lock:
            events: list[Event] = []
            self._drain(events, from_finalize=True)
            if not any(isinstance(e, Transcript) and e.from_finalize for e in events):
                now = self._clock / self._rate
                events.append(
                    Transcript(
                        now, now, "", (), 0, self._language, is_final=True, speech_final=True, from_finalize=True
                    )
                )
            return events

    def finish(self) -> list[Event]:
        """The audio has ended: close what is open and free the session."""
        with self._lock:
            events: list[Event] = []
            self._drain(events, from_finalize=False)
        self.close()
        return events

    def close(self) -> None:
        """Give everything back. Idempotent; a ``feed`` running elsewhere stops at its next model call."""
        self._owner.cancel()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._speech = None
            if self._sequence is not None:
                self._model.release(self._sequence)
                self._sequence = None
        self._model.forget(self)

    # ---------------------------------------------------------------- the clock's side

    def _hear(self, frame: Floats, events: list[Event]) -> None:
        """One frame of the session's clock."""
        self._clock += len(frame)
        keep = int((PREROLL_SECONDS + 0.5) * self._rate)
        self._recent = np.concatenate([self._recent, frame])[-max(keep, len(frame)) :]
        if self._speech is not None:
            self._speech.segment.extend(frame)
        for turn in self._endpointer.feed(frame):
            match turn:
                case Onset(sample=sample):
                    self._open(sample, events)
                case Resumed(sample=sample):
                    if self._speech is None:
                        self._open(sample, events)
                    else:
                        self._speech.resume()
                case Silence(sample=sample) if self._speech is not None:
                    self._speech.pause(sample)
                case Endpoint() if self._speech is not None:
                    self._finish_segment(self._speech, events, self._speech.end, speech_final=True)
                case _:
                    pass
        if self._speech is not None:
            if self._speech.full:
                self._split(self._speech, events)
            else:
                self._speech.advance()
        self._notice_silence(events)

    def _open(self, onset: int, events: list[Event]) -> None:
        oldest = self._clock - len(self._recent)
        start = max(onset - int(PREROLL_SECONDS * self._rate), self._covered, oldest, 0)
        events.append(SpeechStarted(onset / self._rate))
        self._begin_segment(start, self._recent[start - oldest :])

    def _begin_segment(self, start: int, samples: Floats) -> None:
        self._prepare()
        assert self._sequence is not None and self._head is not None
        segment = Segment(
            self._model,
            self._sequence,
            self._head,
            self._language,
            self._owner,
            self.work,
            self.options.mel_maximum,
        )
        segment.extend(samples)
        self._speech = OpenSegment(self._model, segment, start, self.work)

    def _prepare(self) -> None:
        """Take a sequence and evaluate the prompt's head, once a session: its rows stay in the cache."""
        if self._sequence is not None:
            return
        self._sequence = self._model.acquire(self._owner)
        head = self._model.embed(self._model.prompt.head(self.options.keyterms))
        self._model.evaluate(Rows(self._sequence, 0, head, len(head)), self._owner)
        terms = self._model.prompt.terms(self.options.keyterms)
        opener = self._model.prompt.opener if self._language is None else None
        self._head = Head(head, self.options.keyterms, KeytermBias(terms, opener))
        self.work.head_rows += len(head)

    def _split(self, full: OpenSegment, events: list[Event]) -> None:
        """Close a full segment at its quietest late point and open the next one there."""
        cut, rest = full.seam()
        self._finish_segment(full, events, cut, speech_final=False)
        if rest is not None:
            self._begin_segment(full.start + cut, rest)

    def _drain(self, events: list[Event], *, from_finalize: bool) -> None:
        """Hear the last, incomplete frame and close the open segment."""
        if len(self._pending):
            rest, self._pending = self._pending, np.empty(0, np.float32)
            if self._speech is not None:
                self._speech.segment.extend(rest)
            self._endpointer.feed(rest)  # held there until its frame is whole
            self._clock += len(rest)
            self._recent = np.concatenate([self._recent, rest])
        if self._speech is not None:
            end = self._speech.end
            self._finish_segment(self._speech, events, end, speech_final=True, from_finalize=from_finalize)
        self._endpointer.close(self._clock)

    def _finish_segment(
        self, speech: OpenSegment, events: list[Event], end: int, *, speech_final: bool, from_finalize: bool = False
    ) -> None:
        event = self._transcripts.final(
            speech.segment,
            speech.final(end),
            speech.interims.stability,
            speech.start,
            end,
            speech_final=speech_final,
            from_finalize=from_finalize,
        )
        self.work.retracted_words += event.retracted_words
        self._covered = speech.start + end
        self._speech = None
        if event.words:
            self._last_word_end = event.words[-1].end
        if event.text or from_finalize or speech_final:
            events.append(event)

    def _notice_silence(self, events: list[Event]) -> None:
        """``UtteranceEnd`` once the gap after the last word is long enough."""
        gap = self.options.utterance_end
        if gap is None or self._last_word_end is None or self._speech is not None:
            return
        if self._clock / self._rate - self._last_word_end >= gap:
            events.append(UtteranceEnd(self._last_word_end))
            self._last_word_end = None


__all__ = ["Cancelled", "Listener"]
