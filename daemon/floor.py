"""Turns on the event loop."""

import asyncio
from collections import deque


class Floor:
    """Turns of those that keep the event loop busy: in each turn of the loop one of them goes on, however many there
    are. What waits for nothing but its own next callback, as a final does some fifty times, so waits for one of them
    and not for all."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._calling = False

    async def turn(self) -> None:
        """Wait until it is one's turn, at least until everybody else was."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._call()
        await mine

    def _call(self) -> None:
        if self._waiting and not self._calling:
            self._calling = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._calling = False
        while self._waiting:
            one = self._waiting.popleft()
            if not one.done():  # A waiter may have been cancelled.
                one.set_result(None)
                break
        self._call()
