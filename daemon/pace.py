"""How much audio a client has to play: an estimate, from what was sent and the time since."""

import time
from collections.abc import Callable


class Pace:
    """Assumes that a client plays what it gets at once and without a pause, and waits where it has nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.ends_at = 0.0
        """Time by the clock at which the client has played everything."""

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
