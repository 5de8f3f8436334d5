"""An HTTP/1.1 connection: h11 reads and writes its requests, an ASGI application answers them, one after the other."""

import asyncio
import email.utils
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

import h11
from starlette.types import Message

from daemon.connection import Connection, Door, log, log_answer
from daemon.websocket_connection import WebSocketConnection

_READ_BYTES: Final = 1 << 12
"""Bytes read from a connection at once: a head in one read, and no more than 800 of the smallest chunks of a body."""
_BODY_BYTES: Final = 1 << 16
"""Bytes of a body that wait for the application before reading stops."""
_AHEAD_BYTES: Final = 1 << 16
"""Bytes of requests behind the one that is answered, before reading stops. Until then a client that leaves is seen."""
_REQUEST_SECONDS: Final = 20.0
"""For a request's head to arrive, on a new connection or after the first byte of the next request: long enough for a
telephone with bad reception, short enough that connections held open for nothing do not add up."""
_IDLE_SECONDS: Final = 5.0
"""Between an answer and the next request: what clients with a pool of connections, such as httpx, count on."""


class HttpConnection(Connection):
    """A connection of HTTP/1.1, until its client asks for a WebSocket."""

    read_bytes = _READ_BYTES

    def __init__(self, door: Door) -> None:
        super().__init__(door)
        self.http = h11.Connection(h11.SERVER)
        self._exchange: _Exchange | None = None
        """The latest request and its answer."""
        self._begun = False
        """A part of the next request has come."""
        self._last = False
        """The connection closes after the answer that is under way."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Reset the connection if it is one too many, else wait for a request."""
        full = self.door.full
        super().connection_made(transport)
        if full:
            self.transport.abort()
        else:
            self._expect_request(_REQUEST_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Take what came, and see whether the next request is under way."""
        self.http.receive_data(data)
        if self._idle and not self._begun:
            self._begun = True
            self._expect_request(_REQUEST_SECONDS)
        self._advance()

    def eof_received(self) -> None:
        """The client sends no more, and the transport closes: it has left, also if it did not read its answer."""
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or was sent away."""
        super().connection_lost(exc)
        self._stop_timer()
        self._leave()

    def shutdown(self) -> None:
        """Close, after the answer that is under way."""
        if self._idle:
            self.transport.close()
        else:
            self._last = True

    def write(self, *events: h11.Event) -> None:
        """Send parts of an answer.

        Raises:
            h11.LocalProtocolError: they do not make an answer.
        """
        self.transport.write(b"".join(self.http.send(event) or b"" for event in events))

    def answered(self) -> None:
        """The answer is complete. The next request may be here already, or the end of this one's body may not be."""
        if self._last or self.http.our_state is not h11.DONE:
            self.transport.close()
        elif not self.transport.is_closing():
            self._begun = False
            self._expect_request(_IDLE_SECONDS)
            self.resume_reading()
            if self.http.their_state is h11.DONE:
                self.http.start_next_cycle()
                self._advance()

    @property
    def _idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._exchange is None or self._exchange.complete

    def _advance(self) -> None:
        """Work off what h11 has read."""
        while not self.transport.is_closing():
            try:
                event = self.http.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(error)
                return
            exchange = self._exchange
            if isinstance(event, h11.Request):
                self._stop_timer()
                if _asks_for_websocket(event.headers):
                    self._become_websocket(event)
                    return
                self._exchange = _Exchange(self, event)
                self.door.start(self._exchange.run())
            elif isinstance(event, h11.Data) and exchange is not None and not exchange.complete:
                if exchange.take(event.data) > _BODY_BYTES:
                    self.pause_reading()
            elif isinstance(event, h11.EndOfMessage) and exchange is not None:
                if not exchange.complete:
                    exchange.end_body()
                elif self.http.our_state is h11.DONE:  # The answer was complete before the body had come.
                    self.http.start_next_cycle()
            elif event is h11.PAUSED:
                if len(self.http.trailing_data[0]) >= _AHEAD_BYTES:
                    self.pause_reading()
                return
            elif event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                return

    def _become_websocket(self, request: h11.Request) -> None:
        """Hand the connection over, with the request's head as it would be sent and what came behind it."""
        self.door.connections.discard(self)
        socket = WebSocketConnection(self.door)
        self.transport.set_protocol(socket)
        socket.connection_made(self.transport)
        lines = [b"%b %b HTTP/%b" % (request.method, request.target, request.http_version)]
        lines += [b"%b: %b" % header for header in request.headers]
        socket.data_received(b"\r\n".join([*lines, b"", self.http.trailing_data[0]]))

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Answer what is no HTTP. Within a body whose request has its answer there is no way to do so."""
        log.info("no HTTP: %s", error)
        if self.http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
            status = error.error_status_hint
            response = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode())
            self.write(response, h11.Data(data=f"This is no HTTP request: {error}.\n".encode()), h11.EndOfMessage())
        self.transport.close()
        self._leave()

    def _leave(self) -> None:
        """Tell the application, if it still answers, that nobody takes its answer."""
        if self._exchange is not None:
            self._exchange.leave()

    def _expect_request(self, seconds: float) -> None:
        """Give the connection up unless a request's head is complete in time."""
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Exchange:
    """A request and its answer, as an ASGI application receives and sends them."""

    def __init__(self, connection: HttpConnection, request: h11.Request) -> None:
        path, _, query = request.target.decode("ascii").partition("?")
        version = request.http_version.decode("ascii")
        self._connection = connection
        self._scope = connection.scope("http", path, query, list(request.headers), version)
        self._scope["method"] = request.method.decode("ascii")
        self._continues = connection.http.they_are_waiting_for_100_continue
        """The client sends its body once it is told to."""
        self._body = bytearray()
        self._more_body = True
        self._moved = asyncio.Event()
        """There is something new to receive."""
        self._begun = False
        """The answer has begun."""
        self._gone = False
        """Nobody takes the answer."""
        self.complete = False
        """The answer is complete."""

    def take(self, data: bytes) -> int:
        """Add a part of the body; returns how many bytes of it wait."""
        self._body += data
        self._moved.set()
        return len(self._body)

    def end_body(self) -> None:
        """Note that the body has come whole."""
        self._more_body = False
        self._moved.set()

    def leave(self) -> None:
        """Note that the client has left and nobody takes the answer."""
        self._gone = True
        self._moved.set()

    async def run(self) -> None:
        """Have the request answered. An answer that ends too early is cut off, so that nobody takes it for whole."""
        try:
            await self._connection.door.app(self._scope, self._receive, self._send)
        except Exception:
            log.exception("a request failed")
        if self._gone or self.complete:
            return
        if self._begun:
            self._connection.transport.close()
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
            await self._send({"type": "http.response.start", "status": 500, "headers": headers})
            await self._send({"type": "http.response.body", "body": b"A fault of the daemon.\n"})

    async def _receive(self) -> Message:
        if self._continues and not self._connection.transport.is_closing():
            self._continues = False
            self._connection.write(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
        if not self._gone and not self.complete:
            self._connection.resume_reading()
            await self._moved.wait()
            self._moved.clear()
        if self._gone or self.complete:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self._more_body}

    async def _send(self, message: Message) -> None:
        await self._connection.writable.wait()
        if self._gone:
            return
        if message["type"] == "http.response.start":
            self._begun, self._continues = True, False
            status = message["status"]
            headers = [(b"date", email.utils.formatdate(usegmt=True).encode()), *message.get("headers", [])]
            log_answer(self._scope, status)
            reason = HTTPStatus(status).phrase.encode()
            self._connection.write(h11.Response(status_code=status, headers=headers, reason=reason))
            return
        data = b"" if self._scope["method"] == "HEAD" else message.get("body", b"")
        if message.get("more_body", False):
            self._connection.write(h11.Data(data=data))
        else:
            self._connection.write(h11.Data(data=data), h11.EndOfMessage())
            self.complete = True
            self._moved.set()
            self._connection.answered()


def _asks_for_websocket(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request's headers ask for a WebSocket (RFC 6455, 4.2.1). Other upgrades are ignored, as HTTP has it."""
    upgrade, connection = False, False
    for name, value in headers:
        tokens = [token.strip() for token in value.lower().split(b",")]
        upgrade = upgrade or (name == b"upgrade" and b"websocket" in tokens)
        connection = connection or (name == b"connection" and b"upgrade" in tokens)
    return upgrade and connection
