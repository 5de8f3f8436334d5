"""TLS: the certificate, and connections that are counted before their handshake.

asyncio tells a server's protocol of a TLS connection once the handshake is over, so those that never shake hands could
take every open file of the process. Here a connection is taken as plain TCP, counted, and given a few seconds.
"""

import asyncio
import contextlib
import ssl
from typing import Final

from daemon.config import ConfigError, Settings
from daemon.connection import Door
from daemon.http_connection import HttpConnection

HANDSHAKE_SECONDS: Final = 10.0
"""For a connection to shake hands, which takes two round trips; half of what a request's head may take."""


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """The context for handshakes; None where the daemon speaks no TLS.

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
    """A connection until its handshake is over, and then an HTTP connection. One too many is reset at once."""

    def __init__(self, door: Door, context: ssl.SSLContext) -> None:
        self._door, self._context = door, context
        self._early = b""
        """The bytes that came right behind the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, then shake hands."""
        assert isinstance(transport, asyncio.Transport)
        if self._door.full:
            transport.abort()
            return
        self._door.shaking.add(self)
        self._door.start(self._shake(transport))

    def data_received(self, data: bytes) -> None:
        """Keep what comes when the handshake is over, and its task does not know yet."""
        self._early += data

    async def _shake(self, transport: asyncio.Transport) -> None:
        secured: asyncio.Transport | None = None
        try:
            with contextlib.suppress(OSError):  # The handshake may be broken or late, or the connection lost.
                secured = await asyncio.get_running_loop().start_tls(
                    transport, self, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
                )
        finally:
            self._door.shaking.discard(self)
        if secured is None or secured.is_closing():  # start_tls returns normally even if the connection is lost.
            transport.abort()
            return
        connection = HttpConnection(self._door)
        secured.set_protocol(connection)
        connection.connection_made(secured)
        if self._early:
            connection.data_received(self._early)
