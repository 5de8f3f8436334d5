"""How a lost session is tried again: when, how often, and what is told about it."""

import random
from dataclasses import dataclass

from .handshake import Lost, Refused

FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""Seconds before the first and between later attempts, doubled from one to the other; at random down to half of that,
so that the clients of a daemon that restarts do not all come at once."""
LONGEST_RETRY_AFTER = 60.0
"""Seconds of a Retry-After that are waited."""


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
    """The attempts since a session last got on."""

    def __init__(self, attempts: int) -> None:
        """``attempts``: how many in a row may fail."""
        self._most = attempts
        self.failures = 0

    def wait(self, error: Lost | Refused) -> float:
        """Seconds to wait after ``error``.

        Raises:
            Lost, Refused: ``error`` itself, where another attempt makes no sense or was the last.
        """
        self.failures += 1
        # A session that ends although more audio comes: its daemon says goodbye, another may go on.
        ended_early = isinstance(error, Lost) and error.code == 1000
        if self.failures > self._most or not (error.may_retry or ended_early):
            raise error
        wait = min(FIRST_WAIT * 2 ** (self.failures - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0)
        asked = error.retry_after if isinstance(error, Refused) else None
        return wait if asked is None else min(asked, LONGEST_RETRY_AFTER) + wait
