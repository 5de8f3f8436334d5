"""The client of ``/v1/listen``: audio in, events out, asynchronous (:class:`AsyncStream`) or not (:class:`Stream`).

::

    async with AsyncStream("http://127.0.0.1:8765", StreamOptions(sample_rate=16000)) as stream:
        await stream.send(pcm)          # bytes in the declared encoding, any amount
        await stream.close_stream()     # no more audio: the rest is transcribed, then the daemon closes
        async for event in stream:
            ...

One coroutine (or thread) may send while another iterates; that is how live audio is done.
"""

from clients.events import Event, parse
from clients.handshake import listen_url
from clients.options import StreamOptions
from clients.session import AsyncSession, Session, control


class AsyncStream(AsyncSession[Event]):
    """One session, asynchronous. Use it with ``async with``; iterate it for events until the daemon closes it."""

    def __init__(
        self, url: str, options: StreamOptions | None = None, *, key: str | None = None, timeout: float = 10.0
    ) -> None:
        """``url``: the daemon's address (``http`` or ``ws``). ``timeout``: seconds to wait for the handshake."""
        self.options = options or StreamOptions()
        super().__init__(listen_url(url, self.options), parse, key, timeout)

    async def send(self, audio: bytes) -> None:
        """Send audio; waits while the connection's write buffer is full.

        Raises:
            Lost: the daemon has closed the session (iterating says why, too).
        """
        await self._send(audio)

    async def finalize(self) -> None:
        """Ask for the final text of all that was sent so far; the answer has ``from_finalize``."""
        await self._send(control("Finalize"))

    async def keep_alive(self) -> None:
        """Keep a session without audio open."""
        await self._send(control("KeepAlive"))

    async def close_stream(self) -> None:
        """Say that no more audio comes: the daemon sends what is left and closes."""
        await self._send(control("CloseStream"))


class Stream(Session[Event]):
    """One session, blocking: the same verbs as :class:`AsyncStream`. Send from one thread, iterate in another."""

    def __init__(
        self, url: str, options: StreamOptions | None = None, *, key: str | None = None, timeout: float = 10.0
    ) -> None:
        """``url``: the daemon's address (``http`` or ``ws``). ``timeout``: seconds to wait for the handshake."""
        self.options = options or StreamOptions()
        super().__init__(listen_url(url, self.options), parse, key, timeout)

    def send(self, audio: bytes) -> None:
        """Send audio.

        Raises:
            Lost: the daemon has closed the session.
        """
        self._send(audio)

    def finalize(self) -> None:
        """Ask for the final text of all that was sent so far; the answer has ``from_finalize``."""
        self._send(control("Finalize"))

    def keep_alive(self) -> None:
        """Keep a session without audio open."""
        self._send(control("KeepAlive"))

    def close_stream(self) -> None:
        """Say that no more audio comes: the daemon sends what is left and closes."""
        self._send(control("CloseStream"))
