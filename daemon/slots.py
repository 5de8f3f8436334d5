"""Slots for sessions."""

import asyncio
from typing import Final

from daemon.refusal import Refused

PATIENCE_SECONDS: Final = 0.25
"""How long a request waits for a slot."""


class Slots:
    """The slots for sessions of one kind. ``setting`` is the setting that tells how many there are, and ``full`` the
    message if all are taken."""

    def __init__(
        self, capacity: int, setting: str, full: str = "all {0} {1} are taken (the daemon's setting {1})"
    ) -> None:
        self.capacity, self.setting = capacity, setting
        self._full = full.format(capacity, setting)
        self.taken = 0
        """Slots taken now."""
        self._free = asyncio.Semaphore(capacity)

    async def take(self) -> None:
        """
        Raises:
            Refused: 429, all are taken and stay so for a moment: whoever ends one stream and opens the next is faster
                than the clearing up between them.
        """
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise Refused(429, self.setting, self._full, retry_after=5) from None
        self.taken += 1

    def give_back(self) -> None:
        """Once for every :meth:`take`."""
        self.taken -= 1
        self._free.release()
