"""The other end of a WebRTC call, as messages of a WebSocket, which a session reads and writes.

aiortc (the extra ``webrtc``) does ICE, DTLS, SRTP and SCTP. Nobody is asked for this machine's address, and nothing is
sent to an address that has not shown the call's password: candidates of the offer are not tried, its sender's own
checks are answered.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from aiortc import MediaStreamTrack, RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from aiortc.codecs import get_capabilities
from av import Packet
from starlette.types import Message

from audio.packets import FRAME_SAMPLES, FRAME_SECONDS, HEARD_RATE, SPOKEN_RATE, PacketDecoder, PacketEncoder
from daemon.duplex import Outbox

_TAIL: Final = 5
"""Frames of silence that follow sound, so that what plays it fades to nothing. Then come only signs of life."""
_SIGN_SECONDS: Final = 0.4
"""Seconds between two of those, as in Opus' own discontinuous transmission."""
_MOST_LATE: Final = 10
"""Frames that are sent at once, to make up for a machine that stood still."""
_MOST_BUFFERED: Final = 1 << 16
"""Bytes of events that wait in the data channel before the next is held back."""
_MOST_CHUNKS: Final = 1024
"""Pieces of messages that are not complete: four times what the largest message has."""
_LOOK_SECONDS: Final = 0.25
_CLOSE_SECONDS: Final = 5.0
_UNSENT: Final = '{{"type":"error","error":{{"type":"server_error","code":"too_large","message":"{} bytes"}}}}'
"""What is told in place of an event that is larger than any message that the client takes."""

log: Final = logging.getLogger("hearsay.peer")


class Sounds(Outbox):
    """Sound that waits to be played: linear16, mono, 24 kHz."""

    def __init__(self, limit_bytes: int, forgotten: Callable[[], None]) -> None:
        super().__init__(limit_bytes)
        self._forgotten, self._begun = forgotten, b""

    @property
    def waiting(self) -> bool:
        """Whether there is any."""
        return self.size > 0 or bool(self._begun)

    def forget_sound(self) -> None:
        """Take all of it back."""
        self._begun = b""
        super().forget_sound()
        self._forgotten()

    async def frame(self, seconds: float) -> bytes:
        """The next frame, or as much of one as there is after ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self._begun) < 2 * FRAME_SAMPLES and isinstance(more := await self.get(), bytes):
                    self._begun += more
        data, self._begun = self._begun[: 2 * FRAME_SAMPLES], self._begun[2 * FRAME_SAMPLES :]
        return data


class _Voice(MediaStreamTrack):
    """What is spoken, in packets of Opus at the pace at which it is played."""

    kind = "audio"

    def __init__(self, sounds: Sounds, drained: Callable[[], None]) -> None:
        super().__init__()
        self._sounds, self._drained = sounds, drained
        self._encoder = PacketEncoder()
        self._began = time.monotonic()
        self._place = self._quiet = 0
        """The number of the last frame since the beginning, and how many there were without sound."""

    async def recv(self) -> "Packet[Any]":
        """Wait for the next packet, until its time has come."""
        paused = not self._sounds.waiting
        due = (self._place + 1) * FRAME_SECONDS + self._began - time.monotonic()
        data = await self._sounds.frame(_SIGN_SECONDS if self._quiet >= _TAIL else max(0.0, due))
        elapsed = time.monotonic() - self._began
        late = round(elapsed / FRAME_SECONDS) - self._place - 1
        # A little lateness is made up for. Where there was nothing to say, time has passed for the listener too.
        self._place += 1 + (late if late > (0 if paused else _MOST_LATE) else 0)
        self._quiet = 0 if data else self._quiet + 1
        if self._quiet == 1:
            self._drained()
        packet = self._encoder.encode(data, self._place)
        await asyncio.sleep(self._place * FRAME_SECONDS - elapsed)
        return packet


class _Arrivals:
    """Stands in for aiortc's jitter buffer, behind which everything is heard 80 ms later, and 300 once a packet was
    lost. What comes is decoded here."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._decoder, self._heard = PacketDecoder(), heard

    def add(self, packet: Any) -> tuple[bool, None]:
        """Take a packet; what is returned tells aiortc that there is nothing to decode."""
        if sound := self._decoder.take(packet.sequence_number, packet.timestamp, packet.payload):
            self._heard(sound)
        return False, None


class Peer:
    """One call. :meth:`close` must be called. ``limit_bytes`` may wait to be read, and as many to be played.
    ``drained`` is called when there is nothing more to play, and ``forgotten`` when that was taken back."""

    heard: Final = {"type": "audio/pcm", "rate": HEARD_RATE}
    spoken: Final = {"type": "audio/pcm", "rate": SPOKEN_RATE}
    """The formats of the sound that is received, and of that to be played, as a session's object has them."""

    def __init__(self, limit_bytes: int, drained: Callable[[], None], forgotten: Callable[[], None]) -> None:
        self.sounds: Final = Sounds(limit_bytes, forgotten)
        self.hears = False
        """Whether the client has a microphone."""
        self._limit, self._size = limit_bytes, 0
        self._connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._voice = _Voice(self.sounds, drained)
        self._messages = asyncio.Queue[Message]()
        self._messages.put_nowait({"type": "websocket.connect"})
        self._channel: RTCDataChannel | None = None
        self._sendable = asyncio.Event()
        """Set when the data channel opens, takes more or ends."""
        self._tasks: list[asyncio.Task[None]] = []
        self._over = False

    async def answer(self, offer: str) -> str:
        """Begin the call that ``offer`` offers; returns the answer. Raises whatever aiortc does, which may be anything,
        at an offer that is none."""
        connection = self._connection
        connection.on("track", self._track_came)
        connection.on("datachannel", self._channel_came)
        connection.on("connectionstatechange", self._state_changed)
        connection.addTrack(self._voice)
        transceiver = connection.getTransceivers()[0]
        codecs = get_capabilities("audio").codecs
        transceiver.setCodecPreferences([one for one in codecs if one.mimeType == "audio/opus"])
        setattr(transceiver.receiver, "_RTCRtpReceiver__jitter_buffer", _Arrivals(self._sound_came))
        await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        await connection.setLocalDescription(await connection.createAnswer())
        return connection.localDescription.sdp

    async def close(self) -> None:
        """End the call. May be called again."""
        self._end(1000)
        for task in self._tasks:
            task.cancel()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._connection.close()
        except Exception as error:  # aiortc cannot close what an odd offer left half made.
            log.info("a call was not closed in good order: %r", error)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -------------------------------------------------------------------------------------------------- in

    async def receive(self) -> Message:
        """Wait for the next message: an event, some sound, or the end of the call."""
        message = await self._messages.get()
        self._size -= len(message.get("bytes") or message.get("text") or "")
        return message

    def _put(self, kind: str, data: str | bytes) -> None:
        self._size += len(data)
        self._messages.put_nowait({"type": "websocket.receive", kind: data})

    def _end(self, code: int) -> None:
        if not self._over:
            self._over = True
            self._messages.put_nowait({"type": "websocket.disconnect", "code": code})
            self._sendable.set()

    def _state_changed(self) -> None:
        if self._connection.connectionState in ("failed", "closed"):
            self._end(1006)

    def _channel_came(self, channel: RTCDataChannel) -> None:
        if self._channel is not None:
            log.info("a second data channel ends a call")
            self._end(1008)
            return
        self._channel = channel
        channel.bufferedAmountLowThreshold = _MOST_BUFFERED // 2
        channel.on("message", self._message_came)
        channel.on("bufferedamountlow", self._sendable.set)
        channel.on("close", lambda: self._end(1000))
        self._tasks.append(asyncio.create_task(self._watch()))
        self._sendable.set()

    def _message_came(self, data: str | bytes) -> None:
        if self._size + len(data) > self._limit:
            self._end(1009)
        elif not self._over:
            self._put("text", data if isinstance(data, str) else data.decode("utf-8", "replace"))

    def _track_came(self, track: MediaStreamTrack) -> None:
        del track
        self.hears = True

    def _sound_came(self, sound: bytes) -> None:
        # Sound that cannot be read in time is lost first: events count more.
        if self._size < self._limit // 2:
            self._put("bytes", sound)

    async def _watch(self) -> None:
        """End the call of a client that sends pieces of messages without end, of which aiortc keeps them all."""
        streams: dict[int, object] = getattr(self._connection.sctp, "_inbound_streams", {})
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if sum(len(getattr(one, "reassembly", ())) for one in streams.values()) > _MOST_CHUNKS:
                self._end(1009)

    # ------------------------------------------------------------------------------------------------- out

    async def send(self, message: Message) -> None:
        """Send an event once the client takes it, or close the data channel if there is one.

        Raises:
            ConnectionError: the call is over.
        """
        closes = message["type"] == "websocket.close"
        if message["type"] == "websocket.accept" or (closes and self._channel is None):
            return
        channel = await self._sending()
        if closes:
            channel.close()
            while not self._over:
                self._sendable.clear()
                await self._sendable.wait()
            return
        try:
            channel.send(message["text"])
        except ValueError:
            channel.send(_UNSENT.format(len(message["text"])))

    async def _sending(self) -> RTCDataChannel:
        """The data channel, as soon as it is open and takes more."""
        while not self._over:
            channel = self._channel
            if channel is not None and channel.bufferedAmount <= _MOST_BUFFERED:
                return channel
            self._sendable.clear()
            await self._sendable.wait()
        raise ConnectionError("the call is over")
