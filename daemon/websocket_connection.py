"""A WebSocket: websockets' protocol reads and writes its frames, an ASGI application has its messages."""

import asyncio
import email.utils
import secrets
from enum import Enum, auto
from http import HTTPStatus
from typing import Final

from starlette.types import Message, Scope
from websockets.datastructures import Headers
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from daemon.connection import Connection, Door, log, log_answer

_FRAMES_BYTES: Final = 1 << 11
"""How many bytes are read at once: fewer than of HTTP, because the smallest frame has 6 bytes and costs more than a
chunk."""
_CLOSE_SECONDS: Final = 10.0
"""How many seconds the client has for its close frame after ours: as many as websockets' own server waits."""
_ABORT_SECONDS: Final = 15.0
"""How many seconds there are to close in good order after the application has ended: a little more than the closing
handshake has."""
_LINGER_SECONDS: Final = 2.0
"""How many seconds a client that sent a broken frame, and may still be sending, has to read why the connection ends."""


class _Gone(OSError):
    """The client has gone: what an ASGI server raises where the application sends something nevertheless."""


class _Stage(Enum):
    """How far a WebSocket is."""

    ASKED = auto()
    """Its handshake is not answered."""
    OPEN = auto()
    CLOSING = auto()
    """We have closed; the client's close is awaited."""
    OVER = auto()
    """The connection was refused, has broken frames or answers no ping. What comes and what is sent is dropped."""
    LOST = auto()
    """The connection is closed."""


class WebSocketConnection(Connection):
    """A WebSocket."""

    read_bytes = _FRAMES_BYTES

    def __init__(self, door: Door) -> None:
        super().__init__(door)
        self._protocol = ServerProtocol(max_size=door.settings.max_frame_bytes, logger=log)
        # At the level of debug it would log the request's head, where keys stand; frames are logged from then on.
        self._tells_frames, self._protocol.debug = self._protocol.debug, False
        self._stage = _Stage.ASKED
        self._messages = asyncio.Queue[Message]()
        """What the application is to receive. Reading pauses while a message waits."""
        self._scope: Scope | None = None
        """The handshake's, once it has come."""
        self._acceptance: Response | None = None
        """What accepts the handshake."""
        self._refusal: tuple[int, Headers, bytearray] | None = None
        """What refuses it: status, headers, body so far."""
        self._message: bytes | bytearray = b""
        """What has come of the message that is under way."""
        self._is_text = False
        self._pong = b""
        """The answer to the latest ping of a client that does not read."""
        self._ping: bytes | None = None
        """What our ping said, until it is answered."""
        self._ping_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------------------------------- the connection

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or was sent away. Who vanishes did not close without a code (1005)."""
        super().connection_lost(exc)
        self._disconnect(1006)
        self._stage = _Stage.LOST
        for timer in (self._ping_timer, self._close_timer):
            if timer is not None:
                timer.cancel()

    def eof_received(self) -> None:
        """The client sends no more, and the transport closes: it has left, also where it did not read."""
        self._disconnect(1006)

    def resume_writing(self) -> None:
        """The client reads again: it gets the answer to its latest ping."""
        super().resume_writing()
        pong, self._pong = self._pong, b""
        if not self._over and not self.transport.is_closing():
            self.transport.write(pong)

    def shutdown(self) -> None:
        """Close with 1012, which asks clients to come again."""
        if self._stage is _Stage.OPEN and self._protocol.state is State.OPEN:
            self._close(1012, "")
        self.transport.close()

    @property
    def _over(self) -> bool:
        return self._stage is _Stage.OVER

    def _flush(self) -> None:
        """Send what the protocol has to say."""
        self.transport.write(b"".join(self._protocol.data_to_send()))

    def _disconnect(self, code: int, reason: str = "") -> None:
        """Tell the application that nothing more comes."""
        self._messages.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})

    # ---------------------------------------------------------------------------------------------- what comes

    def data_received(self, data: bytes) -> None:
        """Take what came. Behind frames that are broken nothing can be understood, so nothing is answered."""
        if self._over:
            return
        self._protocol.receive_data(data)
        if self._protocol.parser_exc is not None:
            self._break_off()
            return
        for event in self._protocol.events_received():
            if self._over:
                return
            if isinstance(event, Request):
                self._ask(event)
            elif isinstance(event, Frame):
                self._take(event)
        if self._scope is None and self._protocol.handshake_exc is not None and self._stage is _Stage.ASKED:
            # A head that is too long has its answer by now; one that is no head of a WebSocket has none.
            answer = b"".join(self._protocol.data_to_send())
            if not answer:
                error = self._protocol.handshake_exc
                answer = self._protocol.reject(400, f"Failed to open a WebSocket connection: {error}.\n").serialize()
            self._refuse_with(answer)

    def _ask(self, request: Request) -> None:
        """Have the handshake answered by the application, unless it is none."""
        self._protocol.debug = self._tells_frames
        response = self._protocol.accept(request)
        if response.status_code != 101:
            self._refuse_with(response.serialize())
            return
        path, _, query = request.path.partition("?")
        headers = [
            (name.lower().encode("ascii"), value.encode("latin-1")) for name, value in request.headers.raw_items()
        ]
        scope = self.scope("websocket", path, query, headers, "1.1")
        offered = ",".join(request.headers.get_all("Sec-WebSocket-Protocol"))
        scope["subprotocols"] = [name.strip() for name in offered.split(",") if name.strip()]
        scope["extensions"] = {"websocket.http.response": {}}
        self._scope, self._acceptance = scope, response
        self._messages.put_nowait({"type": "websocket.connect"})
        self.door.start(self._run(scope))

    def _take(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PING:
            self.answer_ping()
        elif frame.opcode is Opcode.PONG:
            if bytes(frame.data) == self._ping:
                self._ping = None
                self._ping_after(self.door.settings.ping_interval_seconds)
        elif frame.opcode is Opcode.CLOSE:
            self._take_close()
        else:
            if frame.opcode is Opcode.CONT:
                # The fragments so far are one piece: each by itself would cost fifty times the byte that it holds, and
                # those without a byte would never meet a limit of size.
                if not isinstance(self._message, bytearray):
                    self._message = bytearray(self._message)
                self._message += frame.data
            else:
                self._message, self._is_text = bytes(frame.data), frame.opcode is Opcode.TEXT
            if frame.fin:
                self._take_message()

    def _take_message(self) -> None:
        data, self._message = bytes(self._message), b""
        if self._stage is _Stage.CLOSING:  # The application takes no more, but the client's close is read.
            return
        message: Message = {"type": "websocket.receive", "bytes": data}
        if self._is_text:
            try:
                message = {"type": "websocket.receive", "text": data.decode()}
            except UnicodeDecodeError as error:
                if self._protocol.state is State.CLOSING:  # The client's close came in the same packet and is next.
                    return
                if self._protocol.state is State.OPEN:  # There is no close frame before the handshake's answer.
                    self._protocol.send_close(1007, f"a text message is not UTF-8: {error.reason}")
                self._break_off()
                return
        self._messages.put_nowait(message)
        self.pause_reading()

    def _take_close(self) -> None:
        """The client closes, or answers our close."""
        if self._stage is not _Stage.CLOSING and not self.transport.is_closing():
            close = self._protocol.close_rcvd
            assert close is not None
            self._disconnect(close.code, close.reason)
            self._flush()
        self.transport.close()

    def _break_off(self) -> None:
        """End after frames that are broken or too large. A client that is still sending would be reset before it has
        read why, so what it sends is read for a while. Before the handshake is answered there is no way to say why."""
        self._stage = _Stage.OVER
        close = self._protocol.close_sent
        if close is None:
            self.transport.abort()
            return
        self._disconnect(close.code, close.reason)
        self.resume_reading()
        self._flush()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._close_within(_LINGER_SECONDS)

    # --------------------------------------------------------------------------------------------------- pings

    def answer_ping(self) -> None:
        """Answer, but let no answers pile up for a client that does not read: then the latest one is enough (RFC 6455,
        5.5.3)."""
        answer = b"".join(self._protocol.data_to_send())
        if self.writable.is_set() or self._protocol.close_rcvd is not None:
            self.transport.write(answer)
        elif answer:
            self._pong = answer

    def _ping_after(self, seconds: float) -> None:
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        self._ping_timer = self.loop.call_later(seconds, self._send_ping)

    def _send_ping(self) -> None:
        if self._stage is _Stage.OPEN and not self.transport.is_closing():
            self._ping = secrets.token_bytes(4)
            self._protocol.send_ping(self._ping)
            self._flush()
            self._ping_timer = self.loop.call_later(self.door.settings.ping_timeout_seconds, self._miss_pong)

    def _miss_pong(self) -> None:
        """End. The application is told now: where nobody reads, the transport never closes of its own accord."""
        if self._stage is _Stage.OPEN and not self.transport.is_closing():
            self._stage = _Stage.OVER
            self._protocol.fail(1011, "keepalive ping timeout")
            self._flush()
            self._disconnect(1011)
            self.transport.close()

    # ----------------------------------------------------------------------------------------- the application

    async def _run(self, scope: Scope) -> None:
        """Run the application. Closing a transport waits until its buffer is written, for ever if the client does not
        read: then it is aborted."""
        try:
            await self.door.app(scope, self._receive, self._send)
        except _Gone:
            pass
        except Exception:
            log.exception("a WebSocket failed")
        if self._stage is _Stage.ASKED and not self.transport.is_closing():
            self._refuse(500, Headers(), b"A fault of the daemon.\n")
        if self._close_timer is None:
            self.transport.close()
        self.loop.call_later(_ABORT_SECONDS, self.transport.abort)

    async def _receive(self) -> Message:
        message = await self._messages.get()
        if self._messages.empty():
            self.resume_reading()
        return message

    async def _send(self, message: Message) -> None:
        """What is said to a connection that closes is dropped: the application is about to be told, and asyncio would
        write a line of log for each."""
        await self.writable.wait()
        if self._stage is _Stage.LOST:
            raise _Gone
        if self._over or self.transport.is_closing():
            return
        if self._stage is _Stage.ASKED:
            self._answer(message)
        elif self._stage is _Stage.CLOSING:
            raise RuntimeError(f"{message['type']} after websocket.close")
        elif message["type"] == "websocket.close":
            code, reason = message.get("code", 1000), message.get("reason") or ""
            self._disconnect(code, reason)
            self._close(code, reason)
        elif message.get("bytes") is not None:
            self._protocol.send_binary(message["bytes"])
            self._flush()
        else:
            self._protocol.send_text(message["text"].encode())
            self._flush()

    def _answer(self, message: Message) -> None:
        """Accept or refuse the handshake."""
        headers: list[tuple[bytes, bytes]] = list(message.get("headers", []))
        if message["type"] == "websocket.accept":
            assert self._acceptance is not None
            if message.get("subprotocol"):
                headers.append((b"sec-websocket-protocol", message["subprotocol"].encode()))
            for name, value in headers:
                self._acceptance.headers[name.decode("latin-1")] = value.decode("latin-1")
            self._stage = _Stage.OPEN
            self._protocol.send_response(self._acceptance)
            self._flush()
            self._ping_after(self.door.settings.ping_interval_seconds)
            self._log(101)
        elif message["type"] == "websocket.http.response.start":
            decoded = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])
            self._refusal = (message["status"], decoded, bytearray())
        elif message["type"] == "websocket.http.response.body" and self._refusal is not None:
            self._refusal[2].extend(message.get("body", b""))
            if not message.get("more_body", False):
                status, decoded, body = self._refusal
                self._refuse(status, decoded, bytes(body))
        else:
            self._refuse(403, Headers(), b"")

    def _refuse(self, status: int, headers: Headers, body: bytes) -> None:
        headers.setdefault("Date", email.utils.formatdate(usegmt=True))
        headers.setdefault("Connection", "close")
        headers.setdefault("Content-Length", str(len(body)))
        headers.setdefault("Content-Type", "text/plain; charset=utf-8")
        self._log(status)
        self._disconnect(1006)
        self._refuse_with(Response(status, HTTPStatus(status).phrase, headers, body).serialize())

    def _refuse_with(self, answer: bytes) -> None:
        self._stage = _Stage.OVER
        self.transport.write(answer)
        self.transport.close()

    def _close(self, code: int, reason: str) -> None:
        """Send our close frame, and read on for the client's."""
        self._protocol.send_close(code, reason)
        self._flush()
        self._stage = _Stage.CLOSING
        self.resume_reading()
        self._close_within(_CLOSE_SECONDS)

    def _close_within(self, seconds: float) -> None:
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._close_timer = self.loop.call_later(seconds, self.transport.close)

    def _log(self, status: int) -> None:
        if self._scope is not None:
            log_answer(self._scope, status)
