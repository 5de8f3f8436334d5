"""A session of a model together with its at most one call in flight, in a worker thread, never on the event loop."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

from codec.speaker import Speaker
from streaming.listener import Listener

T = TypeVar("T")


class Closable(Protocol):
    """What a model hands out: a call of it that runs elsewhere ends once it is closed."""

    def close(self) -> None: ...


class Calls:
    """The calls of one session: one at a time, each in a worker thread. :meth:`close` is a must."""

    def __init__(self, pool: ThreadPoolExecutor, session: Closable) -> None:
        self.since: float | None = None
        """``time.monotonic()`` at which the call in flight began."""
        self._pool, self._session = pool, session
        self._running: asyncio.Future[Any] | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """``call()`` in a worker thread. Cancelling the waiter leaves the call running until :meth:`close` ends it."""
        assert self._running is None or self._running.done(), "a call of this session is in flight"
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        self._running, self.since = future, time.monotonic()
        future.add_done_callback(self._rested)
        return await asyncio.shield(future)

    def _rested(self, _: object) -> None:
        self.since = None

    async def close(self) -> None:
        """Give up what is in flight, wait until its thread is free, release the sequence. Never raises."""
        loop = asyncio.get_running_loop()
        closing = loop.run_in_executor(self._pool, self._session.close)
        calls: list[asyncio.Future[Any]] = [closing] if self._running is None else [closing, self._running]
        # Shielded: whoever cancels the closer must not leave the sequence behind.
        ended = asyncio.gather(*calls, return_exceptions=True)
        await asyncio.shield(ended)


class Hearing(Calls):
    """A listener and its calls."""

    def __init__(self, pool: ThreadPoolExecutor, listener: Listener) -> None:
        super().__init__(pool, listener)
        self.listener: Final = listener


class Speaking(Calls):
    """A speaker and its calls."""

    def __init__(self, pool: ThreadPoolExecutor, speaker: Speaker) -> None:
        super().__init__(pool, speaker)
        self.speaker: Final = speaker


S = TypeVar("S", bound=Closable)


async def opened(pool: ThreadPoolExecutor, make: Callable[[], S]) -> S:
    """``make()`` in a worker thread; closed again if the waiter is cancelled meanwhile."""
    opening: Future[S] = pool.submit(make)
    try:
        return await asyncio.shield(asyncio.wrap_future(opening))
    except asyncio.CancelledError:
        # The client left while its session was being made: nobody else will close it.
        opening.add_done_callback(_close_unused)
        raise


def _close_unused(opening: "Future[Any]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
