"""uvicorn's connections, with an end for clients that do not read, do not ask, or are too many.

Without an open file to spare a process cannot take a connection, not even to reset it: asyncio then writes thousands of
lines a second into the log, and nobody is answered. So connections are bounded by what the system lets a daemon have.
"""

import asyncio
import contextlib
import logging
import sys
from abc import ABC, abstractmethod
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import State

from daemon.config import Settings

_ABORT_SECONDS: Final = 15.0
"""After a WebSocket's application has ended: time to close in good order."""
_LINGER_SECONDS: Final = 2.0
"""After a WebSocket's frames were found to be broken: time to read why."""
_READ_BYTES: Final = 1 << 12
"""Read from a connection at once."""
_FRAMES_BYTES: Final = 1 << 11
"""The same of a WebSocket, whose frames may be smaller and cost more."""
_AHEAD_BYTES: Final = 1 << 16
"""Of requests behind the one that is answered."""
_REQUEST_SECONDS: Final = 20.0
"""For a request's head to arrive, on a new connection or after the first byte of the next request."""

BACKLOG: Final = 64
"""Connections that the kernel holds for us."""
_UNCOUNTED: Final = 4 * BACKLOG
"""asyncio takes all of those in each turn of its loop, and one too many is closed three turns later."""
_SLOT: Final = 2
"""Of a session beside its connection: an upload or a spoken file on disk, and a voice being read."""
_OTHERS: Final = 64
"""Models, libraries, log, event loop."""

log: Final = logging.getLogger("hearsay.connection")


class _SmallReads(asyncio.BufferedProtocol, ABC):
    """Reads little at once, also behind TLS: all of it is worked off before others have their turn, and asyncio's
    256 KiB are 40 000 pings of a WebSocket, or chunks of a body. Windows' loop reads 64 KiB."""

    read_bytes: int
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    _buffer: memoryview | None = None

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Whether nothing more is to be read for now."""

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Work off what was read."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a view, of which asyncio's TLS takes slices."""
        del sizehint
        if self._buffer is None:
            self._buffer = memoryview(bytearray(self.read_bytes))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many came. asyncio's TLS would go on with what it has decrypted, several times in a turn of the loop."""
        assert self._buffer is not None
        self.data_received(bytes(self._buffer[:nbytes]))
        transport = self.transport
        if transport.get_extra_info("ssl_object") is not None and not transport.is_closing():
            transport.pause_reading()
            self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        protocol = self.transport.get_protocol()  # ``self``, or a WebSocket by now
        if isinstance(protocol, _SmallReads) and not protocol.waits:
            self.transport.resume_reading()


class WebSocketConnection(WebSocketsSansIOProtocol, _SmallReads):
    """A WebSocket."""

    read_bytes = _FRAMES_BYTES
    _pong = b""
    """What answers the latest pings of a client that does not read."""

    _broken = False
    """What comes is no message any more."""

    @property
    def waits(self) -> bool:
        """Whether a message waits to be taken."""
        return self.read_paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """uvicorn's, without a word in the log."""
        super().connection_made(transport)
        self._tells_frames, self.conn.debug = self.conn.debug, False  # it would log the request's head: keys

    def connection_lost(self, exc: Exception | None) -> None:
        """uvicorn's, but who vanishes did not close without a code (1005)."""
        self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006})
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """The client says that it sends no more, and the transport closes: it has left, also where it did not read."""
        self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006})

    def data_received(self, data: bytes) -> None:
        """uvicorn's, which waits for ever after a handshake that cannot be read: answer that and close."""
        if self._broken:
            return
        super().data_received(data)
        error = self.conn.handshake_exc
        if error is not None and not self.handshake_initiated and not self.transport.is_closing():
            answer = b"".join(self.conn.data_to_send())  # 414 and 431 are ready, what has a body is none
            if not answer:
                answer = self.conn.reject(400, f"Failed to open a WebSocket connection: {error}.\n").serialize()
            self.transport.write(answer)
            self.transport.close()

    def handle_connect(self, event: Request) -> None:
        """uvicorn's; from here on the log may say what comes."""
        self.conn.debug = self._tells_frames
        super().handle_connect(event)

    def handle_parser_exception(self) -> None:
        """uvicorn's, for frames that are broken or too large; but who is still sending one would be reset before it has
        read why, so the rest is read too. Before the handshake is answered there is no way to say so."""
        close = self.conn.close_sent
        if close is None:
            self.transport.abort()
            return
        self._broken = self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": close.code, "reason": close.reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.close_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def send_receive_event_to_app(self) -> None:
        """uvicorn's, but text that is no UTF-8 is told to the client, not to the log as a fault with its traceback."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError as error:
                self.frames = []
                if self.conn.state is State.CONNECTING:  # no close frame before the handshake is answered
                    self.transport.abort()
                    return
                self.conn.send_close(1007, f"a text message is not UTF-8: {error.reason}")
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def handle_cont(self, event: Frame) -> None:
        """uvicorn's, with the fragments so far in one piece: each by itself would cost fifty times the byte it holds,
        and those without a byte would never meet a limit of size."""
        *_, whole = self.frames
        if not isinstance(whole, bytearray):
            whole = bytearray(whole)
        whole += event.data
        self.frames = [bytes(whole) if event.fin else cast(bytes, whole)]
        if event.fin:
            self.send_receive_event_to_app()

    def handle_ping(self) -> None:
        """Answer, but let no answers pile up for who does not read: then the latest is enough (RFC 6455, 5.5.3)."""
        answer = b"".join(self.conn.data_to_send())
        if self.writable.is_set() or self.conn.close_rcvd is not None:
            self.transport.write(answer)
        elif answer:
            self._pong = answer

    def resume_writing(self) -> None:
        """uvicorn's, with the answer that was held back."""
        super().resume_writing()
        answer, self._pong = self._pong, b""
        if answer and not self._broken and not self.transport.is_closing():
            self.transport.write(answer)

    async def run_asgi(self) -> None:
        """Closing a transport waits until its buffer is written, for ever if the peer does not read: abort it then."""
        await super().run_asgi()
        self.loop.call_later(_ABORT_SECONDS, self.transport.abort)

    def keepalive_timeout(self) -> None:
        """uvicorn's, which tells the application only when the transport has closed: never, where nobody reads."""
        super().keepalive_timeout()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": 1011})

    async def send(self, message: Any) -> None:
        """A refusal completes the handshake; uvicorn would report it as forgotten. What is said to a connection that
        closes is dropped here: the application is about to be told, and asyncio would write a line of log for each."""
        if self._broken or (message["type"] == "websocket.send" and self.transport.is_closing()):
            return
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True


class HttpConnection(H11Protocol, _SmallReads):
    """An HTTP/1.1 connection. It does not count towards ``most`` while it is a WebSocket, but is counted among all."""

    most: int
    read_bytes = _READ_BYTES
    _timer: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether a body, or the next request, waits to be taken."""
        return self.flow.read_paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """One too many is reset before it costs anything."""
        transport = cast(asyncio.Transport, transport)
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._expect_request()

    def data_received(self, data: bytes) -> None:
        """uvicorn's, then see whether a request is under way. What comes behind it waits; but uvicorn would read no
        more, and so never see that the client leaves."""
        super().data_received(data)
        if self.conn.their_state is not h11.SEND_BODY and len(self.conn.trailing_data[0]) < _AHEAD_BYTES:
            self.flow.resume_reading()
        self._expect_request()

    def send_400_response(self, msg: str) -> None:
        """uvicorn's, for what is no HTTP. Within a body whose request has its answer, there is no way to say so."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        self._leave()

    def eof_received(self) -> None:
        """The client says that it sends no more, and the transport closes: it has left, also where it did not read."""
        self._leave()

    def _leave(self) -> None:
        """Nothing more comes of the request, and nobody is to be answered."""
        cycle = cast(RequestResponseCycle | None, self.cycle)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """uvicorn's."""
        self._cancel_timer()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        """Give the connection up unless a request's head is complete in time."""
        cycle = cast(RequestResponseCycle | None, self.cycle)  # None before the first request
        asks = cycle is not None and not cycle.response_complete
        if asks or self.transport.get_protocol() is not self:
            self._cancel_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(_REQUEST_SECONDS, self.transport.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def http_connection(most: int) -> type[HttpConnection]:
    """The class for connections of a server that holds ``most`` of all kinds."""

    class Bounded(HttpConnection):
        """See ``HttpConnection``."""

    Bounded.most = most
    return Bounded


def provide_files(settings: Settings) -> None:
    """Raise this process's soft limit of open files to what ``settings`` may need, as far as the hard one allows."""
    if sys.platform == "win32":  # it counts sockets elsewhere
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + _beside(settings)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS has another limit behind an infinite one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections(settings: Settings) -> int:
    """How many connections there can be: ``max_connections``, or fewer, of which the log is told."""
    if sys.platform == "win32":
        return settings.max_connections
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return settings.max_connections
    room = max(8, soft - _beside(settings))
    if room < settings.max_connections:
        log.warning(
            "max_connections: %d instead of %d, open files are limited to %d (ulimit -n)",
            room,
            settings.max_connections,
            soft,
        )
    return min(room, settings.max_connections)


def _beside(settings: Settings) -> int:
    return _UNCOUNTED + _SLOT * (settings.sessions + settings.speakers) + _OTHERS + settings.wyoming_connections
