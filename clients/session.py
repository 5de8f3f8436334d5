"""One WebSocket session with a daemon, asynchronous (:class:`AsyncSession`) or blocking (:class:`Session`).

What they open, how they read and how they fail is the same for every protocol of the daemon; the clients of a protocol
(``clients.stream``, ``clients.speech``) add its verbs.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.sync.client import ClientConnection as SyncConnection
from websockets.sync.client import connect as connect_sync

from clients.events import Fault, ListenError
from clients.handshake import Lost, is_normal, loss, refusal, settings

E = TypeVar("E")

_FAILURES = (OSError, InvalidHandshake, InvalidURI, EOFError)
"""How a handshake fails."""


class _Opening(Generic[E]):
    """The set-up of a session, and what the daemon said about its end."""

    def __init__(self, address: str, parse: Callable[[str | bytes], E | None], key: str | None, timeout: float) -> None:
        """
        Args:
            address: of the session, with its query (``clients.handshake.session_url``).
            parse: reads one message; None for one of a type that this version does not know.
            key: of the daemon, where it asks for one.
            timeout: seconds to wait for the handshake.
        """
        self._address, self._parse, self._key, self._timeout = address, parse, key, timeout
        self._fault = ""

    def _read(self, message: str | bytes) -> E | None:
        event = self._parse(message)
        if isinstance(event, Fault):
            self._fault = event.message
        return event

    def _loss(self, error: ConnectionClosed) -> Lost:
        return loss(error, self._fault)


class AsyncSession(_Opening[E]):
    """Use it with ``async with``; iterate it for events until the daemon closes it."""

    _connection: AsyncConnection | None = None

    async def connect(self) -> Self:
        """Open the session.

        Raises:
            Refused: no daemon there, or it said no.
        """
        try:
            self._connection = await connect_async(
                self._address, open_timeout=self._timeout, **settings(self._address, self._key)
            )
        except _FAILURES as error:
            raise refusal(self._address, error) from error
        return self

    async def events(self) -> AsyncIterator[E]:
        """Every event until the daemon closes the session.

        Raises:
            Lost: it was not closed in the normal way.
            ProtocolError: an unreadable message.
        """
        connection = self._open()
        while True:
            try:
                message = await connection.recv()
            except ConnectionClosed as error:
                if is_normal(error):
                    return
                raise self._loss(error) from error
            event = self._read(message)
            if event is not None:
                yield event

    def __aiter__(self) -> AsyncIterator[E]:
        return self.events()

    async def close(self) -> None:
        """End the session at once, whatever is unfinished. Idempotent."""
        if self._connection is not None:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _open(self) -> AsyncConnection:
        if self._connection is None:
            raise ListenError("the session is not connected: use `async with` or `await session.connect()`")
        return self._connection

    async def _send(self, message: str | bytes) -> None:
        try:
            await self._open().send(message)
        except ConnectionClosed as error:
            raise self._loss(error) from error


class Session(_Opening[E]):
    """The same, blocking. Send from one thread, iterate in another."""

    _connection: SyncConnection | None = None

    def __init__(self, address: str, parse: Callable[[str | bytes], E | None], key: str | None, timeout: float) -> None:
        super().__init__(address, parse, key, timeout)
        self._stack = ExitStack()

    def connect(self) -> Self:
        """Open the session.

        Raises:
            Refused: no daemon there, or it said no.
        """
        try:
            # websockets wants its `with`; a stack is that for connect() and close().
            opening = cast(
                AbstractContextManager[SyncConnection],
                connect_sync(
                    self._address, open_timeout=self._timeout, **settings(self._address, self._key, blocking=True)
                ),
            )
            self._connection = self._stack.enter_context(opening)
        except _FAILURES as error:
            raise refusal(self._address, error) from error
        return self

    def events(self) -> Iterator[E]:
        """Every event until the daemon closes the session.

        Raises:
            Lost: it was not closed in the normal way.
            ProtocolError: an unreadable message.
        """
        connection = self._open()
        while True:
            try:
                message = connection.recv()
            except ConnectionClosed as error:
                if is_normal(error):
                    return
                raise self._loss(error) from error
            event = self._read(message)
            if event is not None:
                yield event

    def __iter__(self) -> Iterator[E]:
        return self.events()

    def close(self) -> None:
        """End the session at once, whatever is unfinished. Idempotent."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> SyncConnection:
        if self._connection is None:
            raise ListenError("the session is not connected: use `with` or `session.connect()`")
        return self._connection

    def _send(self, message: str | bytes) -> None:
        try:
            self._open().send(message)
        except ConnectionClosed as error:
            raise self._loss(error) from error


def control(kind: str, **fields: object) -> str:
    """A control message: a JSON object with a ``type``."""
    return json.dumps({"type": kind, **fields}, ensure_ascii=False)
