"""Asterisk's AudioSocket: a telephone call on a TCP connection, answered by the chat endpoint.

A frame has a byte for its kind, two bytes of length and a payload (https://docs.asterisk.org, Channel Drivers,
AudioSocket). Asterisk plays sound as soon as it comes and cannot take any back, so sound is sent at the pace at which
it is played.
"""

import asyncio
import base64
import logging
import time
from typing import Final

from starlette.types import Message

from daemon.hub import Hub
from daemon.openai.realtime import server_events as wire
from daemon.openai.realtime.call import Call, telephone
from daemon.openai.realtime.capability import check_answers
from daemon.paths import AUDIOSOCKET
from daemon.refusal import Refused
from daemon.tcp_server import Protocol

_HANG_UP, _SOUND, _ERROR = 0x00, 0x10, 0xFF
"""The kinds of frames that are read: the end of the call, sound (signed linear 16-bit at 8 kHz) and an error. Those
with the call's id and pressed keys are ignored."""
_GOODBYE: Final = bytes((_HANG_UP, 0, 0))
_LINEAR: Final = {"type": "audio/pcm", "rate": 8_000}
_FRAME_BYTES: Final = 320
"""How many bytes of sound a frame has: 20 ms, as Asterisk sends them."""
_BYTES_PER_SECOND: Final = 16_000
_AHEAD_SECONDS: Final = 0.06
"""How many seconds of sound are sent ahead of what is played: three frames, so that a late one leaves no gap."""

log: Final = logging.getLogger("hearsay.audiosocket")


def audiosocket_protocol(hub: Hub) -> Protocol:
    """The protocol AudioSocket, as a TCP server runs it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        del gone
        await _take_call(hub, reader, writer)

    return Protocol("AudioSocket", serve, hub.settings.beside_connections, _GOODBYE, _FRAME_BYTES)


async def _take_call(hub: Hub, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the call on a connection until it ends."""
    line = Line(reader, writer)
    try:
        async with hub.slot(AUDIOSOCKET, live=True):
            check_answers(hub)
            config = telephone(hub, "realtime")
            await _AudioSocketCall(hub, config, _LINEAR, _LINEAR, line.receive, line.send).run(None)
    except Refused as refused:
        hub.metrics.denials.labels(refused.code).inc()
        log.warning("a call was not taken: %s", refused.message)
        await line.send({"type": "websocket.close"})
    finally:
        writer.close()


class Line:
    """Presents a connection as messages of a WebSocket, which a session reads and writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._begun = False
        self._played = 0.0
        """The ``time.monotonic()`` at which Asterisk will have played all sound that it was sent."""

    async def receive(self) -> Message:
        """Wait for the next frame with sound, or the end of the call."""
        if not self._begun:
            self._begun = True
            return {"type": "websocket.connect"}
        try:
            while True:
                head = await self._reader.readexactly(3)
                payload = await self._reader.readexactly(int.from_bytes(head[1:], "big"))
                if head[0] == _SOUND:
                    return {"type": "websocket.receive", "bytes": payload}
                if head[0] in (_HANG_UP, _ERROR):
                    return {"type": "websocket.disconnect", "code": 1000}
        except (asyncio.IncompleteReadError, OSError):
            return {"type": "websocket.disconnect", "code": 1006}

    async def send(self, message: Message) -> None:
        """Send a frame of sound when its time comes, or hang up."""
        if message["type"] == "websocket.close":
            self._writer.write(_GOODBYE)
        elif (data := message.get("bytes")) is not None:
            now = time.monotonic()
            self._played = max(self._played, now)
            await asyncio.sleep(self._played - now - _AHEAD_SECONDS)
            self._writer.write(bytes((_SOUND,)) + len(data).to_bytes(2, "big") + data)
            self._played += len(data) / _BYTES_PER_SECOND
            await self._writer.drain()


class _AudioSocketCall(Call):
    @property
    def _last_sign(self) -> float:
        """Asterisk sends sound all the time, so only what it sends shows that it is there."""
        return self._alive_at

    def _misunderstood(self, reason: str, text: str) -> None:
        """Ignore it: Asterisk sends nothing but sound."""

    def tell(self, event: wire.Event, *, owed: bool = False) -> None:
        """Log errors. Asterisk has no messages for events."""
        if isinstance(event, wire.Error):
            log.warning("stream %s: %s", self._id, event.error.message)

    def tell_sound(self, event: wire.AudioDelta) -> None:
        """Put sound out in frames, so that those that wait can be dropped when the caller interrupts."""
        data = base64.b64decode(event.delta)
        for start in range(0, len(data), _FRAME_BYTES):
            self._outbox.put_sound(data[start : start + _FRAME_BYTES])
