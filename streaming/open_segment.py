"""An open segment: a segment with its place in the session, the silence that may end it, and what it says meanwhile.

Contract: where it ends and where it is parted follows from its samples alone, not from when they came. While the
silence lasts that may be its end, the final is heard in advance: once the audio that it needs is there, one hearing a
call; where speech goes on, that was for nothing. Blocking; one thread at a time.
"""

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from streaming.events import Transcript
from streaming.hearings import Hearings
from streaming.hypothesis import Hypothesis
from streaming.interims import Interims
from streaming.recognizer import Segment
from streaming.seam import SEAM_SECONDS, SEGMENT_SECONDS, quietest
from streaming.transcripts import Transcripts
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel

Floats = npt.NDArray[np.float32]

TICK_SECONDS: Final = 0.25
"""Least audio between two interim hypotheses."""
HANG_SECONDS: Final = 0.25
"""Audio kept after a silence began. The final's audio ends there, so it can be decoded before the endpoint is sure."""


class OpenSegment:
    """``segment`` of ``model``, whose first sample is ``start`` on the session's clock."""

    def __init__(self, model: "AsrModel", segment: Segment, start: int, work: Work) -> None:
        self.segment, self.start = segment, start
        self.interims = Interims(model, segment, work)
        self._model, self._rate, self._work = model, model.sample_rate, work
        self._silence_end: int | None = None
        """Where it ends if the present silence lasts (segment samples); None while speech goes on."""
        self._early: Hearings | None = None
        """The final of that silence, heard in advance."""
        self._ticked = 0

    @property
    def full(self) -> bool:
        """Whether it is as long as a segment may be."""
        return self.segment.length >= SEGMENT_SECONDS * self._rate

    @property
    def end(self) -> int:
        """Where it ends if it is closed now, in segment samples."""
        length = self.segment.length
        return length if self._silence_end is None else min(self._silence_end, length)

    def pause(self, sample: int) -> None:
        """A silence began at ``sample`` of the session's clock."""
        self._silence_end = max(sample + int(HANG_SECONDS * self._rate) - self.start, 1)

    def resume(self) -> None:
        """Speech goes on."""
        if self._early is not None:
            self._work.finals_discarded += 1
        self._silence_end = self._early = None

    def advance(self) -> None:
        """Close the windows that are complete. One that a seam may yet cut through stays open."""
        seam = int((SEGMENT_SECONDS - SEAM_SECONDS) * self._rate)
        end = self.segment.length if self._silence_end is None else self._silence_end
        self.segment.advance(min(end, seam))

    def seam(self) -> tuple[int, Floats | None]:
        """Where it is parted when it is full, in segment samples, and the audio after that point, the next one's first;
        None where that is silence."""
        length = self.segment.length
        if self._silence_end is not None and self._silence_end <= length:
            return self._silence_end, None
        cut = quietest(self.segment, self._rate)
        return cut, self.segment.audio(cut, length).copy()

    def look(self, transcripts: Transcripts) -> Transcript | None:
        """What it says now, if that is due: at most one hearing or tick."""
        segment, stability = self.segment, self.interims.stability
        if self._silence_end is not None:
            if self._early is None:
                if segment.length < self._silence_end:
                    return None
                self._early = Hearings(self._model, segment, self._silence_end, self._work)
            elif not self._early.another():  # one a call: speech may go on, and then it was for nothing
                return None
            interim = transcripts.interim(self._early.best, len(stability.words), self.start, self._silence_end)
            return interim if stability.keeps([w.text for w in interim.words]) else None
        due = (segment.length - self._ticked) / self._rate
        if due < TICK_SECONDS:
            return None
        self._work.ticks_skipped += int(due / TICK_SECONDS) - 1
        self._ticked = segment.length
        return transcripts.interim(self.interims.tick(), len(stability.words), self.start, segment.length)

    def final(self, end: int) -> Hypothesis:
        """The text up to ``end``, after all hearings; heard in advance where it ends with the present silence."""
        early = self._early if end == self._silence_end else None
        return (early or Hearings(self._model, self.segment, end, self._work)).settle()
