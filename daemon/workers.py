"""A session of a model together with its calls in flight, in worker threads, never on the event loop."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Generic, Protocol, TypeVar

from engines.lane import Lane, Steps, Task
from engines.scheduling import Priority

T = TypeVar("T")


class Closable(Protocol):
    """What a model hands out: a call of it that runs elsewhere ends once it is closed."""

    def close(self) -> None: ...


S = TypeVar("S", bound=Closable)


class SessionWorker(Generic[S]):
    """One session of a model and its calls, in worker threads, never on the event loop. :meth:`close` is a must."""

    def __init__(self, pool: ThreadPoolExecutor, session: S, moved: Callable[[], None] = lambda: None) -> None:
        """``moved`` is called on the event loop whenever a call has come back, or the session has got on otherwise."""
        self.session: Final = session
        self.since: float | None = None
        """``time.monotonic()`` at which the call to the model in flight began."""
        self._pool, self.moved = pool, moved
        self._calls: set[asyncio.Future[Any]] = set()

    async def run(self, call: Callable[[], T]) -> T:
        """``call()`` of the model, one at a time. Cancelling the waiter leaves it running; :meth:`close` ends it."""
        assert self.since is None, "a call of this session is in flight"
        future = self._called(call)
        self.since = time.monotonic()
        future.add_done_callback(self._rested)
        return await asyncio.shield(future)

    async def done(self, lane: Lane, steps: Steps[T], priority: Priority) -> T:
        """What ``steps`` returns, which ``lane`` runs. Cancelling the waiter gives them up at their next call;
        :meth:`close` waits for that."""
        task = Task(steps, priority)
        lane.start(task)
        future = asyncio.wrap_future(task.future)
        self._calls.add(future)
        future.add_done_callback(self._back)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            task.withdrawn = True
            lane.wake()
            raise

    async def beside(self, call: Callable[[], T]) -> T:
        """``call()``, also while one of :meth:`run` goes on; it must not wait for a model."""
        return await asyncio.shield(self._called(call))

    def _called(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        self._calls.add(future)
        future.add_done_callback(self._back)
        return future

    def _back(self, future: "asyncio.Future[Any]") -> None:
        self._calls.discard(future)
        self.moved()

    def _rested(self, _: object) -> None:
        self.since = None

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
