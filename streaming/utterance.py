"""An utterance: the stretch of a session's audio that becomes one final, from onset to endpoint.

Contract: where it begins, pauses and ends, and where a full one is split, follows from its samples alone, not from when
they came. The listener's clock side (``feed``) appends samples and moves the marks; its work side (``step``) asks what
is due and keeps here what it made. Knows no model call.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.batching import Priority
from engines.manifest import AsrManifest
from streaming.decoding import EMPTY, Hypothesis
from streaming.engine import SEGMENT_SECONDS
from streaming.events import Transcript
from streaming.segment import Segment
from streaming.stability import Rule, Stability
from streaming.windows import complete_windows, window_end

Floats = npt.NDArray[np.float32]

SPLIT_SECONDS: Final = 4.0
"""A full utterance is split at the quietest point of this stretch at its end."""
INTERIM_SECONDS: Final = 0.25
"""Least audio between two interim hypotheses."""
HANG_SECONDS: Final = 0.25
"""Audio kept after a silence began. The final's audio ends there, so it can be decoded before the endpoint is sure."""


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


class Utterance:
    """One that begins at sample ``start`` of the session's clock."""

    def __init__(self, manifest: AsrManifest, start: int, rule: Rule) -> None:
        """``rule``: which of its words are committed."""
        self.start = start
        self._manifest = manifest
        self._rate = manifest.mel.sample_rate
        self._samples = np.empty(0, np.float32)
        self.length = 0
        """Samples so far."""
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
        self.early: tuple[int, Hypothesis] | None = None
        """A final decoded in advance, and where its audio ends."""
        self.final: Transcript | None = None
        self.gap_said: int | None = None
        """``silence_end`` of the newest silence of which UtteranceEnd was said while it stayed open."""

    # ---------------------------------------------------------------- the clock's side

    def extend(self, samples: Floats) -> None:
        """Append samples, float32 mono at the model's rate."""
        need = self.length + len(samples)
        if need > len(self._samples):
            # A new array: what ``audio`` gave out stays as it was.
            grown = np.empty(max(need, 2 * len(self._samples), 4 * self._rate), np.float32)
            grown[: self.length] = self._samples[: self.length]
            self._samples = grown
        self._samples[self.length : need] = samples
        self.length = need

    def audio(self, start: int, stop: int) -> Floats:
        """A view of the samples ``start … stop``; it never changes."""
        return self._samples[start:stop]

    @property
    def full(self) -> bool:
        """Whether it is as long as it may be."""
        return self.length >= SEGMENT_SECONDS * self._rate

    @property
    def end(self) -> int:
        """Where it ends if it is closed now."""
        return self.length if self.silence_end is None else min(self.silence_end, self.length)

    def pause(self, sample: int) -> None:
        """A silence began at ``sample`` of the session's clock."""
        self.silence_end = max(sample + int(HANG_SECONDS * self._rate) - self.start, 1)

    @property
    def silent(self) -> int:
        """Samples of the present silence."""
        began = None if self.silence_end is None else self.silence_end - int(HANG_SECONDS * self._rate)
        return 0 if began is None else max(self.length - began, 0)

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
            waits = self.length < self.silence_end or (self.early is not None and self.early[0] == self.silence_end)
            return None if waits else Piece.EARLY
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
