"""Wyoming's server: a TCP port of its own, its connections counted, and gone with the daemon."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final, cast

from wyoming.error import Error

from daemon.hub import Hub
from daemon.wyoming import wire
from daemon.wyoming.connection import Connection

Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Event], None]

_LOOK_SECONDS: Final = 0.05

log: Final = logging.getLogger("hearsay.wyoming")


class Wyoming:
    """Takes connections on ``sock``, reached at ``address``, from :meth:`start` to :meth:`stop`."""

    def __init__(self, hub: Hub, sock: socket.socket, address: str) -> None:
        self._hub, self._sock = hub, sock
        self.address: Final = address
        self.open: Final = set[asyncio.Transport]()
        """Connections, also those that are over but whose client does not read the rest."""
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """From now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Protocol(self._accept, self.open), sock=self._sock)

    async def stop(self, seconds: float) -> None:
        """No more; connections end, and their clients have ``seconds`` to read what is on its way to them."""
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
        most = self._hub.settings.wyoming_connections
        if len(self.open) > most:
            writer.write(wire.encoded(Error(f"all {most} connections are taken", "connections").event()))
            writer.close()
            return
        task = asyncio.create_task(Connection(self._hub, reader, writer, gone).run())
        self._serving.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._serving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("wyoming: a connection failed", exc_info=error)


class _Protocol(asyncio.StreamReaderProtocol):
    """Streams that are in ``connections`` while they are open, and tell at once that the client has hung up, also while
    nobody reads."""

    def __init__(self, accept: Accept, connections: set[asyncio.Transport]) -> None:
        self._hung_up, self._connections = asyncio.Event(), connections
        reader = asyncio.StreamReader(limit=wire.LINE_BYTES)
        super().__init__(reader, lambda reader, writer: accept(reader, writer, self._hung_up))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counted, then served."""
        self._socket = cast(asyncio.Transport, transport)
        self._connections.add(self._socket)
        super().connection_made(transport)

    def eof_received(self) -> bool:
        """Who sends nothing more wants nothing more."""
        super().eof_received()
        self._hung_up.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Reset, or closed by us."""
        self._connections.discard(self._socket)
        self._hung_up.set()
        super().connection_lost(exc)
