"""The client of ``/v1/listen``: audio in, events out, asynchronous (:class:`AsyncStream`) or not (:class:`Stream`).

::

    async with AsyncStream("http://127.0.0.1:8765", StreamOptions(sample_rate=16000)) as stream:
        await stream.send(pcm)          # bytes in the declared encoding, any amount
        await stream.close_stream()     # no more audio: the rest is transcribed, then the daemon closes
        async for event in stream:
            ...

One coroutine (or thread) may send while another iterates; that is how live audio is done.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Self, cast

from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.sync.client import ClientConnection as SyncConnection
from websockets.sync.client import connect as connect_sync

from clients.events import Event, Fault, ListenError, parse
from clients.handshake import is_normal, listen_url, loss, refusal, settings
from clients.options import StreamOptions


class AsyncStream:
    """One session, asynchronous. Use it with ``async with``; iterate it for events until the daemon closes it."""

    def __init__(
        self, url: str, options: StreamOptions | None = None, *, key: str | None = None, timeout: float = 10.0
    ) -> None:
        """``url``: the daemon's address (``http`` or ``ws``). ``timeout``: seconds to wait for the handshake."""
        self.options = options or StreamOptions()
        self._url = listen_url(url, self.options)
        self._key = key
        self._timeout = timeout
        self._connection: AsyncConnection | None = None
        self._fault = ""

    async def connect(self) -> Self:
        """Open the session.

        Raises:
            Refused: no daemon there, or it said no.
        """
        try:
            self._connection = await connect_async(
                self._url, open_timeout=self._timeout, **settings(self._url, self._key)
            )
        except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:
            raise refusal(self._url, error) from error
        return self

    async def send(self, audio: bytes) -> None:
        """Send audio; waits while the connection's write buffer is full.

        Raises:
            Lost: the daemon has closed the session (iterating says why, too).
        """
        await self._send(audio)

    async def finalize(self) -> None:
        """Ask for the final text of all that was sent so far; the answer has ``from_finalize``."""
        await self._send(_control("Finalize"))

    async def keep_alive(self) -> None:
        """Keep a session without audio open."""
        await self._send(_control("KeepAlive"))

    async def close_stream(self) -> None:
        """Say that no more audio comes: the daemon sends what is left and closes."""
        await self._send(_control("CloseStream"))

    async def events(self) -> AsyncIterator[Event]:
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
                raise loss(error, self._fault) from error
            event = parse(message)
            if isinstance(event, Fault):
                self._fault = event.message
            if event is not None:
                yield event

    def __aiter__(self) -> AsyncIterator[Event]:
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
            raise ListenError("the stream is not connected: use `async with` or `await stream.connect()`")
        return self._connection

    async def _send(self, message: str | bytes) -> None:
        try:
            await self._open().send(message)
        except ConnectionClosed as error:
            raise loss(error, self._fault) from error


class Stream:
    """One session, blocking: the same verbs as :class:`AsyncStream`. Send from one thread, iterate in another."""

    def __init__(
        self, url: str, options: StreamOptions | None = None, *, key: str | None = None, timeout: float = 10.0
    ) -> None:
        """``url``: the daemon's address (``http`` or ``ws``). ``timeout``: seconds to wait for the handshake."""
        self.options = options or StreamOptions()
        self._url = listen_url(url, self.options)
        self._key = key
        self._timeout = timeout
        self._connection: SyncConnection | None = None
        self._stack = ExitStack()
        self._fault = ""

    def connect(self) -> Self:
        """Open the session.

        Raises:
            Refused: no daemon there, or it said no.
        """
        try:
            # websockets wants its `with`; a stack is that for connect() and close().
            opening = cast(
                AbstractContextManager[SyncConnection],
                connect_sync(self._url, open_timeout=self._timeout, **settings(self._url, self._key, blocking=True)),
            )
            self._connection = self._stack.enter_context(opening)
        except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:
            raise refusal(self._url, error) from error
        return self

    def send(self, audio: bytes) -> None:
        """Send audio.

        Raises:
            Lost: the daemon has closed the session.
        """
        self._send(audio)

    def finalize(self) -> None:
        """Ask for the final text of all that was sent so far; the answer has ``from_finalize``."""
        self._send(_control("Finalize"))

    def keep_alive(self) -> None:
        """Keep a session without audio open."""
        self._send(_control("KeepAlive"))

    def close_stream(self) -> None:
        """Say that no more audio comes: the daemon sends what is left and closes."""
        self._send(_control("CloseStream"))

    def events(self) -> Iterator[Event]:
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
                raise loss(error, self._fault) from error
            event = parse(message)
            if isinstance(event, Fault):
                self._fault = event.message
            if event is not None:
                yield event

    def __iter__(self) -> Iterator[Event]:
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
            raise ListenError("the stream is not connected: use `with` or `stream.connect()`")
        return self._connection

    def _send(self, message: str | bytes) -> None:
        try:
            self._open().send(message)
        except ConnectionClosed as error:
            raise loss(error, self._fault) from error


def _control(kind: str) -> str:
    return json.dumps({"type": kind})
