"""A client of ``/v1/realtime/calls`` for a measurement, by aiortc. Sound counts when its packet comes."""

import asyncio
import time
from collections import deque
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from av import AudioFrame

from audio.packets import PacketDecoder

_FRAME: Final = 960
"""Samples of a packet: 20 ms at 48 kHz."""
_LOUD: Final = 200
"""A 16-bit sample that is no silence."""


class _Microphone(MediaStreamTrack):
    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.pieces = deque[bytes]()
        self._place, self._began = 0, time.monotonic()

    async def recv(self) -> AudioFrame:
        """Wait until the next 20 ms are over."""
        await asyncio.sleep(self._began + self._place * _FRAME / 48_000 - time.monotonic())
        frame = AudioFrame("s16", "mono", _FRAME)
        frame.planes[0].update((self.pieces.popleft() if self.pieces else b"").ljust(2 * _FRAME, b"\0"))
        frame.sample_rate, frame.pts, frame.time_base = 48_000, self._place * _FRAME, Fraction(1, 48_000)
        self._place += 1
        return frame


class Caller:
    """A call, for as long as the block lasts."""

    def __init__(self) -> None:
        self._connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._microphone = _Microphone()
        self._connection.addTrack(self._microphone)
        self._opened, self._sounded = asyncio.Event(), asyncio.Event()
        self._connection.createDataChannel("oai-events").on("open", self._opened.set)
        receiver: Any = self._connection.getTransceivers()[0].receiver
        receiver._RTCRtpReceiver__jitter_buffer = self
        self._decoder = PacketDecoder()

    async def __aenter__(self) -> Self:
        """Nothing is begun yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hang up."""
        await self._connection.close()

    def add(self, packet: Any) -> tuple[bool, None]:
        """Take a packet in place of aiortc's buffer, which would hold it back."""
        sound = self._decoder.take(packet.sequence_number, packet.timestamp, packet.payload)
        if np.abs(np.frombuffer(sound, "<i2")).max(initial=0) > _LOUD:
            self._sounded.set()
        return False, None

    async def offer(self) -> str:
        """What opens the call."""
        await self._connection.setLocalDescription(await self._connection.createOffer())
        return self._connection.localDescription.sdp

    async def answered(self, sdp: str) -> None:
        """Take the answer, and wait until the call is open."""
        await self._connection.setRemoteDescription(RTCSessionDescription(sdp, "answer"))
        await self._opened.wait()

    async def say(self, audio: bytes) -> None:
        """Say 20 ms, 16-bit mono at 48 kHz."""
        self._microphone.pieces.append(audio)

    async def heard(self) -> bool:
        """Wait for the first sound."""
        await self._sounded.wait()
        return True
