"""How fast text arrives, and whether a piece may begin before all of its text is there.

A talker with the streaming layout reads a token a frame and may not be fed padding before the text's end, so each word
that is there makes some .2 s of sound. Text that comes faster than that is spoken from its first word on. Slower text
(somebody types, a small language model thinks) would run the player dry in the middle of a phrase: there a piece
begins when its text is all there, and the pauses fall between pieces, where a reader makes them too.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

ENOUGH: Final = 45.0
"""Characters a second of text that is spoken as it comes. A talker reads 12.5 tokens a second, some 30 characters; the
rest is for text that comes unevenly."""
WINDOW_SECONDS: Final = 1.5
"""The stretch of time over which the rate is measured: two or three words of somebody who types."""
IDLE_SECONDS: Final = 0.7
"""When no text has come for so long, what is there is spoken all the same: nobody knows whether more will come. People
who type pause less within a phrase."""
_DELTAS: Final = 256
"""How many deltas are remembered: more than come within the window, so that memory is bounded."""


class Arrival:
    """It knows when the text of one session came. Not thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: seconds."""
        self._clock = clock
        self._deltas: deque[tuple[float, int]] = deque(maxlen=_DELTAS)
        """When each delta came, and how many characters it had."""

    def came(self, characters: int) -> None:
        """Note that so many characters have arrived just now."""
        self._deltas.append((self._clock(), characters))

    def begins_anew(self) -> None:
        """Forget the rate: what comes next belongs to another text, as after a flush or a clear."""
        self._deltas.clear()

    @property
    def slow(self) -> bool:
        """Whether a piece should wait for all of its text."""
        if self.idle_in <= 0:
            return False
        now = self._clock()
        recent = [(at, count) for at, count in self._deltas if now - at <= WINDOW_SECONDS]
        if len(recent) < 2:
            return True
        # The first delta came before the time that is measured began.
        return sum(count for _, count in recent[1:]) < ENOUGH * (now - recent[0][0])

    @property
    def idle_in(self) -> float:
        """Seconds until the text counts as idle; 0 or less where it does, or none has come."""
        return self._deltas[-1][0] + IDLE_SECONDS - self._clock() if self._deltas else 0.0
