"""The hearings of a clip: as it is and, where that left a small model unsure, faster and slower too; then they confer.

Whoever has not understood listens again, and to a model whose tokens cost little a clip at another speed is another
attempt: other rows, other errors. So a final of such a model (streaming/doubt.py) that holds an unlikely token is heard
at the other speeds as well, the pitch going along, each time decoded with second thoughts like any final; of all texts
the one with the best score is kept, each scored by what was heard at its own speed. Two hearings of the same text end
it. Last they all weigh the nearest texts, other spellings among them (streaming/jury.py). All of it depends on the
clip's samples alone. Times are told on the clip as it is: the text is aligned with the rows of the first hearing,
whatever hearing it comes from (streaming/transcripts.py).

A hearing stands where the first one stood in the session's sequence of the cache, behind the head. So a clip is heard
again only if it is no longer than a segment may be at any speed: up to 22 s.

The numbers were chosen on the clips that the shipped model's training held out, none of the test split;
docs/streaming.md says what they give, and ``python -m bench.hearings`` measures it again.
"""

import math
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import soxr

from engines.batching import Urgency
from streaming.hypothesis import Hypothesis
from streaming.panel import Panel
from streaming.recognizer import Segment
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel

Floats = npt.NDArray[np.float32]

SPEEDS: Final = (1.08, 0.92, 1.16)
"""How much faster the further hearings are, in the order in which they come."""
_GRAIN: Final = 100
"""Speeds are multiples of its reciprocal, so that they are ratios of whole rates."""

_soxr: Any = soxr  # incompletely typed


class Hearings:
    """The final of a segment for the clip that ends at sample ``end`` of it. Blocking; one thread at a time.

    Made with the first hearing. The others, and their verdict, are asked for one at a time, so that a caller may show
    the first text and come back, or drop them all where speech goes on; the segment may be extended meanwhile, not
    ticked.
    """

    def __init__(self, model: "AsrModel", segment: Segment, end: int, work: Work) -> None:
        self._segment, self._end, self._work = segment, end, work
        self._panel = Panel(model, segment, work)
        self.best = segment.final(end)
        """The best text so far."""
        self._again = False
        self._open = SPEEDS if self._doubtful(model.unsure) and self._fits() else ()
        self._conferred = False

    def another(self) -> bool:
        """Hear the clip once more where that is still to be done, else confer, in what others leave of the machine:
        nobody waits yet. Whether another text is the best now.

        Raises:
            Cancelled: the owner has gone.
        """
        return self._hear(Urgency.AHEAD) if self._open else self._confer(Urgency.AHEAD)

    def settle(self) -> Hypothesis:
        """The text after all hearings. Raises as :meth:`another` does."""
        while self._open:
            self._hear(Urgency.DUE)
        self._confer(Urgency.DUE)
        return self.best

    def _confer(self, urgency: Urgency) -> bool:
        """Have all hearings weigh all texts, once. Whether another text is the best now."""
        if self._conferred:
            return False
        self._conferred = True
        before, self.best = self.best, self._panel.confer(self.best, urgency)
        return self.best.tokens != before.tokens

    def _hear(self, urgency: Urgency) -> bool:
        best = self.best
        if not self._open or best.score is None:
            return False
        speed, self._open = self._open[0], self._open[1:]
        began = time.perf_counter()
        samples = at_speed(self._segment.audio(0, self._end), speed)
        heard = self._panel.again(samples, best, urgency)
        self._work.heard_again += not self._again
        self._again = True
        self._work.hearings += 1
        self._work.hearing_seconds += time.perf_counter() - began
        if heard is None:
            return False
        if heard.tokens == best.tokens:
            self._open = ()
        if heard.score is None or heard.score <= best.score:
            return False
        self.best = heard
        return heard.tokens != best.tokens

    def _doubtful(self, unsure: float) -> bool:
        sure = self.best.probabilities
        return self.best.score is not None and bool(sure) and min(sure) < math.exp(unsure)

    def _fits(self) -> bool:
        return self._panel.lends(math.ceil(self._end / min(SPEEDS)) + 1)


def at_speed(samples: Floats, speed: float) -> Floats:
    """``samples`` float32 [n] as if played ``speed`` times as fast: float32 [about n / speed], pitch and all."""
    rate = round(speed * _GRAIN)
    return np.asarray(_soxr.resample(samples, rate, _GRAIN, quality="HQ"), dtype=np.float32)
