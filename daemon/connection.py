"""uvicorn's connections, with an end for clients that do not read, do not ask, or are too many."""

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_ABORT_SECONDS: Final = 15.0
"""After a WebSocket's application has ended: time to close in good order."""
_REQUEST_SECONDS: Final = 20.0
"""For a request's head to arrive, on a new connection or after the first byte of the next request."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket."""

    async def run_asgi(self) -> None:
        """Closing a transport waits until its buffer is written, for ever if the peer does not read: abort it then."""
        await super().run_asgi()
        self.loop.call_later(_ABORT_SECONDS, self.transport.abort)

    async def send(self, message: Any) -> None:
        """A refusal completes the handshake; uvicorn would report it as forgotten."""
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True


class HttpConnection(H11Protocol):
    """An HTTP/1.1 connection. It does not count towards ``most`` while it is a WebSocket, but is counted among all."""

    most: int
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """One too many is reset before it costs anything."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._expect_request()

    def data_received(self, data: bytes) -> None:
        """uvicorn's, then see whether a request is under way."""
        super().data_received(data)
        self._expect_request()

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
