"""The client of ``/v1/listen``: audio in, events out, asynchronous (:class:`AsyncStream`) or not (:class:`Stream`).

::

    async with AsyncStream("http://127.0.0.1:8750", StreamOptions(sample_rate=16000)) as stream:
        await stream.send(pcm)          # bytes in the declared encoding, any amount
        await stream.close_stream()     # no more audio: the rest is transcribed, then the daemon closes
        async for event in stream:
            ...

One coroutine (or thread) may send while another iterates; that is how live audio is done.

A session that is lost is opened again, at whichever daemon answers, and gets the audio after the last final once more:
one clock, one text, however many sessions it takes. Nothing said meanwhile is lost, nothing final is said twice.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from .blocking import Blocking
from .events import Event, ListenError, Metadata, Results, parse, shift
from .handshake import Lost, Refused, listen_url
from .options import BYTES_PER_SAMPLE, StreamOptions
from .resume import Backoff, Disconnected, Reconnected
from .session import AsyncSession, control
from .tape import PIECE_BYTES, Tape

StreamEvent = Event | Disconnected | Reconnected

KEEP_SECONDS = 120.0
"""Seconds of audio that a reconnection can bring back: an open segment (at most 24 s), and the audio sent before a
connection that had gone dead was found to be (at most 80 s)."""
ATTEMPTS = 12
"""Attempts in a row that may fail: with the waits between them they take about a minute."""
_STEADY_SECONDS = 60.0
"""A session that lived so many seconds counts as a success, after which attempts are counted anew."""
_MOST_EVENTS = 1024
"""Events that may wait for their reader. Beyond, interims are left out."""
_LOOK_SECONDS = 0.1
"""Seconds after which a sender looks again whether time alone has made room."""


class AsyncStream:
    """A stream of audio that is heard. Use it with ``async with``; iterate it for events until the daemon has heard
    everything."""

    def __init__(
        self,
        url: str,
        options: StreamOptions | None = None,
        *,
        key: str | None = None,
        timeout: float = 10.0,
        attempts: int = ATTEMPTS,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        """
        Args:
            url: the daemon's address (``http`` or ``ws``).
            key: of the daemon, where it asks for one.
            timeout: seconds to wait for a handshake.
            attempts: how often in a row a session may fail before its error is raised; 0: a lost session is an error.
                The first must open.
            keep_seconds: audio kept for the next session, and most of it sent ahead of what is heard: less than the
                daemon's ``max_unheard_seconds``.
        """
        self.options = options or StreamOptions()
        frame = BYTES_PER_SAMPLE[self.options.encoding] * self.options.channels
        self._address, self._key, self._timeout = listen_url(url, self.options), key, timeout
        self._tape = Tape(self.options.bytes_per_second, frame, keep_seconds)
        self._backoff = Backoff(attempts)
        self._session: AsyncSession[Event] | None = None
        self._news = asyncio.Condition()
        """The tape has changed, or the stream has ended."""
        self._events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        self._running: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._ended = False

    async def connect(self) -> Self:
        """Open the first session.

        Raises:
            Refused: no daemon there, or it said no.
        """
        session = await self._opened()
        self._running = asyncio.create_task(self._run(session))
        return self

    async def send(self, audio: bytes) -> None:
        """Send audio, of any length; waits while as much as may be kept waits to be heard.

        Raises:
            Lost: the stream is over (iterating says why, too).
        """
        for start in range(0, max(len(audio), 1), PIECE_BYTES):
            async with self._news:
                self._check()
                while self._tape.full(time.monotonic()):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await self._news.wait()
                    self._check()
                self._tape.record(audio[start : start + PIECE_BYTES], time.monotonic())
                self._news.notify_all()

    async def finalize(self) -> None:
        """Ask for the final text of all that was sent so far; the answer has ``from_finalize``."""
        await self._tell(self._tape.finalize)

    async def keep_alive(self) -> None:
        """Keep a session without audio open."""
        self._check()
        if self._session is not None:
            with suppress(Lost):  # The session is lost. The next one does not know that it was quiet.
                await self._session.send_message(control("KeepAlive"))

    async def close_stream(self) -> None:
        """Say that no more audio comes: the daemon sends what is left and closes."""
        await self._tell(self._tape.end)

    async def events(self) -> AsyncIterator[StreamEvent]:
        """Every event until the end; where several iterate, each gets some of them.

        Raises:
            Lost, Refused: the daemon said no, or the attempts are used up.
            ProtocolError: an unreadable message.
        """
        if self._running is None:
            raise _unconnected()
        while not (self._ended and self._events.empty()):
            event = await self._events.get()
            if event is not None:
                yield event
        self._events.put_nowait(None)  # Another iterator may be waiting.
        if self._error is not None:
            raise self._error

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self.events()

    async def close(self) -> None:
        """End the stream at once, whatever is unfinished. May be called again."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -------------------------------------------------------------------------------------------- the sessions

    def _check(self) -> None:
        if self._running is None:
            raise _unconnected()
        if self._ended:
            raise self._error if isinstance(self._error, Lost) else Lost(1000, "the stream is over")

    async def _tell(self, change: Callable[[], None]) -> None:
        async with self._news:
            self._check()
            change()
            self._news.notify_all()

    async def _opened(self) -> AsyncSession[Event]:
        return await AsyncSession[Event](self._address, parse, self._key, self._timeout).connect()

    async def _run(self, session: AsyncSession[Event] | None) -> None:
        """Run one session after another, until all is heard or another one makes no sense."""
        missed = 0.0
        try:
            while True:
                try:
                    if session is None:
                        session = await self._opened()
                        self._events.put_nowait(Reconnected(self._tape.seconds, missed))
                        missed = 0.0
                    await self._hear(session)
                    return
                except (Lost, Refused) as error:
                    missed += self._tape.rewind()
                    failures, wait = self._backoff.failures, self._backoff.wait(error)
                    if self._backoff.failures > failures:
                        self._events.put_nowait(Disconnected(str(error), self._backoff.failures, wait))
                session = None
                await asyncio.sleep(wait)
        except Exception as error:  # Whoever iterates gets the error.
            self._error = error
        finally:
            async with self._news:
                self._ended = True
                self._news.notify_all()
            self._events.put_nowait(None)

    async def _hear(self, session: AsyncSession[Event]) -> None:
        """Run one session until everything is heard.

        Raises:
            Lost: it ended before.
        """
        begin, began = self._tape.begin, time.monotonic()
        self._session = session
        sending = asyncio.create_task(self._play(session))
        try:
            async for event in session:
                await self._heard(shift(event, begin))
                if time.monotonic() - began > _STEADY_SECONDS:
                    self._backoff.failures = 0
        finally:
            self._session = None
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await session.close()
        if not self._tape.over:
            raise Lost(1000, "the daemon ended the session")

    async def _heard(self, event: Event) -> None:
        match event:
            case Results(is_final=True):
                async with self._news:
                    self._tape.release(event.start + event.duration, time.monotonic())
                    if event.from_finalize:
                        self._tape.answered()
                    self._news.notify_all()
                self._backoff.failures = 0
            case Results() if self._events.qsize() >= _MOST_EVENTS:
                return  # Another session replaces this one.
            case Metadata() if not self._tape.over:
                return  # This session's daemon ends it; the last session tells of the whole stream.
            case _:
                pass
        self._events.put_nowait(event)

    async def _play(self, session: AsyncSession[Event]) -> None:
        """Send what the tape holds, and what it gets."""
        with suppress(Lost):  # The session is lost; the task that reads tells why.
            while True:
                async with self._news:
                    while (piece := self._tape.take(time.monotonic())) is None:
                        await self._news.wait()
                    self._news.notify_all()
                await session.send_message(piece if isinstance(piece, bytes) else control(piece))


async def listen(
    url: str,
    audio: AsyncIterator[bytes],
    options: StreamOptions | None = None,
    *,
    key: str | None = None,
    attempts: int = ATTEMPTS,
) -> AsyncGenerator[StreamEvent]:
    """Send ``audio`` as it comes and yield what is heard, as an :class:`AsyncStream` does; the errors of ``audio`` are
    raised here, once what came before is heard."""
    async with AsyncStream(url, options, key=key, attempts=attempts) as stream:
        feeding = asyncio.create_task(_feed(stream, audio))
        try:
            async for event in stream:
                yield event
        except BaseException:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            raise
        await feeding


async def _feed(stream: AsyncStream, audio: AsyncIterator[bytes]) -> None:
    try:
        async for piece in audio:
            await stream.send(piece)
    finally:
        with suppress(Lost):
            await stream.close_stream()


class Stream(Blocking[StreamEvent]):
    """A stream for code that blocks, with the verbs of :class:`AsyncStream`."""

    def __init__(
        self,
        url: str,
        options: StreamOptions | None = None,
        *,
        key: str | None = None,
        timeout: float = 10.0,
        attempts: int = ATTEMPTS,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        """As :class:`AsyncStream`."""
        self._stream = AsyncStream(url, options, key=key, timeout=timeout, attempts=attempts, keep_seconds=keep_seconds)
        self.options = self._stream.options
        super().__init__(self._stream)

    def send(self, audio: bytes) -> None:
        """Send audio, of any length; waits while as much as may be kept waits to be heard.

        Raises:
            Lost: the stream is over.
        """
        self._open().call(self._stream.send(audio))

    def finalize(self) -> None:
        """Ask for the final text of all that was sent so far; the answer has ``from_finalize``."""
        self._open().call(self._stream.finalize())

    def keep_alive(self) -> None:
        """Keep a session without audio open."""
        self._open().call(self._stream.keep_alive())

    def close_stream(self) -> None:
        """Say that no more audio comes: the daemon sends what is left and closes."""
        self._open().call(self._stream.close_stream())


def _unconnected() -> ListenError:
    return ListenError("the stream is not connected: use `async with` or `await stream.connect()`")
