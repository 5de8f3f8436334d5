"""The outbound queue: bounded, interims coalesced, finals never."""

import anyio
import pytest

from daemon.outbox import Outbox


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
    box.put(b"final", revises=True)
    box.put(b"final", revises=True)
    assert box.size == 10
    assert not box.overflow.is_set()
    box.put(b"!")
    assert box.overflow.is_set()
    assert [await box.get(), await box.get()] == ["final", "final"]


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
