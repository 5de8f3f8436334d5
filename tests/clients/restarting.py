"""A daemon that is killed again and again under a client that goes on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit

from clients.events import Results
from clients.options import StreamOptions
from clients.resume import Reconnected
from clients.stream import listen
from tests.daemon.process import Process
from tests.daemon.support import free_port

RATE = 16_000
PIECE_SECONDS = 0.1


async def heard(pcm: bytes, kills: Sequence[float], speed: float = 4.0) -> tuple[list[str], list[Reconnected]]:
    """The finals of linear16 at 16 kHz, sent at ``speed`` times its pace to a daemon that is killed (SIGKILL), and
    started once more, each time so many seconds of audio were sent; and what was said about going on."""
    port = str(free_port())

    def started() -> Process:
        return Process("", port=port, sessions="4", tts_model="none")

    running = await asyncio.to_thread(started)
    left = sorted(kills)
    goes_on = asyncio.Condition()

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal running
        size = round(PIECE_SECONDS * RATE) * 2
        for start in range(0, len(pcm), size):
            if left and start >= left[0] * 2 * RATE:
                left.pop(0)
                running.process.kill()
                await asyncio.to_thread(running.wait)
                running = await asyncio.to_thread(started)
                await asyncio.to_thread(running.url)
                async with goes_on:  # each kill meets a session
                    await goes_on.wait_for(lambda: len(resumed) == len(kills) - len(left))
            yield pcm[start : start + size]
            await asyncio.sleep(PIECE_SECONDS / speed)

    texts: list[str] = []
    resumed: list[Reconnected] = []
    try:
        url = await asyncio.to_thread(running.url)
        assert urlsplit(url).port == int(port)
        async for event in listen(url, pieces(), StreamOptions(), attempts=100):
            if isinstance(event, Results) and event.is_final and event.text:
                texts.append(event.text)
            elif isinstance(event, Reconnected):
                async with goes_on:
                    resumed.append(event)
                    goes_on.notify_all()
    finally:
        running.process.kill()
        await asyncio.to_thread(running.wait)
    return texts, resumed
