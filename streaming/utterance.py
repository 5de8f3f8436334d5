"""An utterance, the stretch of a session's audio from onset to endpoint that becomes one final; and the timeline of the
events that a session has yet to emit.

Contract: where an utterance begins, pauses and ends, and where a full one is split, depends on its samples alone, not
on when they came. The listener's clock side (``feed``) appends samples and notes silences and ends. Its work side
(``step``) asks which work is due and keeps the results here. This module makes no model call and takes no lock.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np

from engines.manifest import AsrManifest
from engines.scheduling import Priority
from streaming.decoding import EMPTY, Hypothesis
from streaming.endpoint import CONFIRM
from streaming.engine import SEGMENT_SECONDS, Head
from streaming.events import Event, Paused, Resumed, SpeakerChange, Transcript, UtteranceEnd
from streaming.options import ListenOptions
from streaming.segment import Segment
from streaming.speakers import Prints
from streaming.stability import Rule, Stability
from streaming.vad import FRAME, SAMPLE_RATE
from streaming.windows import SampleBuffer, complete_windows, window_end

SPLIT_SECONDS: Final = 4.0
"""How long the stretch at the end of a full utterance is in which it is split, at its quietest point. It is a choice:
a longer stretch finds quieter points, a shorter one leaves longer segments."""
INTERIM_SECONDS: Final = 0.25
"""How much audio comes between two interim hypotheses at least: about a word, so that captions grow word by word."""
HANG_SECONDS: Final = CONFIRM / SAMPLE_RATE
"""How much of a silence belongs to its utterance: just what makes it a pause, so that the final can be decoded as soon
as the pause is known."""

QUIET: Final = SAMPLE_RATE * 15 // 100
"""How many zeros follow a final's audio, 0.15 s. They stand in for a longer silence: without them 22.7 % of the words
are wrong, with them 22.4 % (notes/2026-11-commits.md)."""


class WorkKind(Enum):
    """A kind of model work that a session asks for. Each is bounded, so that sessions can take turns."""

    CLOCK = auto()
    """Let the clock go on, which waited for a final in advance."""
    WINDOW = auto()
    """Encode a complete window and put it into the KV cache."""
    VOICE = auto()
    """Make the voice print of a window that is complete."""
    INTERIM = auto()
    """Decode an interim hypothesis."""
    EARLY = auto()
    """Decode the final in advance, in a silence that may be its end."""
    FINAL = auto()
    """Make the final of a closed utterance."""


PRIORITIES: Final = {
    WorkKind.CLOCK: Priority.FINAL,
    WorkKind.WINDOW: Priority.EARLY,
    WorkKind.VOICE: Priority.EARLY,
    WorkKind.INTERIM: Priority.INTERIM,
    WorkKind.EARLY: Priority.EARLY,
    WorkKind.FINAL: Priority.FINAL,
}
"""How urgent each kind of work is for a live session that is not behind."""


@dataclass(frozen=True, slots=True)
class Closed:
    """How an utterance ended: ``end`` counts its own samples, ``at`` is the sample of the session's clock at which that
    was known; for the rest see ``streaming.events.Transcript``."""

    end: int
    at: int
    speech_final: bool
    from_finalize: bool
    silence: float
    sure: float | None


@dataclass(frozen=True, slots=True)
class Early:
    """A final that was decoded in advance: the sample of the utterance at which its audio ends, its hypothesis, the
    interim transcript that shows it until it is due, and how much it speaks for the end of a turn
    (``streaming.turn.spoken``)."""

    end: int
    hypothesis: Hypothesis
    transcript: Transcript
    said: float | None


class Utterance(SampleBuffer):
    """An utterance that begins at sample ``start`` of the session's clock, with its samples and what was made of
    them."""

    def __init__(self, manifest: AsrManifest, start: int, rule: Rule, head: Head, *, speakers: bool = False) -> None:
        """``rule`` tells when its words are committed, ``head`` is the prompt before its audio, ``speakers`` whether
        its words get theirs."""
        super().__init__()
        self.start, self.head = start, head
        self._manifest = manifest
        self._rate = manifest.mel.sample_rate
        self.silence_end: int | None = None
        """The sample of the utterance at which it ends if the present silence lasts; None while speech goes on."""
        self.quiet_since: int | None = None
        """The sample of the utterance at which the present silence begins; None while speech goes on."""
        self.least: float | None = None
        """Seconds of that silence from which on what was said has a say in how long it may last; None for never."""
        self.likely_over = 0.0
        """The probability of an end at which ``Turn.eager`` was reached in the present silence; 0 before."""
        self.paused: Transcript | None = None
        """The transcript of the ``Paused`` that was emitted, until speech goes on."""
        self.resumed: Transcript | None = None
        """The same transcript once speech goes on, until ``Resumed`` is emitted."""
        self.closed: Closed | None = None
        """How the utterance ended, once it did."""
        # From here on only the work side sets what is here.
        self.segment: Segment | None = None
        self.advanced = 0
        """How many windows are in the KV cache."""
        self.looked = 0
        """How many samples the newest interim was made of."""
        self.hypothesis: Hypothesis = EMPTY
        """The newest interim hypothesis."""
        self.stability = Stability(rule)
        """Which of its words are committed."""
        self.early: Early | None = None
        """The final that was decoded in advance last, if speech has not gone on since."""
        self.prints = Prints() if speakers else None
        """Its voice prints; None where nobody asks."""
        self.final: Transcript | None = None
        """The final, once it is made."""
        self.speaker_changes: Sequence[SpeakerChange] = ()
        """The speakers who turned out to be one, or somebody, by its final."""
        self.gap_said: int | None = None
        """The ``silence_end`` of the silence for which UtteranceEnd was emitted last while this stayed open."""

    # ---------------------------------------------------------------- the clock's side

    @property
    def full(self) -> bool:
        """Whether the utterance is as long as it may be."""
        return self.length >= SEGMENT_SECONDS * self._rate

    @property
    def end(self) -> int:
        """The sample of the utterance at which it ends if it is closed now."""
        return self.length if self.silence_end is None else min(self.silence_end, self.length)

    def pause(self, sample: int, known: int, *, least: float | None) -> None:
        """Note a silence that began at ``sample`` of the session's clock and was known at sample ``known``. The
        utterance cannot end before ``known``, since work may have been done up to there."""
        self.silence_end = max(sample + int(HANG_SECONDS * self._rate), known) - self.start
        self.quiet_since, self.least = sample - self.start, least

    @property
    def silent(self) -> int:
        """How many samples the present silence has; 0 while speech goes on."""
        return 0 if self.quiet_since is None else self.length - self.quiet_since

    @property
    def awaited(self) -> bool:
        """Whether the next frame may end the turn, and it is not known yet what was said."""
        if self.least is None or self.quiet_since is None or self.closed is not None or self.ahead is not None:
            return False
        return self.silent + FRAME >= self.least * self._rate

    @property
    def ahead(self) -> Early | None:
        """The final that was decoded in advance for the present silence, if there is one."""
        return self.early if self.early is not None and self.early.end == self.silence_end else None

    @property
    def cached(self) -> int:
        """How many samples lie in windows that are in the KV cache."""
        return window_end(self._manifest, self.advanced - 1) if self.advanced else 0

    def resume(self) -> bool:
        """Note that speech goes on. Returns whether a final was decoded in advance for nothing."""
        self.silence_end, self.quiet_since, early, self.early = None, None, self.early, None
        self.likely_over, self.paused, self.resumed = 0.0, None, self.paused or self.resumed
        return early is not None

    def split_point(self) -> int:
        """The sample at which a full utterance is split from the next: ``silence_end`` if it is silent now, else the
        middle of the quietest 100 ms of its last ``SPLIT_SECONDS``."""
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

    def due(self, *, interim: bool) -> WorkKind | None:
        """The work that is due next, or None; ``interim`` tells whether interims are wanted."""
        if self.final is not None:
            return None
        if complete_windows(self._manifest, self._limit) > self.advanced:
            return WorkKind.WINDOW
        if self.closed is not None:
            return WorkKind.FINAL
        if self.silence_end is not None and self.length >= self.silence_end and self.ahead is None:
            return WorkKind.EARLY
        if self.prints is not None and self.prints.due(self.length, self.silence_end):
            return WorkKind.VOICE
        if self.silence_end is not None:
            return None
        return WorkKind.INTERIM if interim and self.length - self.looked >= INTERIM_SECONDS * self._rate else None

    def due_since(self) -> int | None:
        """The sample of the session's clock at which the oldest work that the final needs became due; None if none is
        due."""
        if self.final is not None:
            return None
        if complete_windows(self._manifest, self._limit) > self.advanced:
            return self.start + window_end(self._manifest, self.advanced)
        if self.awaited and self.silence_end is not None:
            return self.start + self.silence_end
        return None if self.closed is None else self.closed.at

    @property
    def _limit(self) -> int:
        """How many samples may be in closed windows: a window that a split may yet cut through stays open."""
        end = self.closed.end if self.closed is not None else self.end
        return min(end, int((SEGMENT_SECONDS - SPLIT_SECONDS) * self._rate))


class Timeline:
    """The events that a session has yet to emit, in the order of its clock. An utterance stands in the place of its
    final."""

    def __init__(self, options: ListenOptions, rate: int) -> None:
        """``rate`` is the sample rate in Hz; every ``clock`` below counts samples of the session."""
        self.options = options
        self._rate = rate
        self._items: deque[tuple[int, Event | Utterance]] = deque()
        """Each event or utterance with the sample of the clock at which it was known."""
        self._last_word_end: float | None = None
        """The second at which the last word ended, until UtteranceEnd is emitted for it."""

    def append(self, clock: int, item: Event | Utterance) -> None:
        """Append an event or utterance that was known at ``clock``."""
        self._items.append((clock, item))

    def clear(self) -> None:
        """Forget all events, so that none is emitted any more."""
        self._items.clear()

    @property
    def unfinished(self) -> Utterance | None:
        """The first utterance that has no final yet."""
        return next((item for _, item in self._items if isinstance(item, Utterance) and not item.final), None)

    def behind(self, clock: int) -> float:
        """How many seconds ago the oldest work that a final needs became due; 0 if none waits."""
        for _, item in self._items:
            if isinstance(item, Utterance) and (since := item.due_since()) is not None:
                return max(0, clock - since) / self._rate
        return 0.0

    def over(self, clock: int) -> bool:
        """Whether no event is left, now or later."""
        return not self._items and not self.sayable(clock)

    def sayable(self, clock: int) -> bool:
        """Whether ``say`` would return any event."""
        if not self._items:
            return self._gap_until(clock) is not None
        item = self._items[0][1]
        if not isinstance(item, Utterance) or item.final is not None:
            return True
        return item.resumed is not None or self._pause(item) is not None or self._gap_within(item, clock) is not None

    def say(self, clock: int) -> list[Event]:
        """Take out the events that can be emitted by now, in order."""
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
        """Append to ``events`` what is known of ``utterance``. Returns whether nothing more will come of it."""
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
            # UtteranceEnd is not emitted a second time for the silence that closed the utterance.
            told = utterance.closed is not None and utterance.gap_said == utterance.closed.end
            self._last_word_end = None if told else final.words[-1].end
        if final.text or final.from_finalize or final.speech_final:
            events += [final, *utterance.speaker_changes]
        return True

    def _pause(self, utterance: Utterance) -> Paused | None:
        """The event that ``utterance`` may be over, if it is due and was not emitted in this silence."""
        early = utterance.ahead
        if not utterance.likely_over or utterance.paused is not None or utterance.closed is not None:
            return None
        return Paused(early.transcript, utterance.likely_over) if early and early.transcript.text else None

    def _gap(self, clock: int) -> list[UtteranceEnd]:
        """The UtteranceEnd that is due at ``clock``, if any; it is not due again until another word has come."""
        ended = self._gap_until(clock)
        if ended is not None:
            self._last_word_end = None
        return [] if ended is None else [ended]

    def _gap_until(self, clock: int) -> UtteranceEnd | None:
        """The event that ``utterance_end`` has passed between the last word and ``clock``, or None."""
        gap, last = self.options.utterance_end, self._last_word_end
        return None if gap is None or last is None or clock / self._rate - last < gap else UtteranceEnd(last)

    def _gap_within(self, utterance: Utterance, clock: int) -> UtteranceEnd | None:
        """The same for a silence inside ``utterance``, where endpointing is off and no silence ends it. The words end
        where the silence began."""
        gap, early = self.options.utterance_end, utterance.ahead
        if gap is None or self.options.endpointing is not None or early is None or early.end == utterance.gap_said:
            return None
        last = (utterance.start + early.end) / self._rate - HANG_SECONDS
        return UtteranceEnd(round(last, 3)) if early.transcript.text and clock / self._rate - last >= gap else None
