"""Opus in packets, as calls bring and take it: 20 ms each, numbered and timed, over a line that loses and delays some.

Both ways cost less than a tenth of what a thread would save by doing them elsewhere.
"""

from contextlib import suppress
from fractions import Fraction
from typing import Any, Final

from av import AudioFrame, CodecContext, Packet
from av.error import FFmpegError

HEARD_RATE: Final = 48_000
"""The sample rate in Hz of what is decoded: that of Opus' own clock."""
SPOKEN_RATE: Final = 24_000
"""The sample rate in Hz of what is encoded."""
FRAME_SECONDS: Final = 0.02
FRAME_SAMPLES: Final = round(SPOKEN_RATE * FRAME_SECONDS)
_BIT_RATE: Final = 48_000
_REORDERED: Final = 4
"""Packets that come after one before that one counts as lost: so many may overtake one another."""
_RESTARTED: Final = 500
"""A number so far from the one that is due begins another stream."""
_MOST_LOST: Final = HEARD_RATE // 5
"""Lost samples that silence stands for. A longer pause is one, which whoever hears has a rule of their own for."""


class PacketEncoder:
    """Makes packets of frames."""

    def __init__(self) -> None:
        self._codec: Any = CodecContext.create("libopus", "w")
        self._codec.bit_rate, self._codec.sample_rate = _BIT_RATE, SPOKEN_RATE
        self._codec.format, self._codec.layout = "s16", "mono"

    def encode(self, pcm: bytes, place: int) -> "Packet[Any]":
        """The packet of the frame number ``place``: ``pcm`` (linear16, mono), and silence where it is shorter."""
        frame = AudioFrame("s16", "mono", FRAME_SAMPLES)
        frame.planes[0].update(pcm.ljust(frame.planes[0].buffer_size, b"\0"))
        frame.sample_rate, frame.pts, frame.time_base = SPOKEN_RATE, place * FRAME_SAMPLES, Fraction(1, SPOKEN_RATE)
        packet: Packet[Any] = self._codec.encode(frame)[0]
        packet.pts, packet.time_base = frame.pts, frame.time_base
        return packet


class PacketDecoder:
    """Puts packets into order and makes linear16, mono, of them. Lost ones leave silence of their length."""

    def __init__(self) -> None:
        self._codec: Any = CodecContext.create("libopus", "r")
        self._codec.layout, self._codec.sample_rate = "mono", HEARD_RATE
        self._early: dict[int, tuple[int, bytes]] = {}
        """Timestamp and payload of the packets of which an earlier one has not come, by their number."""
        self._due: int | None = None
        self._ends_at = 0
        """The timestamp at which what was heard ends."""

    def take(self, number: int, timestamp: int, payload: bytes) -> bytes:
        """Take a packet of RTP; returns the sound that is complete with it, perhaps none."""
        if self._due is None or abs(self._ahead(number)) > _RESTARTED:
            self._early.clear()
            self._due, self._ends_at = number, timestamp
        if self._ahead(number) >= 0:
            self._early[number] = timestamp, payload
        sound = b""
        while self._early and (self._due in self._early or len(self._early) >= _REORDERED):
            found = min(self._early, key=self._ahead)
            self._due = (found + 1) & 0xFFFF
            sound += self._decoded(*self._early.pop(found))
        return sound

    def _ahead(self, number: int) -> int:
        return (number - (self._due or 0) + 0x8000) % 0x10000 - 0x8000

    def _decoded(self, timestamp: int, payload: bytes) -> bytes:
        lost = (timestamp - self._ends_at) & 0xFFFFFFFF
        sound = bytes(2 * lost if lost <= _MOST_LOST else 0)
        with suppress(FFmpegError):
            for frame in self._codec.decode(Packet(payload)) if payload else ():
                sound += bytes(frame.planes[0])[: 2 * frame.samples]
                self._ends_at = (timestamp + frame.samples) & 0xFFFFFFFF
        return sound
