"""Clients that send what no speaker sends: audio far faster than it is spoken, and audio in frames of one byte.

They cost this process little, so that what is measured beside them is the daemon. Each opens a new session when the
daemon ends its old one, and waits for it no longer than it must.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from bench.sessions import RATE, Speech
from clients.handshake import listen_url, settings
from clients.options import StreamOptions

FAST: Final = 50.0
"""How many times faster than real time the fast clients send."""
CLIENTS: Final = 4
"""The number of clients of each kind."""
STEP_SECONDS: Final = 0.1
"""Seconds between two writes of a fast client."""
BUFFER_BYTES: Final = 1 << 18
"""Bytes that are written and not yet taken by the daemon, above which a client waits."""
AGAIN_SECONDS: Final = 0.5
"""Seconds that a client waits before it opens a session again."""


@dataclass(slots=True)
class Flood:
    """The measurements of a flood."""

    fast_seconds: float = 0.0
    """Seconds of audio that the fast clients sent."""
    tiny_frames: int = 0
    refused: int = 0
    ended: int = 0
    """The number of sessions that the daemon ended."""


@asynccontextmanager
async def flooded(url: str, speech: Speech) -> AsyncGenerator[Flood]:
    """``CLIENTS`` of each kind on the daemon at ``url`` for as long as the block lasts."""
    flood = Flood()
    tasks = [asyncio.create_task(_client(url, speech, flood, tiny=i >= CLIENTS)) for i in range(2 * CLIENTS)]
    try:
        yield flood
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def one_byte_frames(pcm: bytes) -> bytes:
    """``pcm`` as masked binary WebSocket frames of one byte each (RFC 6455; the mask of zeros leaves it as it is)."""
    frames = np.zeros((len(pcm), 7), np.uint8)
    frames[:, 0], frames[:, 1], frames[:, 6] = 0x82, 0x81, np.frombuffer(pcm, np.uint8)
    return frames.tobytes()


async def _client(url: str, speech: Speech, flood: Flood, *, tiny: bool) -> None:
    address = listen_url(url, StreamOptions(sample_rate=RATE))
    while True:
        try:
            connection = await connect(address, open_timeout=30, **settings(address, None))
        except (OSError, InvalidHandshake):
            flood.refused += 1
            await asyncio.sleep(AGAIN_SECONDS)
            continue
        hearing = asyncio.create_task(_discard(connection))
        try:
            await (_tiny(connection, speech, flood) if tiny else _fast(connection, speech, flood))
        except ConnectionClosed:
            flood.ended += 1
        finally:
            hearing.cancel()
            connection.transport.abort()
        await asyncio.sleep(AGAIN_SECONDS)


async def _discard(connection: ClientConnection) -> None:
    async for _ in connection:
        pass


async def _fast(connection: ClientConnection, speech: Speech, flood: Flood) -> None:
    at = 0.0
    while True:
        await connection.send(speech.piece(at, FAST * STEP_SECONDS))
        flood.fast_seconds += FAST * STEP_SECONDS
        at += FAST * STEP_SECONDS
        await asyncio.sleep(STEP_SECONDS)


async def _tiny(connection: ClientConnection, speech: Speech, flood: Flood) -> None:
    """Send frames of one byte, at the pace of real time if the daemon can read so many."""
    at = 0.0
    while True:
        if connection.transport.is_closing():
            return
        if connection.transport.get_write_buffer_size() < BUFFER_BYTES:
            piece = speech.piece(at, STEP_SECONDS)
            connection.transport.write(one_byte_frames(piece))
            flood.tiny_frames += len(piece)
            at += STEP_SECONDS
        await asyncio.sleep(STEP_SECONDS)
