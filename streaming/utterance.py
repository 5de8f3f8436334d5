"""An utterance: the stretch of a session's audio that becomes one final, from onset to endpoint; and the timeline of
what a session has yet to say.

Contract: where an utterance begins, pauses and ends, and where a full one is split, follows from its samples alone, not
from when they came. The listener's clock side (``feed``) appends samples and moves the marks; its work side (``step``)
asks what is due and keeps here what it made. Knows no model call and no lock.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np

from engines.batching import Priority
from engines.manifest import AsrManifest
from streaming.decoding import EMPTY, Hypothesis
from streaming.endpoint import CONFIRM
from streaming.engine import SEGMENT_SECONDS, Head
from streaming.events import Event, Paused, Resumed, Transcript, UtteranceEnd
from streaming.options import ListenOptions
from streaming.segment import Segment
from streaming.stability import Rule, Stability
from streaming.vad import SAMPLE_RATE
from streaming.windows import SampleBuffer, complete_windows, window_end

SPLIT_SECONDS: Final = 4.0
"""A full utterance is split at the quietest point of this stretch at its end."""
INTERIM_SECONDS: Final = 0.25
"""Least audio between two interim hypotheses."""
HANG_SECONDS: Final = CONFIRM / SAMPLE_RATE
"""Audio kept after a silence began. The final's audio ends there, so it can be decoded as soon as there is a pause."""

QUIET: Final = SAMPLE_RATE * 15 // 100
"""Zeros behind a final's audio: it hears 0.2 points less wrong with them, and the pause needs not last so long."""


class Piece(Enum):
    """A bounded piece of model work."""

    WINDOW = auto()
    """A complete window is encoded and put into the KV cache."""
    INTERIM = auto()
    EARLY = auto()
    """The final of the present silence, decoded in advance."""
    FINAL = auto()


PRIORITIES: Final = {
    Piece.WINDOW: Priority.EARLY,
    Piece.INTERIM: Priority.INTERIM,
    Piece.EARLY: Priority.EARLY,
    Piece.FINAL: Priority.FINAL,
}


@dataclass(frozen=True, slots=True)
class Closed:
    """How an utterance ended: ``end`` in its own samples, known at sample ``at`` of the session's clock."""

    end: int
    at: int
    speech_final: bool
    from_finalize: bool


@dataclass(frozen=True, slots=True)
class Early:
    """A final decoded in advance: where its audio ends, and what is said of it until it is due."""

    end: int
    hypothesis: Hypothesis
    transcript: Transcript


class Utterance(SampleBuffer):
    """One that begins at sample ``start`` of the session's clock."""

    def __init__(self, manifest: AsrManifest, start: int, rule: Rule, head: Head) -> None:
        """``rule``: which of its words are committed; ``head``: the prompt before its audio."""
        super().__init__()
        self.start, self.head = start, head
        self._manifest = manifest
        self._rate = manifest.mel.sample_rate
        self.silence_end: int | None = None
        """Where it ends if the present silence lasts, in its own samples; None while speech goes on."""
        self.likely_over = False
        """The present silence is as long as ``ListenOptions.eager`` asks."""
        self.paused: Transcript | None = None
        """What was said of that, until speech goes on."""
        self.resumed: Transcript | None = None
        """The same once it does, until that is told."""
        self.closed: Closed | None = None
        # The work side's:
        self.segment: Segment | None = None
        self.advanced = 0
        """Windows in the KV cache."""
        self.looked = 0
        """Samples that the newest interim heard."""
        self.hypothesis: Hypothesis = EMPTY
        """The newest interim."""
        self.stability = Stability(rule)
        """What of it is committed."""
        self.early: Early | None = None
        self.final: Transcript | None = None
        self.gap_said: int | None = None
        """``silence_end`` of the newest silence of which UtteranceEnd was said while it stayed open."""

    # ---------------------------------------------------------------- the clock's side

    @property
    def full(self) -> bool:
        """Whether it is as long as it may be."""
        return self.length >= SEGMENT_SECONDS * self._rate

    @property
    def end(self) -> int:
        """Where it ends if it is closed now."""
        return self.length if self.silence_end is None else min(self.silence_end, self.length)

    def pause(self, sample: int, known: int) -> None:
        """A silence began at ``sample`` of the session's clock; ``known``: when that showed, before which work may have
        been done."""
        self.silence_end = max(sample + int(HANG_SECONDS * self._rate), known) - self.start

    @property
    def silent(self) -> int:
        """Samples of the present silence."""
        end = self.silence_end
        return 0 if end is None else max(self.length - end + int(HANG_SECONDS * self._rate), 0)

    @property
    def ahead(self) -> Early | None:
        """The final of the present silence, once it is decoded."""
        return self.early if self.early is not None and self.early.end == self.silence_end else None

    @property
    def cached(self) -> int:
        """Samples whose windows are in the KV cache."""
        return window_end(self._manifest, self.advanced - 1) if self.advanced else 0

    def resume(self) -> bool:
        """Speech goes on; whether a final was decoded in advance for nothing."""
        self.silence_end, early, self.early = None, self.early, None
        self.likely_over, self.paused, self.resumed = False, None, self.paused or self.resumed
        return early is not None

    def split_point(self) -> int:
        """Where a full one is parted from the next: where its present silence ends, else the middle of the quietest
        100 ms of its last ``SPLIT_SECONDS``."""
        if self.silence_end is not None and self.silence_end <= self.length:
            return self.silence_end
        stop = int(SEGMENT_SECONDS * self._rate)
        start = stop - int(SPLIT_SECONDS * self._rate)
        hop = self._rate // 100
        blocks = self.audio(start, stop).astype(np.float64) ** 2
        energy = blocks[: len(blocks) // hop * hop].reshape(-1, hop).sum(axis=1)
        smooth = np.convolve(energy, np.ones(10), "valid")
        return start + (int(smooth.argmin()) + 5) * hop

    # ---------------------------------------------------------------- what is due

    def due(self, *, interim: bool) -> Piece | None:
        """The piece of work that comes next; ``interim``: interims are wanted."""
        if self.final is not None:
            return None
        if complete_windows(self._manifest, self._limit) > self.advanced:
            return Piece.WINDOW
        if self.closed is not None:
            return Piece.FINAL
        if self.silence_end is not None:
            return None if self.length < self.silence_end or self.ahead is not None else Piece.EARLY
        return Piece.INTERIM if interim and self.length - self.looked >= INTERIM_SECONDS * self._rate else None

    def due_since(self) -> int | None:
        """Sample of the session's clock at which the oldest work that its final needs became due; None: there is
        none."""
        if self.final is not None:
            return None
        if complete_windows(self._manifest, self._limit) > self.advanced:
            return self.start + window_end(self._manifest, self.advanced)
        return None if self.closed is None else self.closed.at

    @property
    def _limit(self) -> int:
        """Samples up to which windows may be closed: one that the split may yet cut through stays open."""
        end = self.closed.end if self.closed is not None else self.end
        return min(end, int((SEGMENT_SECONDS - SPLIT_SECONDS) * self._rate))


class Timeline:
    """What a session has yet to say, in the order of its clock: an utterance stands where its final will."""

    def __init__(self, options: ListenOptions, rate: int) -> None:
        """``rate``: samples a second of the session's clock, which all ``clock`` here are on."""
        self.options = options
        self._rate = rate
        self._items: deque[tuple[int, Event | Utterance]] = deque()
        """Beside each the sample at which it was known."""
        self._last_word_end: float | None = None

    def append(self, clock: int, item: Event | Utterance) -> None:
        """``item`` is known."""
        self._items.append((clock, item))

    def clear(self) -> None:
        """Say nothing more."""
        self._items.clear()

    @property
    def unfinished(self) -> Utterance | None:
        """The first utterance that has no final yet."""
        return next((item for _, item in self._items if isinstance(item, Utterance) and not item.final), None)

    def behind(self, clock: int) -> float:
        """Seconds since the oldest work that a final needs became due; 0 where none waits."""
        for _, item in self._items:
            if isinstance(item, Utterance) and (since := item.due_since()) is not None:
                return max(0, clock - since) / self._rate
        return 0.0

    def over(self, clock: int) -> bool:
        """Whether there is nothing left, now or later."""
        return not self._items and not self.sayable(clock)

    def sayable(self, clock: int) -> bool:
        """Whether ``say`` has something."""
        if not self._items:
            return self._gap_until(clock) is not None
        item = self._items[0][1]
        if not isinstance(item, Utterance) or item.final is not None:
            return True
        return item.resumed is not None or self._pause(item) is not None or self._gap_within(item, clock) is not None

    def say(self, clock: int) -> list[Event]:
        """What can be said by now, in order."""
        events: list[Event] = []
        while self._items:
            known, item = self._items[0]
            if not isinstance(item, Utterance):
                events += [*self._gap(known), item]
            elif not self._say(item, clock, events):
                return events
            self._items.popleft()
        return [*events, *self._gap(clock)]

    def _say(self, utterance: Utterance, clock: int, events: list[Event]) -> bool:
        """Say what is known of ``utterance``; whether that is all."""
        final = utterance.final
        if utterance.resumed is not None:
            events.append(Resumed(utterance.resumed))
            utterance.resumed = None
        if final is None:
            if (pause := self._pause(utterance)) is not None:
                utterance.paused = pause.transcript
                events.append(pause)
            if (ended := self._gap_within(utterance, clock)) is not None:
                utterance.gap_said = utterance.silence_end
                events.append(ended)
            return False
        if final.words:
            # A silence that was told of already is not told of again.
            told = utterance.closed is not None and utterance.gap_said == utterance.closed.end
            self._last_word_end = None if told else final.words[-1].end
        if final.text or final.from_finalize or final.speech_final:
            events.append(final)
        return True

    def _pause(self, utterance: Utterance) -> Paused | None:
        """What tells that ``utterance`` may be over, once."""
        early = utterance.ahead
        if not utterance.likely_over or utterance.paused is not None or utterance.closed is not None:
            return None
        return Paused(early.transcript, utterance.silent / self._rate) if early and early.transcript.text else None

    def _gap(self, clock: int) -> list[UtteranceEnd]:
        ended = self._gap_until(clock)
        if ended is not None:
            self._last_word_end = None
        return [] if ended is None else [ended]

    def _gap_until(self, clock: int) -> UtteranceEnd | None:
        """What tells that ``utterance_end`` has passed between the last word and ``clock``, once."""
        gap, last = self.options.utterance_end, self._last_word_end
        return None if gap is None or last is None or clock / self._rate - last < gap else UtteranceEnd(last)

    def _gap_within(self, utterance: Utterance, clock: int) -> UtteranceEnd | None:
        """The same for a silence that ends no utterance, because nothing does: words end where it began."""
        gap, early = self.options.utterance_end, utterance.ahead
        if gap is None or self.options.endpointing is not None or early is None or early.end == utterance.gap_said:
            return None
        last = (utterance.start + early.end) / self._rate - HANG_SECONDS
        return UtteranceEnd(round(last, 3)) if early.transcript.text and clock / self._rate - last >= gap else None
