"""One stream's messages: the other streams' turns, and what waits for a client."""

import asyncio
import time
from typing import Any

import anyio
import pytest

from daemon.config import Settings
from daemon.duplex import Duplex, Ending, Outbox
from daemon.hub import Hub

MANY = 1_000_000


class Counting(Duplex):
    """Counts what it takes."""

    taken = 0

    def _take_bytes(self, data: bytes) -> None:
        self.taken += 1

    async def _take_text(self, text: str) -> None:
        self.taken += 1

    async def _follow(self, command: Any) -> None: ...

    def _misunderstood(self, reason: str, text: str) -> None: ...

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


@pytest.mark.anyio
async def test_a_stream_is_counted_before_what_it_held_is_free() -> None:
    """Whoever waits for a slot and looks at the metrics then finds it there."""
    messages = iter([{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}])

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(message: Any) -> None:
        del message

    hub, counted = Hub(Settings()), list[float | None]()
    stream = Counting(hub, receive, send)
    stream._held.callback(
        lambda: counted.append(hub.metrics.registry.get_sample_value("hearsay_closes_total", {"code": "1000"}))
    )
    await stream.run(None)
    assert counted == [1.0]


class Costly(Counting):
    """Takes a millisecond over each message."""

    async def _take_text(self, text: str) -> None:
        self.taken += 1
        time.sleep(0.001)  # noqa: ASYNC251 (this is what it is about)


@pytest.mark.anyio
async def test_of_many_who_flood_one_goes_on_in_each_turn() -> None:
    """So what needs many turns, as a final does, is no later beside twenty of them than beside one."""
    over = False

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.disconnect", "code": 1000} if over else {"type": "websocket.receive", "text": "…"}

    async def send(message: Any) -> None:
        del message

    hub = Hub(Settings())
    streams = [Costly(hub, receive, send) for _ in range(20)]
    reading = [asyncio.create_task(stream._read()) for stream in streams]
    await asyncio.sleep(0)
    before, turns = sum(stream.taken for stream in streams), 100
    for _ in range(turns):
        await asyncio.sleep(0)
    over, taken = True, [stream.taken for stream in streams]
    assert sum(taken) - before < 3 * turns
    assert max(taken) - min(taken) <= 3, "all have the same share"
    assert await asyncio.gather(*reading) == [1000] * 20


@pytest.mark.anyio
async def test_an_unsent_interim_gives_way_to_its_successor() -> None:
    box = Outbox(1000)
    box.put(b"interim 1", revises=True, revisable=True)
    box.put(b"interim 2", revises=True, revisable=True)
    box.put(b"final", revises=True)
    box.put(b"interim 3", revises=True, revisable=True)
    box.put(b"notice")
    box.put(b"interim 4", revises=True, revisable=True)
    box.close()
    said = [await box.get() for _ in range(5)]
    assert said == ["final", "interim 3", "notice", "interim 4", None]
    assert box.coalesced == 2
    assert box.size == 0


@pytest.mark.anyio
async def test_finals_never_give_way_and_the_bound_is_in_bytes() -> None:
    box = Outbox(10)
    box.put(b"larger than that", revises=True)
    box.put(b"final", revises=True)
    box.put(b"final", revises=True)
    assert box.size == 26
    assert not box.overflow.is_set(), "the next one does not count"
    box.put(b"!")
    assert box.overflow.is_set()
    assert [await box.get() for _ in range(3)] == ["larger than that", "final", "final"]


@pytest.mark.anyio
async def test_get_waits_for_put() -> None:
    box = Outbox(100)
    got: list[str | None] = []

    async def reader() -> None:
        got.append(await box.get())

    async with anyio.create_task_group() as group:
        group.start_soon(reader)
        await anyio.sleep(0.01)
        assert got == []
        box.put("ü".encode())
    assert got == ["ü"]
