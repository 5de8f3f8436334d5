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
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, get_args

import msgspec
from starlette.types import Message, Receive, Scope, Send

from daemon.hub import Hub
from daemon.messages import Error, decoded, encode

_CLOSE_SECONDS: Final = 5.0
"""How long a close frame may wait for a client that does not read."""

_BACKLOG_BYTES: Final = 1 << 16
"""Sound that may wait before the speaker is held back: more than its largest group needs to be made."""

_TURN_SECONDS: Final = 0.005
"""How long one stream's messages are taken before the others have their turn."""

log: Final = logging.getLogger("hearsay.stream")


class _Kind(Enum):
    TEXT = "text"
    INTERIM = "interim"
    SOUND = "sound"
    SPOKEN = "spoken"
    """Sound within a text message."""


_SOUNDS: Final = (_Kind.SOUND, _Kind.SPOKEN)


class Outbox:
    """A queue of messages with one reader. ``put`` never waits."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._messages: deque[tuple[bytes, _Kind]] = deque()
        self._wake, self._taken = asyncio.Event(), asyncio.Event()
        self._closed = False
        self.size = 0
        """Bytes waiting."""
        self.coalesced = 0
        """Interims that a newer message replaced."""
        self.overflow = asyncio.Event()
        """Set for good when the bound was reached; what was put then is lost, so the stream must end."""

    def put(self, message: bytes, *, revises: bool = False, revisable: bool = False) -> None:
        """Add a message.

        Args:
            message: JSON text in UTF-8.
            revises: it supersedes the waiting interim just before it, if there is one.
            revisable: it is an interim itself.
        """
        if revises and self._messages and self._messages[-1][1] is _Kind.INTERIM:
            self.size -= len(self._messages.pop()[0])
            self.coalesced += 1
        self._add(message, _Kind.INTERIM if revisable else _Kind.TEXT)

    def put_sound(self, data: bytes, *, text: bool = False) -> None:
        """Add a message of sound: a binary one, or JSON text that holds some."""
        self._add(data, _Kind.SPOKEN if text else _Kind.SOUND)

    def _add(self, message: bytes, kind: _Kind) -> None:
        # The next one to go does not count: it may be as large as the bound, or larger than a very low one.
        if self._messages and self.size - len(self._messages[0][0]) + len(message) > self._limit:
            self.overflow.set()
            return
        self._messages.append((message, kind))
        self.size += len(message)
        self._wake.set()

    def forget_sound(self) -> None:
        """Take back the messages of sound that wait; the others keep their order."""
        self._messages = deque(entry for entry in self._messages if entry[1] not in _SOUNDS)
        self.size = sum(len(message) for message, _ in self._messages)
        self._taken.set()

    async def room(self, size: int, beside: int = _BACKLOG_BYTES) -> None:
        """Wait until ``size`` bytes may be put. For one who has much of it and wants no overflow.

        Args:
            beside: bytes that may wait before them, where they are no sound.
        """
        while self.size > min(beside, max(0, self._limit - size)):
            self._taken.clear()
            await self._taken.wait()

    async def emptied(self) -> None:
        """Wait until everything is taken."""
        while self._messages:
            self._taken.clear()
            await self._taken.wait()

    def close(self) -> None:
        """Nothing more will be put."""
        self._closed = True
        self._wake.set()

    async def get(self) -> str | bytes | None:
        """The next message, as soon as there is one; None once closed and empty."""
        while not self._messages:
            if self._closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        message, kind = self._messages.popleft()
        self.size -= len(message)
        self._taken.set()
        return message if kind is _Kind.SOUND else message.decode()


class Ending(NamedTuple):
    """How a stream ends. ``variant`` and ``reason`` go into an Error, unless ``code`` is a good one."""

    code: int
    variant: str = ""
    reason: str = ""


_SLOW: Final = Ending(1013, reason="the client does not read (max_outbound_bytes, send_timeout_seconds)")


class Duplex(ABC):
    """A connection. Subclasses say what the messages mean and do the work."""

    def __init__(self, hub: Hub, receive: Receive, send: Send) -> None:
        self._hub, self._settings, self._metrics = hub, hub.settings, hub.metrics
        self._receive, self._send = receive, send
        self._outbox = Outbox(self._settings.max_outbound_bytes)
        self._id = str(uuid.uuid4())
        self._alive_at = time.monotonic()
        self._ending: Ending | None = None
        """Set once the stream is to end in good order."""

    # ---------------------------------------------------------------------------------- what a protocol fills in

    _commands: ClassVar["msgspec.json.Decoder[Any]"]
    """Of text messages."""
    _nothing_came = "no audio and no KeepAlive"
    """What a stream lacked that has been idle for too long."""

    @abstractmethod
    def _take_bytes(self, data: bytes) -> None:
        """A binary message came."""

    @abstractmethod
    async def _follow(self, command: Any) -> None:
        """A text message came that :attr:`_commands` knows. The next is read when this is done."""

    @abstractmethod
    def _misunderstood(self, reason: str, text: str) -> None:
        """One came that it does not know. The stream goes on, but such text does not keep it from being idle."""

    @abstractmethod
    async def _work(self) -> None:
        """Say all there is to say until the stream's end."""

    @abstractmethod
    def _wind_up(self, ending: Ending) -> None:
        """Let :meth:`_work` come to its end."""

    def _unfinished(self) -> str:
        """What arrived and is not worked off, for people."""
        return "what was not answered"

    def _say_error(self, ending: Ending) -> None:
        """Say why the stream ends, where that is not good."""
        self._say(Error(ending.variant, ending.reason))

    def _last_words(self) -> None:
        """Say what comes last, after an Error."""

    @property
    def _waiting(self) -> float:
        """Seconds of audio that wait to be heard."""
        return 0.0

    @property
    def _last_sign(self) -> float:
        """``time.monotonic()`` from which the stream has been idle."""
        return self._alive_at

    # --------------------------------------------------------------------------------------------------- the course

    async def run(self, subprotocol: str | None) -> None:
        """Serve the connection until it is closed."""
        await self._receive()  # websocket.connect
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
            writing.cancel()  # nothing may follow the close
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
            # A client may close with any code above 3000: not a time series each.
            self._metrics.closes.labels(str(code) if code < 3000 else "other").inc()
            self._metrics.coalesced.inc(self._outbox.coalesced)

    async def _read(self) -> int:
        """Take everything the client sends; the close code it left with."""
        began = time.monotonic()
        while True:
            if time.monotonic() - began > _TURN_SECONDS:  # where messages wait, receiving does not let others go first
                await asyncio.sleep(0)
                began = time.monotonic()
            try:
                message = await self._receive()
            except Exception:  # a server in front of us that breaks raises instead of telling
                log.info("stream %s: receive failed", self._id, exc_info=True)
                return 1006
            if message["type"] == "websocket.disconnect":
                return int(message.get("code") or 1005)
            if (data := message.get("bytes")) is not None:
                self._take_bytes(data)
            else:
                await self._take_text(message["text"])

    async def _take_text(self, text: str) -> None:
        try:
            command = decoded(text, self._commands)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            known = ", ".join(kind.__struct_config__.tag for kind in get_args(self._commands.type))
            self._misunderstood(f"text message not understood: {error}; known are {known}", text)
            return
        self._alive_at = time.monotonic()
        await self._follow(command)

    def _end(self, ending: Ending) -> None:
        """Wind up, then close. The first cause decides."""
        if self._ending is None:
            self._ending = ending
            self._wind_up(ending)

    async def _work_to_the_end(self) -> None:
        """Work, then leave the rest to the writer."""
        try:
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
        """Send what is said; how to close, once all of it is sent."""
        while (message := await self._outbox.get()) is not None:
            kind = "text" if isinstance(message, str) else "bytes"
            try:
                async with asyncio.timeout(self._settings.send_timeout_seconds):
                    await self._send({"type": "websocket.send", kind: message})
            except TimeoutError:
                return _SLOW
            except OSError:  # the client has gone; the reader is told so as well
                return Ending(1006)
        assert self._ending is not None
        return self._ending

    async def _close(self, ending: Ending) -> int:
        reason = ending.reason.encode()[:120].decode(errors="ignore")
        close: Message = {"type": "websocket.close", "code": ending.code, "reason": reason}
        if ending.code != 1006:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._send(close)
            except (TimeoutError, OSError):  # the server drops the connection once we return
                pass
        return ending.code

    async def _watch(self) -> None:
        """End the stream when it is idle or too long, or the daemon goes."""
        idle, most = self._settings.idle_seconds, self._settings.max_session_seconds
        over_at = time.monotonic() + most
        while self._ending is None:
            now, idle_at = time.monotonic(), self._last_sign + idle
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
    """Do ``work``; False where it hung while the daemon goes, which cancels and counts it. Raises what it raises."""
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
    """The subprotocol to confirm: the public half of a pair that brought a key. Browsers fail without."""
    public = ("token", "bearer", "realtime")
    return next((name for name in scope.get("subprotocols", []) if name.lower() in public), None)
