"""How a lost session is tried again: when, how often, and what is told about it."""

import random
import time
from dataclasses import dataclass

from .handshake import Lost, Refused

FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""How many seconds are waited before the first attempt, and at most before later ones; each wait is twice the last. Up
to half of it is left out at random, so that the clients of a daemon that restarts do not all come at once."""
LONGEST_RETRY_AFTER = 60.0
"""Seconds that are waited at most where a Retry-After asks for more."""
LOOK_SECONDS = 0.3
"""Seconds between attempts to reach a daemon that is away or loads its models. What is said meanwhile is to be heard as
soon as the daemon is ready, and such an attempt costs next to nothing."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The session broke; another attempt follows in ``wait`` seconds."""

    reason: str
    attempt: int
    wait: float


@dataclass(frozen=True, slots=True)
class Reconnected:
    """A new session goes on where the last final ended. ``missed``: seconds of audio that no session will hear."""

    resent: float
    missed: float


class Backoff:
    """The attempts since a session last succeeded.

    A daemon that is full, or that ends sessions, is left alone for longer and longer. One that is away, or that says it
    is not ready, is looked for all the time; what is counted as one failure then is a wait of the same lengths.
    """

    def __init__(self, attempts: int) -> None:
        """Allow so many failed attempts in a row."""
        self._most = attempts
        self._counted_until = 0.0
        self.failures = 0

    def wait(self, error: Lost | Refused) -> float:
        """Seconds to wait after ``error``.

        Raises:
            Lost, Refused: ``error`` itself, where another attempt makes no sense or was the last.
        """
        # The session ended although more audio comes: its daemon says goodbye, and another may go on.
        ended_early = isinstance(error, Lost) and error.code == 1000
        away = isinstance(error, Refused) and error.status in (None, 503)
        now = time.monotonic()
        counted = away and now < self._counted_until
        self.failures += not counted
        if self.failures > self._most or not (error.may_retry or ended_early):
            raise error
        if counted:
            return min(LOOK_SECONDS, self._counted_until - now)
        wait = min(FIRST_WAIT * 2 ** (self.failures - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0)
        if away:
            self._counted_until = now + wait
            return min(LOOK_SECONDS, wait)
        asked = error.retry_after if isinstance(error, Refused) else None
        return wait if asked is None else min(asked, LONGEST_RETRY_AFTER) + wait
