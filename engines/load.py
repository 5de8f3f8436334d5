"""How much of the machine live work takes, and how many more live sessions it would keep live.

Contract: measured, not declared. What lanes spent on live work is set against the audio and the interims it was for,
with the last half minute counting most; the first figures come from what a model hears while it warms up. Backlog
counts for nothing: it gets what is left over.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.batching import Lane, Priority

USABLE: Final = 0.85
"""Share of a lane's time that live sessions may plan with: the rest is for those who all end a sentence at once."""
INTERIM_SECONDS: Final = 1.0
"""Audio between two interims of a session that the machine must have time for; more come where there is more."""
HALF_LIFE_SECONDS: Final = 30.0
"""Time after which what was measured counts half."""
LEAST_AUDIO_SECONDS: Final = 1.0
"""Audio below which nothing is forgotten: an idle machine keeps its figures."""
LATE_SECONDS: Final = 5.0
"""Time for which a final that was late keeps new sessions away, whatever was planned."""
UNKNOWN: Final = 1_000
"""Sessions there is room for where nothing was measured."""


class Load:
    """Of the lanes of one model. Thread-safe."""

    def __init__(self, lanes: Sequence[Lane], clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: seconds, on which lanes also note when a final was late."""
        self._lanes = list(dict.fromkeys(lanes))
        self._clock = clock
        self._lock = threading.Lock()
        self._audio = self._interims = 0.0
        self._seen = self._totals()
        self._recent = np.zeros_like(self._seen)
        """What was added to the totals, the older the less of it."""
        self._at = clock()

    def heard(self, seconds: float) -> None:
        """Live work for ``seconds`` of audio was done."""
        with self._lock:
            self._update()
            self._audio += seconds

    def looked(self) -> None:
        """An interim was made."""
        with self._lock:
            self._interims += 1

    @property
    def cost(self) -> float:
        """Seconds of the busiest lane for a second of a session's speech, an interim a second included; 0 where
        nothing was measured."""
        with self._lock:
            self._update()
            *spent, (audio, interims) = self._recent.tolist()
        if not audio:
            return 0.0
        return max(final / audio + interim / (max(interims, 1.0) * INTERIM_SECONDS) for final, interim in spent)

    def room(self, live: int) -> int:
        """How many live sessions would fit beside ``live`` ones; at least 0. One always fits where there is none."""
        cost = self.cost
        if live and any(self._clock() - lane.late_at < LATE_SECONDS for lane in self._lanes):
            return 0
        return max(0, (max(1, int(USABLE / cost)) if cost > 0 else UNKNOWN) - live)

    def _totals(self) -> npt.NDArray[np.float64]:
        """A row of seconds of finals and of interims for each lane, and one of what they were for: seconds of audio,
        and interims."""
        return np.array(
            [
                *(
                    (lane.busy[Priority.FINAL] + lane.busy[Priority.EARLY], lane.busy[Priority.INTERIM])
                    for lane in self._lanes
                ),
                (self._audio, self._interims),
            ]
        )

    def _update(self) -> None:
        """Take in what was done since the last time."""
        now, totals = self._clock(), self._totals()
        passed = now - self._at
        if passed <= 0:
            return
        new = totals - self._seen
        # Work and what it was for are forgotten alike, so that the cost of a second stays.
        forgets = self._recent[-1, 0] >= LEAST_AUDIO_SECONDS
        self._recent = self._recent * (0.5 ** (passed / HALF_LIFE_SECONDS) if forgets else 1.0) + new
        self._seen, self._at = totals, now
