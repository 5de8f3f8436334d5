"""Live audio through a connection that may break: one clock, one text, however many connections it takes.

The audio since the last final is kept (at most ``MAX_TAPE`` seconds). When the daemon restarts or the network fails, a
new session gets that audio again, and its events are moved to the clock of the first: nothing said meanwhile is lost,
nothing final is said twice.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from clients.events import Event, Results, shift
from clients.handshake import Lost, Refused
from clients.options import StreamOptions
from clients.stream import AsyncStream

MAX_TAPE = 60.0
"""Seconds of audio that a reconnection can bring back: an open segment (at most 24 s) and a while without daemon."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""Seconds before the first and between later attempts; doubled from one to the other."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The session broke; another attempt follows in ``wait`` seconds."""

    reason: str
    attempt: int
    wait: float


@dataclass(frozen=True, slots=True)
class Reconnected:
    """A new session goes on where the last final ended. ``missed``: seconds of audio that no session will hear."""

    resent: float
    missed: float


async def listen(
    url: str,
    audio: AsyncIterator[bytes],
    options: StreamOptions | None = None,
    *,
    key: str | None = None,
    attempts: int = 12,
) -> AsyncGenerator[Event | Disconnected | Reconnected]:
    """Send ``audio`` as it comes and yield what the daemon says, over as many sessions as it takes.

    Args:
        audio: pieces of whole frames in the declared encoding. Its errors are raised here.
        attempts: how often in a row a connection may fail before its error is raised. The first one may not fail.

    Raises:
        Refused, Lost: the daemon said no, or the attempts are used up.
        ProtocolError: an unreadable message.
    """
    options = options or StreamOptions()
    tape = _Tape(options.bytes_per_second)
    pump = asyncio.create_task(_record(audio, tape))
    failures = 0
    started = False
    try:
        while True:
            try:
                async with AsyncStream(url, options, key=key) as stream:
                    missed = tape.rewind()
                    base = tape.start
                    if started:
                        yield Reconnected(tape.seconds, missed)
                    started = True
                    sender = asyncio.create_task(_play(tape, stream))
                    try:
                        async for event in stream:
                            failures = 0
                            moved = shift(event, base)
                            if isinstance(moved, Results) and moved.is_final:
                                tape.release(moved.start + moved.duration)
                            yield moved
                    finally:
                        tape.stop()
                        sender.cancel()
                        (outcome,) = await asyncio.gather(sender, return_exceptions=True)
                if isinstance(outcome, Lost):
                    raise outcome
                if tape.ended:
                    await pump
                    return
                raise Lost(1000, "the daemon ended the session")
            except (Lost, Refused) as error:
                failures += 1
                normal_end = isinstance(error, Lost) and error.code == 1000
                if not started or failures > attempts or not (error.may_retry or normal_end):
                    raise
                wait = min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT)
                yield Disconnected(str(error), failures, wait)
                await asyncio.sleep(wait)
    finally:
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)  # its error, if any, was raised above


class _Tape:
    """The newest audio: from the end of the last final, at most ``MAX_TAPE`` seconds. Positions count bytes."""

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._pieces: deque[bytes] = deque()
        self._begin = 0
        self._end = 0
        self._cursor = 0
        self._playing = False
        self._missed = 0
        self._news = asyncio.Condition()
        self.ended = False

    @property
    def start(self) -> float:
        """Where the tape begins, in seconds since the first sample of all."""
        return self._begin / self._rate

    @property
    def seconds(self) -> float:
        """How much it holds."""
        return (self._end - self._begin) / self._rate

    async def append(self, piece: bytes) -> None:
        """Add what was recorded; the oldest goes when it is more than the tape can hold."""
        async with self._news:
            self._pieces.append(piece)
            self._end += len(piece)
            while self._end - self._begin > MAX_TAPE * self._rate:
                dropped = len(self._pieces.popleft())
                self._begin += dropped
                # What a live session was sent and made no final of is silence; without a session it is lost.
                self._missed += 0 if self._playing else dropped
            self._news.notify_all()

    async def end(self) -> None:
        """Nothing more will be recorded."""
        async with self._news:
            self.ended = True
            self._news.notify_all()

    def rewind(self) -> float:
        """Play from the start; returns the seconds that were lost while nothing played."""
        self._cursor, self._playing = self._begin, True
        missed, self._missed = self._missed / self._rate, 0
        return missed

    def stop(self) -> None:
        """Nothing plays until the next ``rewind``."""
        self._playing = False

    def release(self, until: float) -> None:
        """Forget what was played and lies before ``until`` seconds, in whole pieces."""
        position = min(round(until * self._rate), self._cursor)
        while self._pieces and self._begin + len(self._pieces[0]) <= position:
            self._begin += len(self._pieces.popleft())

    async def play(self) -> bytes | None:
        """The piece after the last one played, as soon as there is one; None after the last of all.

        Raises:
            Lost: it was dropped before it was played: the connection is slower than the audio.
        """
        async with self._news:
            while self._cursor >= self._end and not self.ended:
                await self._news.wait()
            if self._cursor < self._begin:
                raise Lost(1006, f"the connection is slower than the audio: {MAX_TAPE:g} s wait to be sent")
            position = self._begin
            for piece in self._pieces:
                if position == self._cursor:
                    self._cursor += len(piece)
                    return piece
                position += len(piece)
            return None


async def _record(audio: AsyncIterator[bytes], tape: _Tape) -> None:
    try:
        async for piece in audio:
            if piece:
                await tape.append(piece)
    finally:
        await tape.end()


async def _play(tape: _Tape, stream: AsyncStream) -> None:
    """Send what the tape holds and gets, then CloseStream."""
    try:
        while (piece := await tape.play()) is not None:
            await stream.send(piece)
        await stream.close_stream()
    except Lost:
        await stream.close()  # ends the iteration over its events too
        raise
