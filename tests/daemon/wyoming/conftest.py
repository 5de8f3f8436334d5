"""Daemons that also speak Wyoming, and the ``wyoming`` package's own client."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest
from wyoming.client import AsyncTcpClient
from wyoming.event import Event, Eventable

from daemon.serve import Background
from tests.daemon.support import eventually, free_port


@asynccontextmanager
async def connected(background: Background) -> AsyncIterator["Client"]:
    """The package's client, connected."""
    client = Client("127.0.0.1", background.hub.settings.wyoming_port, read_timeout=120)
    await client.connect()
    try:
        yield client
    finally:
        await client.disconnect()


class Client(AsyncTcpClient):
    """With what several tests do."""

    async def say(self, *events: Eventable) -> None:
        """Send events."""
        for event in events:
            await self.write_event(event.event())

    async def until(self, kind: str) -> list[Event]:
        """Events up to the next one of that type, which is the last; or to the connection's end."""
        found: list[Event] = []
        while (event := await self.read_event()) is not None:
            found.append(event)
            if event.type == kind:
                break
        return found

    async def rest(self) -> list[Event]:
        """Everything until the daemon ends the connection."""
        found: list[Event] = []
        try:
            while (event := await self.read_event()) is not None:
                found.append(event)
        except ConnectionError:  # it ended with something of ours unread
            pass
        return found


@pytest.fixture(scope="session")
def door(
    talk: Callable[..., AbstractContextManager[Background]],
) -> Callable[..., AbstractContextManager[Background]]:
    """A daemon with settings of one's own that speaks Wyoming too."""

    @contextmanager
    def opened(**settings: Any) -> Iterator[Background]:
        with talk(wyoming_port=free_port(), **settings) as background:
            yield background

    return opened


@pytest.fixture(scope="session")
def wyoming(door: Callable[..., AbstractContextManager[Background]]) -> Iterator[Background]:
    """One with default settings."""
    with door() as background:
        yield background


@pytest.fixture
def connect(wyoming: Background) -> Callable[[], Any]:
    """Connect to it."""
    return partial(connected, wyoming)


async def settled(background: Background) -> None:
    """Until no session holds a slot."""
    assert await asyncio.to_thread(eventually, lambda: background.hub.taken == 0)
