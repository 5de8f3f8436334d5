"""One stream's messages, however many, and the other streams' turns."""

import asyncio
from typing import Any

import pytest

from daemon.config import Settings
from daemon.duplex import Duplex, Ending
from daemon.hub import Hub

MANY = 1_000_000


class Counting(Duplex):
    """Counts what it takes."""

    taken = 0

    def _take_bytes(self, data: bytes) -> None:
        self.taken += 1

    def _take_text(self, text: str) -> None:
        self.taken += 1

    async def _work(self) -> None: ...

    def _wind_up(self, ending: Ending) -> None: ...


@pytest.mark.anyio
async def test_others_have_their_turn_while_messages_wait() -> None:
    """A client that sends faster than its messages are taken does not hold the event loop."""

    async def receive() -> dict[str, Any]:
        if stream.taken == MANY or turns == 3:
            return {"type": "websocket.disconnect", "code": 1000}
        return {"type": "websocket.receive", "text": "…"}  # at once: the loop gets no turn by waiting

    async def send(message: Any) -> None:
        del message

    stream, turns = Counting(Hub(Settings()), receive, send), 0
    reading = asyncio.create_task(stream._read())
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert await reading == 1000
    assert turns >= 3
    assert stream.taken < MANY
