"""A protocol on a TCP port of its own: its connections are counted, and gone with the daemon."""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, cast

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Event], Coroutine[Any, Any, None]]
"""What serves a connection. The event is set when the client has hung up."""
Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Event], None]

_LOOK_SECONDS: Final = 0.05
"""Seconds between two looks at whether all connections have closed."""

log: Final = logging.getLogger("hearsay.tcp")


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol by its ``name``. ``full`` is what a client is told that finds ``most`` connections there; a line has
    at most ``line_bytes``."""

    name: str
    serve: Serve
    most: int
    full: bytes
    line_bytes: int


class TcpServer:
    """Takes connections on ``sock``, reached at ``address``, from :meth:`start` to :meth:`stop`."""

    def __init__(self, protocol: Protocol, sock: socket.socket, address: str) -> None:
        self._protocol, self._sock = protocol, sock
        self.told: Final = f"{protocol.name} on tcp://{address}"
        """What is spoken where, for people."""
        self.open: Final = set[asyncio.Transport]()
        """All connections, also those that are over but whose client has not read the rest."""
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to take connections."""
        loop, lines = asyncio.get_running_loop(), self._protocol.line_bytes
        self._server = await loop.create_server(lambda: _Connection(self._accept, self.open, lines), sock=self._sock)

    async def stop(self, seconds: float) -> None:
        """Take no more connections and end those that there are; their clients have ``seconds`` to read what is on its
        way to them."""
        if self._server is not None:
            self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for _ in range(int(seconds / _LOOK_SECONDS)):
            if not self.open:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        for transport in self.open:
            transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        if len(self.open) > self._protocol.most:
            writer.write(self._protocol.full)
            writer.close()
            return
        task = asyncio.create_task(self._protocol.serve(reader, writer, gone))
        self._serving.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._serving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: a connection failed", self._protocol.name, exc_info=error)


class _Connection(asyncio.StreamReaderProtocol):
    """A stream that is in ``connections`` while it is open, and that tells at once when the client has hung up, also
    while nobody reads."""

    def __init__(self, accept: Accept, connections: set[asyncio.Transport], line_bytes: int) -> None:
        self._hung_up, self._connections = asyncio.Event(), connections
        reader = asyncio.StreamReader(limit=line_bytes)
        super().__init__(reader, lambda reader, writer: accept(reader, writer, self._hung_up))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, then serve it."""
        self._socket = cast(asyncio.Transport, transport)
        self._connections.add(self._socket)
        super().connection_made(transport)

    def eof_received(self) -> bool:
        """A client that sends no more wants no more."""
        super().eof_received()
        self._hung_up.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was reset, or closed by the daemon."""
        self._connections.discard(self._socket)
        self._hung_up.set()
        super().connection_lost(exc)
