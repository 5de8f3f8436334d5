"""A client of /v1/realtime/calls, by aiortc: it plays a recording into its microphone, and keeps what it is told."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any, Final

import httpx
import numpy as np
import soxr
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from av import AudioFrame

from tests.clips import RATE

Event = dict[str, Any]
FRAME: Final = 960
"""Samples of a frame at 48 kHz: 20 ms."""


class Microphone(MediaStreamTrack):
    """What somebody says, at its own pace, in silence."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []
        self._place, self._began = 0, time.monotonic()

    def say(self, pcm: bytes) -> None:
        """Say linear16 at 16 kHz, after what is still to be said."""
        samples = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
        data = (np.clip(soxr.resample(samples, RATE, 48_000), -1, 1) * 32767).astype("<i2").tobytes()
        self.frames += [data[start : start + 2 * FRAME] for start in range(0, len(data), 2 * FRAME)]

    async def recv(self) -> AudioFrame:
        """Wait until the next frame has been said."""
        await asyncio.sleep(self._began + self._place * 0.02 - time.monotonic())
        frame = AudioFrame("s16", "mono", FRAME)
        data = self.frames.pop(0) if self.frames else b""
        frame.planes[0].update(data.ljust(2 * FRAME, b"\0"))
        frame.sample_rate, frame.pts, frame.time_base = 48_000, self._place * FRAME, Fraction(1, 48_000)
        self._place += 1
        return frame


class Caller:
    """One call. ``heard`` is the sound that came, mono at 48 kHz, each frame with its time."""

    def __init__(self) -> None:
        self.microphone = Microphone()
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.events: list[tuple[float, Event]] = []
        self.heard: list[tuple[float, np.ndarray[Any, Any]]] = []
        self.closed = asyncio.Event()
        self._came, self._opened = asyncio.Event(), asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self.connection.addTrack(self.microphone)
        self.channel = self.connection.createDataChannel("oai-events")
        self.channel.on("message", self._message)
        self.channel.on("open", self._opened.set)
        self.channel.on("close", self.closed.set)
        self.connection.on("track", self._track)

    def _message(self, text: str) -> None:
        self.events.append((time.monotonic(), json.loads(text)))
        self._came.set()

    def _track(self, track: MediaStreamTrack) -> None:
        self._listening = asyncio.create_task(self._listen(track))

    async def _listen(self, track: Any) -> None:
        while True:
            frame = await track.recv()
            self.heard.append((time.monotonic(), frame.to_ndarray().reshape(-1, 2)[:, 0]))

    async def offer(self) -> str:
        """What opens the call, with nothing said of where this client is: as OpenAI's SDK sends it."""
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return self.connection.localDescription.sdp

    async def answered(self, sdp: str) -> None:
        """Take the daemon's answer and wait until events can be sent."""
        await self.connection.setRemoteDescription(RTCSessionDescription(sdp, "answer"))
        async with asyncio.timeout(30):
            await self._opened.wait()

    def tell(self, kind: str, **fields: Any) -> None:
        """Send an event."""
        self.channel.send(json.dumps({"type": kind, **fields}))

    async def until(self, kind: str, seconds: float = 60) -> Event:
        """The first event of this kind that no call of this has given."""
        place = 0
        async with asyncio.timeout(seconds):
            while True:
                for _, event in self.events[place:]:
                    place += 1
                    if event["type"] == kind and not event.get("seen"):
                        event["seen"] = True
                        return event
                self._came.clear()
                await self._came.wait()

    def at(self, kind: str) -> list[float]:
        """When events of this kind came, by ``time.monotonic()``."""
        return [moment for moment, event in self.events if event["type"] == kind]

    def sounding(self, since: float = 0.0) -> list[float]:
        """When frames that are not silent came."""
        return [moment for moment, samples in self.heard if moment > since and np.abs(samples).max() > 200]

    async def close(self) -> None:
        """Hang up."""
        if self._listening is not None:
            self._listening.cancel()
        await self.connection.close()


async def post(url: str, offer: str | bytes, **options: Any) -> httpx.Response:
    """Offer a call."""
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        headers = {"content-type": "application/sdp", **options.pop("headers", {})}
        return await client.post(f"{url}/v1/realtime/calls", content=offer, headers=headers, **options)


@asynccontextmanager
async def calling(url: str, **options: Any) -> AsyncGenerator[Caller]:
    """A call that is taken."""
    caller = Caller()
    try:
        answer = await post(url, await caller.offer(), **options)
        assert answer.status_code == 201, answer.text
        await caller.answered(answer.text)
        yield caller
    finally:
        await caller.close()
