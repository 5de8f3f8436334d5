"""What HTTP connections and WebSockets share: the server they belong to, and how they read and write.

The protocols themselves are h11's and websockets', which do no input or output of their own.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Scope

from daemon.config import Settings

log: Final = logging.getLogger("hearsay.connection")


@dataclass(eq=False)
class Door:
    """What the connections of a server share."""

    app: ASGIApp
    settings: Settings
    most: int
    """Connections that there may be. One more is reset before it costs anything."""
    connections: set["Connection"] = field(default_factory=set["Connection"])
    shaking: set[asyncio.Protocol] = field(default_factory=set[asyncio.Protocol])
    """Connections whose TLS handshake is not over."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """One for each request that is being answered, and for each WebSocket."""

    @property
    def full(self) -> bool:
        """Whether there are as many connections as there may be."""
        return len(self.connections) + len(self.shaking) >= self.most

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Connection(asyncio.BufferedProtocol, ABC):
    """A TCP connection.

    It reads little at once, also behind TLS. What was read is worked off before other connections have their turn, and
    asyncio's own 256 KiB (64 KiB on Windows) may be 40 000 pings of a WebSocket, or as many chunks of a body.
    """

    read_bytes: int
    transport: asyncio.Transport

    def __init__(self, door: Door) -> None:
        self.door = door
        self.loop = asyncio.get_running_loop()
        self.writable = asyncio.Event()
        """Set while the client reads what it is sent, and once it has gone."""
        self.writable.set()
        self._buffer = memoryview(bytearray(self.read_bytes))
        self._paused = False

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Work off what was read."""

    @abstractmethod
    def shutdown(self) -> None:
        """The server ends: close, in good order where that takes no time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection counts from now on."""
        self.transport = cast(asyncio.Transport, transport)
        self.door.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed. asyncio tells a protocol that waits to write nothing else."""
        self.door.connections.discard(self)
        self.writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a view, because asyncio's TLS takes slices of it."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take ``nbytes`` from the buffer, then let other connections have their turn.

        asyncio's TLS would go on with what it has decrypted, several times in a turn of the loop, unless it is paused.
        """
        self.data_received(bytes(self._buffer[:nbytes]))
        if self.transport.get_extra_info("ssl_object") is not None and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        protocol = self.transport.get_protocol()  # This is ``self``, or the WebSocket it has become.
        if isinstance(protocol, Connection) and not protocol._paused:
            self.transport.resume_reading()

    def pause_reading(self) -> None:
        """Read no more until ``resume_reading``: what came is enough for now."""
        self._paused = True
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._paused:
            self._paused = False
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """The client does not read, and the transport's buffer is full."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """The client reads again."""
        self.writable.set()

    def scope(self, kind: str, path: str, query: str, headers: list[tuple[bytes, bytes]], version: str) -> Scope:
        """An ASGI scope, but for what only requests or only WebSockets have. ``path`` is as it was sent, quoted."""
        scheme = "http" if kind == "http" else "ws"
        secure = self.transport.get_extra_info("ssl_object") is not None
        return {
            "type": kind,
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": version,
            "server": self._address("sockname"),
            "client": self._address("peername"),
            "scheme": scheme + "s" * secure,
            "root_path": "",
            "path": unquote(path),
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "headers": headers,
        }

    def _address(self, which: str) -> tuple[str, int] | None:
        address: tuple[str, int, *tuple[int, ...]] | None = self.transport.get_extra_info(which)
        return address[:2] if address else None


def log_answer(scope: Scope, status: int) -> None:
    """Write the line of a request into the log. A path may hold line ends, which are quoted again."""
    host, port = scope["client"] or ("", 0)
    query = "?" + scope["query_string"].decode("latin-1") if scope["query_string"] else ""
    method = scope.get("method", "WEBSOCKET")
    log.info('%s:%d "%s %s%s" %d', host, port, method, quote(scope["path"]), query, status)
