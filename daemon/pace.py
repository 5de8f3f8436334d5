"""How much audio clients have to play, and who goes first when the machine cannot keep up with all of them.

The estimate comes from what was sent and the time since. A voice whose client has plenty waits while another's has next
to nothing: else whoever began first would run ever further ahead, and the others would stutter.
"""

import time
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

STARVING_SECONDS: Final = 0.5
"""Whoever has less to play goes first."""
PLENTY_SECONDS: Final = 2.0
"""Whoever has more can wait."""


class Pace:
    """One client. Assumes that it plays what it gets at once and without a pause, and waits where it has nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.ends_at = 0.0
        """Time by the clock at which the client has played everything."""
        self.making = False
        """Whether audio is being made for it now."""

    @property
    def buffered(self) -> float:
        """Seconds of audio sent and not yet played."""
        return max(0.0, self.ends_at - self._clock())

    def sent(self, seconds: float) -> None:
        """Audio of that length goes out."""
        self.ends_at = max(self.ends_at, self._clock()) + seconds

    def clear(self) -> None:
        """The client forgets what it has."""
        self.ends_at = 0.0


class Crowd:
    """All clients of a daemon; who is gone is forgotten."""

    def __init__(self) -> None:
        self._paces: WeakSet[Pace] = WeakSet()

    def join(self, pace: Pace) -> None:
        """Count ``pace`` in."""
        self._paces.add(pace)

    def comes_before(self, pace: Pace) -> bool:
        """Whether ``pace`` has plenty while audio is being made for somebody who has next to nothing."""
        return pace.buffered > PLENTY_SECONDS and any(
            other.making and other.buffered < STARVING_SECONDS for other in self._paces if other is not pace
        )
