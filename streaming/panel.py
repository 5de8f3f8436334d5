"""The hearings of one clip as a panel: the first one's segment and others, of which one at a time is in the cache.

A further hearing takes the segment's place in its sequence, behind the head, until another one is asked; what it
displaces is put back when it is needed, in the same calls (streaming/prefix.py). A clip may be heard again if it is no
longer than a segment may be. Blocking; one thread at a time.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engines.batching import Urgency
from streaming.doubt import Draft
from streaming.hypothesis import Hypothesis
from streaming.jury import confer
from streaming.recognizer import Segment
from streaming.seam import SEGMENT_SECONDS
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Member:
    """One hearing, as a juror (streaming/jury.py): in the cache whenever it is asked."""

    panel: "Panel"
    segment: Segment

    @property
    def found(self) -> Sequence[Draft]:
        return self.segment.found

    @property
    def phones(self) -> Floats | None:
        return self.segment.phones

    def weigh(
        self, texts: Sequence[tuple[int, ...]], urgency: Urgency
    ) -> tuple[npt.NDArray[np.float64], list[npt.NDArray[np.float64]]]:
        self.panel.seat(self.segment)
        return self.segment.weigh(texts, urgency)


class Panel:
    """``segment``, whose last final is the first hearing, and those that follow."""

    def __init__(self, model: "AsrModel", segment: Segment, work: Work) -> None:
        self._model, self._first, self._work = model, segment, work
        self._others: list[Segment] = []

    def lends(self, samples: int) -> bool:
        """Whether so many samples may be heard by ``again``."""
        return self._model.doubts and samples <= SEGMENT_SECONDS * self._model.sample_rate

    def again(self, samples: Floats, known: Hypothesis, urgency: Urgency) -> Hypothesis | None:
        """What is heard in other ``samples`` of the words of ``known``, a text of this clip with a score. None: nothing
        of use.

        Raises:
            ValueError: ``samples`` are too many, or ``known`` has no score.
        """
        if known.score is None or not self.lends(len(samples)):
            raise ValueError(f"samples: {len(samples)}, more than a segment may have, or what they say has no score")
        with self._first.context():
            other = self._first.beside(samples, urgency)
            self.seat(other)
            heard = other.again(known)
        if heard.score is None or other.leaks(heard):
            return None
        self._others.append(other)
        return heard

    def confer(self, best: Hypothesis, urgency: Urgency) -> Hypothesis:
        """What all hearings together find, whose best text so far is ``best``; where the model is to be quick, or
        nothing can be compared, that text."""
        if not self._model.thorough or best.score is None:
            return best
        began = time.perf_counter()
        with self._first.context():
            best = self._confer(best, urgency)
        self._work.conferred += 1
        self._work.confer_seconds += time.perf_counter() - began
        return best

    def _confer(self, best: Hypothesis, urgency: Urgency) -> Hypothesis:
        first = self._first
        if first.recited:
            # Whoever was in the cache stood behind a head that was taken out since, and put back.
            for each in (first, *self._others):
                each.displace()
        jury = [_Member(self, each) for each in (*reversed(self._others), first)]
        start = len(best.tokens) - len(best.answer.body)
        draft = confer(jury, best.tokens, start, self._model.speller(first.keyterms), first.reader(urgency), urgency)
        if draft is None or tuple(draft.tokens) == best.tokens:
            return best
        hypothesis = first.hypothesis_of(draft)
        return best if first.leaks(hypothesis) else hypothesis

    def seat(self, present: Segment) -> None:
        """Of the hearings of this clip ``present`` is in the cache, no other one."""
        for each in (self._first, *self._others):
            if each is not present:
                each.displace()
