"""One WebSocket from accept to close: what all of them share.

Four tasks: one always reads and never waits for a model, one works, one writes, one watches the clocks. The
reader waits for the client alone, where that sends more than it takes of what answers it. Whatever ends a stream in
good order goes the same way: the work winds up, an Error where there was one is written after what it still had to say,
then comes the close code. A client that leaves or does not read ends it at once. Work that hangs while the
daemon goes is cut; the Error then says what is lost.
What it is still to be told waits in an outbox: bounded in bytes, interims coalesced, finals never.
"""

import asyncio
import logging
import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, get_args

import msgspec
from starlette.types import Message, Receive, Scope, Send

from audio.pcm import FormatError
from daemon.hub import Hub
from daemon.messages import Error, decoded, encode
from daemon.refusal import Refused
from engines.sessions import OptionError

_CLOSE_SECONDS: Final = 5.0
"""How long a close frame may wait for a client that does not read."""

_BACKLOG_BYTES: Final = 1 << 16
"""Sound that may wait before the speaker is held back: more than its largest group needs to be made."""

_MOST_TOLD: Final = 500
"""Characters of the reason that is given for a message which is not understood."""

_TURN_SECONDS: Final = 0.0005
"""Seconds for which one stream's messages are taken before other streams have their turn."""
_SHARE: Final = 0.1
"""The share of the event loop's time that a stream has without waiting for its turn. Audio at the pace of speech takes
a hundredth."""

log: Final = logging.getLogger("hearsay.stream")


class _Kind(Enum):
    TEXT = "text"
    INTERIM = "interim"
    SOUND = "sound"
    SPOKEN = "spoken"
    """The mark of sound within a text message."""


_SOUNDS: Final = (_Kind.SOUND, _Kind.SPOKEN)


class _Waiting(NamedTuple):
    """A message that waits to be sent. ``counts`` is the number of its bytes that the outbox's bound counts."""

    message: bytes
    kind: _Kind
    counts: int


class Outbox:
    """A queue of messages with one reader. ``put`` never waits."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._messages: deque[_Waiting] = deque()
        self._wake, self._taken = asyncio.Event(), asyncio.Event()
        self._closed = False
        self.size = self._counted = 0
        """The bytes that wait, and those of them that the bound counts."""
        self.coalesced = 0
        """The number of interims that a newer message replaced."""
        self.overflow = asyncio.Event()
        """Set for good when the bound is reached. Messages are lost from then on, so the stream must end."""

    def put(self, message: bytes, *, revises: bool = False, revisable: bool = False, owed: bool = False) -> None:
        """Add a message.

        Args:
            message: JSON text in UTF-8.
            revises: it supersedes the waiting interim just before it, if there is one.
            revisable: it is an interim itself.
            owed: it tells once more, and whole, what was told bit by bit. Such messages come together and may be larger
                than the bound, also for a client that reads all the while, so the bound does not count them. Whoever
                puts them waits for :meth:`room` before there can be more of them.
        """
        if revises and self._messages and self._messages[-1].kind is _Kind.INTERIM:
            self._forget(self._messages.pop())
            self.coalesced += 1
        self._add(message, _Kind.INTERIM if revisable else _Kind.TEXT, owed=owed)

    def put_sound(self, data: bytes, *, text: bool = False) -> None:
        """Add a message of sound: a binary one, or JSON text that holds sound."""
        self._add(data, _Kind.SPOKEN if text else _Kind.SOUND)

    def _add(self, message: bytes, kind: _Kind, *, owed: bool = False) -> None:
        counts = 0 if owed else len(message)
        # The message that is sent next does not count: it may be as large as the bound, or larger than a very low
        # bound.
        if counts and self._messages and self._counted - self._messages[0].counts + counts > self._limit:
            self.overflow.set()
            return
        self._messages.append(_Waiting(message, kind, counts))
        self.size += len(message)
        self._counted += counts
        self._wake.set()

    def _forget(self, entry: _Waiting) -> None:
        self.size -= len(entry.message)
        self._counted -= entry.counts

    def forget_sound(self) -> None:
        """Take back the messages of sound that wait; the others keep their order."""
        for entry in self._messages:
            if entry.kind in _SOUNDS:
                self._forget(entry)
        self._messages = deque(entry for entry in self._messages if entry.kind not in _SOUNDS)
        self._taken.set()

    async def room(self, size: int, beside: int = _BACKLOG_BYTES) -> None:
        """Wait until ``size`` bytes may be put: for a writer that has much to say and must not cause an overflow.

        Args:
            beside: bytes that may wait before them, where they are no sound.
        """
        while self.size > min(beside, max(0, self._limit - size)):
            self._taken.clear()
            await self._taken.wait()

    async def emptied(self) -> None:
        """Wait until every message is taken."""
        while self._messages:
            self._taken.clear()
            await self._taken.wait()

    def close(self) -> None:
        """Say that nothing more will be put."""
        self._closed = True
        self._wake.set()

    async def get(self) -> str | bytes | None:
        """The next message, as soon as there is one; None once the outbox is closed and empty."""
        while not self._messages:
            if self._closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        entry = self._messages.popleft()
        self._forget(entry)
        self._taken.set()
        return entry.message if entry.kind is _Kind.SOUND else entry.message.decode()


class Ending(NamedTuple):
    """The way a stream ends: the close code, and what an Error says before it where that code is not a good one."""

    code: int
    variant: str = ""
    reason: str = ""


_SLOW: Final = Ending(1013, reason="the client does not read (max_outbound_bytes, send_timeout_seconds)")


class Duplex(ABC):
    """A WebSocket. Subclasses say what its messages mean, and do the work."""

    def __init__(self, hub: Hub, receive: Receive, send: Send) -> None:
        self._hub, self._settings, self._metrics = hub, hub.settings, hub.metrics
        self._receive, self._send = receive, send
        self._outbox = Outbox(self._settings.max_outbound_bytes)
        self._id = str(uuid.uuid4())
        self._alive_at = time.monotonic()
        self._ending: Ending | None = None
        """Set once the stream is to end in good order."""
        self._held = AsyncExitStack()
        """What is given back when the connection is over."""
        self._is_open = not self._opens_late
        self._settled = asyncio.Event()
        """The stream is open, or never will be."""
        if self._is_open:
            self._settled.set()

    # ---------------------------------------------------------------------------------- what a protocol fills in

    _commands: ClassVar["msgspec.json.Decoder[Any]"]
    """The decoder of text messages."""
    _nothing_came = "no audio and no KeepAlive"
    """What has not come from a stream that was idle for too long."""
    _opens_late: ClassVar[bool] = False
    """Whether the client's first messages say how it is to be served: :meth:`_open` takes them."""

    async def _open(self, message: Message) -> bool:
        """Open what the stream works with, as ``message`` asks; returns whether it is open. The message is then taken
        as any other is. What is opened goes into ``_held``. Streams that set ``_opens_late`` define this.

        Raises:
            Refused, OptionError, FormatError, msgspec.MsgspecError, UnicodeDecodeError: it cannot be served so.
        """
        raise NotImplementedError  # The others are open from the start, so nobody calls this.

    @abstractmethod
    def _take_bytes(self, data: bytes) -> None:
        """Take a binary message."""

    @abstractmethod
    async def _follow(self, command: Any) -> None:
        """Take a text message that :attr:`_commands` understands. The next message is read when this is done."""

    @abstractmethod
    def _misunderstood(self, reason: str, text: str) -> None:
        """Take a text message that is not understood. The stream goes on, but such a message does not keep it from
        being idle."""

    @abstractmethod
    async def _work(self) -> None:
        """Say all there is to say until the stream's end."""

    @abstractmethod
    def _wind_up(self, ending: Ending) -> None:
        """Let :meth:`_work` come to its end."""

    def _unfinished(self) -> str:
        """What has arrived and is not worked off, in words for people."""
        return "what was not answered"

    def _say_error(self, ending: Ending) -> None:
        """Tell the client why the stream ends, where the reason is not good."""
        self._say(Error(ending.variant, ending.reason))

    def _last_words(self) -> None:
        """Send the messages that come last, after an Error."""

    @property
    def _waiting(self) -> float:
        """The seconds of audio that wait to be heard."""
        return 0.0

    @property
    def _last_sign(self) -> float:
        """The ``time.monotonic()`` since which the stream has been idle."""
        return self._alive_at

    # --------------------------------------------------------------------------------------------------- the course

    async def run(self, subprotocol: str | None) -> None:
        """Serve the connection until it is closed."""
        await self._receive()  # The first message is websocket.connect.
        headers = [(b"dg-request-id", self._id.encode())]
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers})
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write())
        overflow = asyncio.create_task(self._outbox.overflow.wait())
        # These two never return; they end the stream only by breaking.
        working, watching = asyncio.create_task(self._work_to_the_end()), asyncio.create_task(self._watch())
        tasks = (reading, writing, overflow, working, watching)
        code = 1011
        try:
            with self._metrics.watch(lambda: self._waiting, lambda: self._outbox.size):
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            writing.cancel()  # Nothing may follow the close.
            if reading in done:
                code = reading.result()
            elif writing in done:
                code = await self._close(writing.result())
            elif overflow in done:
                code = await self._close(_SLOW)
            for task in (working, watching):
                if task in done:
                    task.result()
        except Exception:
            log.exception("stream %s", self._id)
            await self._close(Ending(1011, reason="a fault of the daemon"))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Whoever sees that the slot is free finds the stream counted. A client may close with any code above 3000,
            # and not each of them is to become a time series.
            self._metrics.closes.labels(str(code) if code < 3000 else "other").inc()
            self._metrics.coalesced.inc(self._outbox.coalesced)
            await self._held.aclose()

    async def _read(self) -> int:
        """Take everything that the client sends; returns the close code with which it left."""
        used, at = 0.0, time.monotonic()
        while True:
            now = time.monotonic()
            used, at = used + now - at, now
            if used > _TURN_SECONDS:
                await self._hub.floor.turn()
                used, at = 0.0, time.monotonic()
            try:
                message = await self._receive()
            # A server in front of the daemon that breaks raises an error instead of saying that the client left.
            except Exception:
                log.info("stream %s: receive failed", self._id, exc_info=True)
                return 1006
            now = time.monotonic()
            used, at = max(0.0, used - _SHARE * (now - at)), now
            if message["type"] == "websocket.disconnect":
                return int(message.get("code") or 1005)
            if not self._settled.is_set():
                await self._open_by(message)
            if not self._is_open:
                continue
            if (data := message.get("bytes")) is not None:
                self._take_bytes(data)
            else:
                await self._take_text(message["text"])

    async def _open_by(self, message: Message) -> None:
        try:
            self._is_open = await self._open(message) and self._ending is None
        except Refused as refused:
            self._end(Ending(1008, refused.code, refused.message))
        except OptionError as error:
            self._end(Ending(1008, error.field, str(error)))
        except (FormatError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._end(Ending(1008, "invalid_message", str(error)[:_MOST_TOLD]))
        if self._is_open:
            self._settled.set()

    async def _take_text(self, text: str) -> None:
        try:
            command = decoded(text, self._commands)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            known = ", ".join(kind.__struct_config__.tag for kind in get_args(self._commands.type))
            told = str(error)[:_MOST_TOLD]  # The reason may repeat the message, which may be long.
            self._misunderstood(f"text message not understood: {told}; known are {known}", text)
            return
        self._alive_at = time.monotonic()
        await self._follow(command)

    def _end(self, ending: Ending) -> None:
        """Wind the work up, then close. The first cause decides how."""
        if self._ending is None:
            self._ending = ending
            if self._is_open:
                self._wind_up(ending)
            self._settled.set()

    async def _work_to_the_end(self) -> None:
        """Do the work to its end; the writer sends the rest."""
        await self._settled.wait()
        try:
            if self._is_open:
                await self._work_unless_cut()
        except Exception as error:
            log.exception("stream %s: the work failed", self._id)
            self._ending = Ending(1011, "Fault", f"the work failed: {type(error).__name__}")
        if self._ending is not None and self._ending.variant:
            self._say_error(self._ending)
        self._last_words()
        self._outbox.close()
        await asyncio.Event().wait()

    async def _work_unless_cut(self) -> None:
        if not await done_unless_cut(self._hub, self._work()):
            lost = self._unfinished()
            log.error("stream %s: cut, lost: %s", self._id, lost)
            self._ending = Ending(1012, "Cut", f"the daemon is shutting down; lost: {lost}")

    def _say(self, message: msgspec.Struct, *, revises: bool = False, revisable: bool = False) -> None:
        self._outbox.put(encode(message), revises=revises, revisable=revisable)

    async def _write(self) -> Ending:
        """Send what is said; returns how to close once all of it is sent."""
        while (message := await self._outbox.get()) is not None:
            kind = "text" if isinstance(message, str) else "bytes"
            try:
                async with self._hub.in_time():
                    await self._send({"type": "websocket.send", kind: message})
            except TimeoutError:
                return _SLOW
            except OSError:  # The client has gone, of which the reader is told as well.
                return Ending(1006)
        assert self._ending is not None
        return self._ending

    async def _close(self, ending: Ending) -> int:
        reason = ending.reason.encode()[:120].decode(errors="ignore")
        close: Message = {"type": "websocket.close", "code": ending.code, "reason": reason}
        if ending.code != 1006:
            try:
                async with self._hub.in_time(_CLOSE_SECONDS):
                    await self._send(close)
            except (TimeoutError, OSError):  # The server drops the connection once this returns.
                pass
        return ending.code

    async def _watch(self) -> None:
        """End the stream when it has been idle or has lasted too long, or when the daemon goes."""
        idle, most = self._settings.idle_seconds, self._settings.max_session_seconds
        over_at = time.monotonic() + most
        while self._ending is None:
            now, idle_at = time.monotonic(), (self._last_sign if self._is_open else self._alive_at) + idle
            if now >= over_at:
                self._end(Ending(1008, "SessionLength", f"the stream is longer than {most:g} s (max_session_seconds)"))
            elif now >= idle_at:
                self._end(Ending(1011, "Idle", f"NET-0001: {self._nothing_came} for {idle:g} s (idle_seconds)"))
            else:
                try:
                    async with asyncio.timeout(min(over_at, idle_at) - now):
                        await self._hub.leave.wait()
                    self._end(Ending(1012, reason="the daemon is shutting down"))
                except TimeoutError:
                    pass
        await asyncio.Event().wait()


async def done_unless_cut(hub: Hub, work: Coroutine[Any, Any, None]) -> bool:
    """Do ``work``; returns False where it hung while the daemon goes, in which case it is cancelled and counted. Raises
    what the work raises."""
    working, cut = asyncio.create_task(work), asyncio.create_task(hub.cut.wait())
    try:
        await asyncio.wait((working, cut), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        hub.lost += 1
        return False
    finally:
        cut.cancel()
        working.cancel()
        await asyncio.gather(working, cut, return_exceptions=True)


def echoed(scope: Scope) -> str | None:
    """The subprotocol to confirm: the public half of a pair that brought a key. Browsers fail without a
    confirmation."""
    public = ("token", "bearer", "realtime")
    return next((name for name in scope.get("subprotocols", []) if name.lower() in public), None)
