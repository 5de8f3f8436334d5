"""How much of the machine live work takes, and how many more live sessions it would keep up with.

Contract: measured, not declared. What the lane spent on live work is set against the audio and the interims it was for,
with the last half minute counting most; the first figures come from what a model hears while it warms up. On a CPU it
is processor time that is planned with, the threads beside the lane included, because they share its cores; and by the
clock, whatever else runs on the machine, captions must stay live. Backlog counts for nothing: it gets what is left.

How many sessions fit follows from these costs, as tests/engines/simulation.py shows: if all threads are busy for
``USABLE`` of their time with finals and an interim every ``INTERIM_SECONDS``, 95 % of the words are in captions within
0.6 s (tests/engines/test_scheduling.py). Of large models and cards ``LARGE_INTERIM_SECONDS`` are asked for instead.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.lane import Lane
from engines.scheduling import Place, Priority

USABLE: Final = 0.85
"""Share of the lane's time that live sessions may plan with; the rest serves those who all end a sentence at once."""
INTERIM_SECONDS: Final = 0.5
"""Audio between two interims of a session that there must be time for; more come where there is more."""
LARGE_INTERIM_SECONDS: Final = 1.0
"""The same on a card, and of a large model: of those an interim a second is promised, and twice as many sessions fit
(notes/2026-11-card.md)."""
SPARSE_SECONDS: Final = 2.0
"""The longest such stretch with which captions are still live, where one session fills the machine."""
HALF_LIFE_SECONDS: Final = 30.0
"""Time after which what was measured counts half as much."""
LEAST_AUDIO_SECONDS: Final = 1.0
"""How much audio must be counted for older measurements to fade: an idle machine keeps its figures."""
LATE_SECONDS: Final = 5.0
"""For how many seconds after a late final no new session is let in: about as long as an utterance, so that those who
are there catch up first."""
UNKNOWN: Final = 1_000
"""How many sessions there is room for where nothing was measured."""


class Load:
    """What the sessions of one model cost its lane, and ``places`` in it that all of them need. Thread-safe."""

    def __init__(
        self,
        lane: Lane,
        places: Sequence[Place] = (),
        clock: Callable[[], float] = time.monotonic,
        *,
        cores: int = 0,
        threads: int = 1,
        interim_seconds: float = INTERIM_SECONDS,
    ) -> None:
        """
        Args:
            clock: gives seconds; the lane also notes by it when a final was late.
            cores: how many the lane shares with the threads beside it; 0 where its work is done elsewhere, on a card.
            threads: how many threads compute one call.
            interim_seconds: audio between two interims that is planned with.
        """
        self.interim_seconds = interim_seconds
        self._lane, self._busy = lane, [lane.worked, lane.busy, *(place.busy for place in places)]
        self._clock, self._cores = clock, cores
        self._used = lane.threads * threads
        self._lock = threading.Lock()
        self._audio = self._interims = self._fed = self._around = 0.0
        self._threads: dict[int, float] = {}
        """For each thread beside the lane, the seconds of a processor that it had taken when it was last seen."""
        self._seen = self._totals()
        self._recent = np.zeros_like(self._seen)
        """What was added to the totals; the older it is the less of it counts."""
        self._at = clock()

    def heard(self, seconds: float) -> None:
        """Note that live work for ``seconds`` of audio was done."""
        with self._lock:
            self._update()
            self._audio += seconds

    def looked(self) -> None:
        """Note that an interim was made."""
        with self._lock:
            self._interims += 1

    def beside(self, fed: float = 0.0) -> None:
        """Count what the calling thread took of a processor since its last call. Each thread that works for live
        sessions beside the lane calls this now and then.

        Args:
            fed: seconds of live audio that the thread has fed since the last call.
        """
        taken, thread = time.thread_time(), threading.get_ident()
        with self._lock:
            self._around += max(0.0, taken - self._threads.get(thread, taken))
            self._threads[thread] = taken
            self._fed += fed

    def cost(self, interim_seconds: float | None = None) -> float:
        """Tell for which part of a second a second of a session's speech, with an interim every ``interim_seconds``,
        keeps the lane busy, or its busiest place, or all cores, whichever is most; 0 where nothing was measured. None
        stands for as many interims as are planned with."""
        with self._lock:
            self._update()
            worked, *spent, (around, fed), (audio, interims) = self._recent.tolist()
        if not audio:
            return 0.0

        def each(row: Sequence[float], apart: float) -> float:
            return row[0] / audio + row[1] / (max(interims, 1.0) * apart)

        if not self._cores:
            return max(each(row, interim_seconds or self.interim_seconds) for row in spent)
        working = each(worked, interim_seconds or self.interim_seconds) * self._used
        # What else the process does is not for them, and who feeds next to nothing tells nothing.
        listening = min(around / max(fed, LEAST_AUDIO_SECONDS), working)
        by_the_clock = max(each(row, interim_seconds or SPARSE_SECONDS) for row in spent)
        return max((working + listening) / self._cores, by_the_clock)

    def room(self, live: int) -> int:
        """Tell how many live sessions would fit beside ``live`` ones, at least 0. One fits where there is none."""
        cost = self.cost()
        if live and self._clock() - self._lane.late_at < LATE_SECONDS:
            return 0
        return max(0, (max(1, int(USABLE / cost)) if cost > 0 else UNKNOWN) - live)

    def _totals(self) -> npt.NDArray[np.float64]:
        """Give rows of the seconds for finals and for interims: the lane's of a processor, its own and each place's;
        then one of the seconds beside the lane and the audio fed, and one of the seconds of speech and the interims."""
        return np.array(
            [
                *((busy[Priority.FINAL] + busy[Priority.EARLY], busy[Priority.INTERIM]) for busy in self._busy),
                (self._around, self._fed),
                (self._audio, self._interims),
            ]
        )

    def _update(self) -> None:
        """Add what was done since the last call."""
        now, totals = self._clock(), self._totals()
        passed = now - self._at
        if passed <= 0:
            return
        new = totals - self._seen
        # Work and what it was for fade alike, so that their quotient stays.
        forgets = self._recent[-1, 0] >= LEAST_AUDIO_SECONDS
        self._recent = self._recent * (0.5 ** (passed / HALF_LIFE_SECONDS) if forgets else 1.0) + new
        self._seen, self._at = totals, now
