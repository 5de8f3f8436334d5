"""Asynchronous sessions for code that blocks: an event loop in a thread, and calls into it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from .events import ListenError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class LoopThread:
    """An event loop in a thread of its own. :meth:`close` must be called."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hearsay-client", daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. May be called from any other thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an asynchronous iterator, one by one."""

        async def step() -> list[T]:
            async for item in items:
                return [item]
            return []

        while found := self.call(step()):
            yield found[0]

    def close(self) -> None:
        """End the loop and its thread. Idempotent."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Session(Protocol[T_co]):
    """An asynchronous session that :class:`Blocking` wraps."""

    def connect(self) -> Coroutine[Any, Any, object]:
        """Open the session."""
        ...

    def events(self) -> AsyncIterator[T_co]:
        """Every event until the end."""
        ...

    def close(self) -> Coroutine[Any, Any, None]:
        """End the session. May be called again."""
        ...


class Blocking(Generic[T]):
    """A session, blocking: use it with ``with``; iterate it for events. Send from one thread, iterate in another, or
    send everything first."""

    def __init__(self, session: Session[T]) -> None:
        self._session = session
        self._loop: LoopThread | None = None

    def connect(self) -> Self:
        """Open the session.

        Raises:
            Refused: no daemon there, or it said no.
        """
        self._loop = LoopThread()
        try:
            self._loop.call(self._session.connect())
        except BaseException:
            self._loop.close()
            raise
        return self

    def events(self) -> Iterator[T]:
        """Every event until the end. Raises what the asynchronous session raises."""
        return self._open().iterate(self._session.events())

    def __iter__(self) -> Iterator[T]:
        return self.events()

    def close(self) -> None:
        """End the session at once, whatever is unfinished. May be called again."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call(self._session.close())
            loop.close()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> LoopThread:
        if self._loop is None:
            name = type(self).__name__.lower()
            raise ListenError(f"the {name} is not connected: use `with` or `{name}.connect()`")
        return self._loop
