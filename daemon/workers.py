"""A session of a model together with its work in flight, in a lane or in worker threads, never on the event loop."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Generic, Protocol, TypeVar

from engines.lane import Cancelled, Lane, Task

_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")


class Closable(Protocol):
    """What a model hands out: a call of it that runs elsewhere ends once it is closed."""

    def close(self) -> None: ...


S = TypeVar("S", bound=Closable)


def _left(future: "asyncio.Future[Any]") -> None:
    """Take note of what came of work whose waiter is gone. That it was given up is no error: asyncio would log that
    nobody asked for it."""
    error = None if future.cancelled() else future.exception()
    if error is not None and not isinstance(error, Cancelled):
        _LOG.error("work of a session that is gone failed", exc_info=error)


class SessionWorker(Generic[S]):
    """One session of a model and its work, never on the event loop. :meth:`close` is a must."""

    def __init__(self, pool: ThreadPoolExecutor, session: S, moved: Callable[[], None] = lambda: None) -> None:
        """``moved`` is called on the event loop whenever a call has come back, or the session has got on otherwise."""
        self.session: Final = session
        self._pool, self.moved = pool, moved
        self._calls: set[asyncio.Future[Any]] = set()

    async def done(self, lane: Lane, task: Task[T]) -> T:
        """What comes of ``task``, which ``lane`` runs. Cancelling the waiter gives it up at its next call;
        :meth:`close` waits for that."""
        lane.start(task)
        future = self._noted(asyncio.wrap_future(task.future))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            task.withdrawn = True
            future.add_done_callback(_left)
            lane.wake()
            raise

    async def run(self, call: Callable[[], T]) -> T:
        """``call()``, in a worker thread; it must not wait for a model. Cancelling the waiter leaves it running."""
        return await asyncio.shield(self._noted(asyncio.get_running_loop().run_in_executor(self._pool, call)))

    def _noted(self, future: "asyncio.Future[T]") -> "asyncio.Future[T]":
        self._calls.add(future)
        future.add_done_callback(self._back)
        return future

    def _back(self, future: "asyncio.Future[Any]") -> None:
        self._calls.discard(future)
        self.moved()

    async def close(self) -> None:
        """Give up what is in flight, wait until its threads are free, release the sequence. Never raises."""
        closing = asyncio.get_running_loop().run_in_executor(self._pool, self.session.close)
        # Shielded: whoever cancels the closer must not leave the sequence behind.
        ended = asyncio.gather(closing, *self._calls, return_exceptions=True)
        await asyncio.shield(ended)


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
