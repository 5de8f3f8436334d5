"""TLS: the certificate, and connections that are counted before their handshake.

asyncio tells a server's protocol of a TLS connection once the handshake is over, so those that never shake hands could
take every open file of the process. Here a connection is taken as plain TCP, counted, and given a few seconds.
"""

import asyncio
import contextlib
import ssl
from typing import Any, Final

from daemon.config import ConfigError, Settings
from daemon.connection import HttpConnection

HANDSHAKE_SECONDS: Final = 10.0
"""For a connection to shake hands."""


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """What the daemon shakes hands with; None where it speaks no TLS.

    Raises:
        ConfigError: a file of ``tls_certificate`` and ``tls_key`` cannot be used; the message names it.
    """
    if not settings.tls_certificate:
        return None
    for name in ("tls_certificate", "tls_key"):
        try:
            with open(getattr(settings, name), "rb") as file:
                content = file.read()
        except OSError as error:
            raise ConfigError(f"{name}: {getattr(settings, name)} cannot be read: {error.strerror}") from None
        if name == "tls_key" and b"ENCRYPTED" in content:
            raise ConfigError(f"{name}: {settings.tls_key} is encrypted; the daemon asks nobody for a password")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, "")
    except (ssl.SSLError, ValueError) as error:
        files = f"{settings.tls_certificate} and {settings.tls_key}"
        reason = getattr(error, "reason", None) or "no PEM"
        raise ConfigError(f"tls_certificate, tls_key: {files} are no certificate and its key ({reason})") from None
    return context


class TlsConnection(asyncio.Protocol):
    """A connection until its handshake is over; then ``into`` has it. One too many ends before it costs anything."""

    into: type[HttpConnection]
    context: ssl.SSLContext
    shaking: set["TlsConnection"]

    def __init__(self, **arguments: Any) -> None:
        """``arguments``: of ``into``, as uvicorn gives them."""
        self._arguments = arguments
        self._early = b""
        """What came right behind the handshake."""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count, then shake hands."""
        assert isinstance(transport, asyncio.Transport)
        if len(self.shaking) + len(self._arguments["server_state"].connections) >= self.into.most:
            transport.abort()
            return
        self.shaking.add(self)
        self._task = asyncio.get_running_loop().create_task(self._shake(transport))

    def data_received(self, data: bytes) -> None:
        """The handshake is over, and its task not back yet."""
        self._early += data

    async def _shake(self, transport: asyncio.Transport) -> None:
        secured: asyncio.Transport | None = None
        try:
            with contextlib.suppress(OSError):  # a broken handshake, a late one, a connection that is lost
                secured = await asyncio.get_running_loop().start_tls(
                    transport, self, self.context, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
                )
        finally:
            self.shaking.discard(self)
        if secured is None or secured.is_closing():  # lost: start_tls then returns as if nothing were the matter
            transport.abort()
            return
        connection = self.into(**self._arguments)
        secured.set_protocol(connection)
        connection.connection_made(secured)
        if self._early:
            connection.data_received(self._early)


def tls_connection(connection: type[HttpConnection], context: ssl.SSLContext) -> type[TlsConnection]:
    """The class for connections of a server that speaks TLS; each becomes a ``connection``."""

    class Bound(TlsConnection):
        """See ``TlsConnection``."""

    Bound.into, Bound.context, Bound.shaking = connection, context, set()
    return Bound
