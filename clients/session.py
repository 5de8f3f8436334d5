"""One WebSocket session with a daemon: how it opens, reads and fails. The clients of a protocol (``stream``,
``speech``) add its verbs.

The same for every protocol of the daemon; the clients of a protocol (``stream``, ``speech``) add its verbs.
"""

import json
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from .events import Fault, ListenError
from .handshake import Lost, is_normal, loss, refusal, settings

E = TypeVar("E")

_FAILURES = (OSError, InvalidHandshake, InvalidURI, EOFError)
"""The exceptions of a handshake that failed."""


class AsyncSession(Generic[E]):
    """A session. Use it with ``async with``; iterate it for events until the daemon closes it."""

    def __init__(self, address: str, parse: Callable[[str | bytes], E | None], key: str | None, timeout: float) -> None:
        """
        Args:
            address: of the session, with its query (``handshake.session_url``).
            parse: reads one message; None for one of a type that this version does not know.
            key: of the daemon, where it asks for one.
            timeout: seconds to wait for the handshake.
        """
        self._address, self._parse, self._key, self._timeout = address, parse, key, timeout
        self._fault = ""
        """What the daemon said about the end of the session."""
        self._connection: AsyncConnection | None = None

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
            event = self._parse(message)
            if isinstance(event, Fault):
                self._fault = event.message
            if event is not None:
                yield event

    def __aiter__(self) -> AsyncIterator[E]:
        return self.events()

    async def close(self) -> None:
        """End the session at once, whatever is unfinished. May be called again."""
        if self._connection is not None:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _loss(self, error: ConnectionClosed) -> Lost:
        return loss(error, self._fault)

    def _open(self) -> AsyncConnection:
        if self._connection is None:
            raise ListenError("the session is not connected: use `async with` or `await session.connect()`")
        return self._connection

    async def send_message(self, message: str | bytes) -> None:
        """Send one message; waits while the connection's write buffer is full.

        Raises:
            Lost: the daemon has closed the session.
        """
        try:
            await self._open().send(message)
        except ConnectionClosed as error:
            raise self._loss(error) from error


def control(kind: str, **fields: object) -> str:
    """A control message: a JSON object with a ``type``."""
    return json.dumps({"type": kind, **fields}, ensure_ascii=False)
