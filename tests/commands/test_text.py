"""Text as it arrives: however it is cut, what is written is what is said."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands.console import Failure
from commands.text import BLOCK_BYTES, arriving, whole

pytestmark = pytest.mark.anyio
FILES = Path("/proc/self/fd")


async def collected(text: AsyncIterator[str]) -> list[str]:
    """All deltas."""
    return [delta async for delta in text]


def piped(chunks: list[bytes]) -> list[str]:
    """The deltas that come out where ``chunks`` are written into a pipe."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for chunk in chunks:
                pipe.write(chunk)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return asyncio.run(collected(arriving(reading)))
    finally:
        os.close(reading)
        writer.join()


@settings(deadline=None, max_examples=40)
@given(st.text(), st.lists(st.integers(0, 8), max_size=20))
def test_any_cut_gives_the_same_text(text: str, cuts: list[int]):
    """Letters of several bytes are cut anywhere; nothing is lost, nothing comes twice."""
    data, chunks = text.encode("utf-8", "surrogatepass"), list[bytes]()
    for cut in cuts:
        chunks.append(data[:cut])
        data = data[cut:]
    try:
        expected = text.encode().decode()
    except UnicodeEncodeError:
        with pytest.raises(Failure, match="not UTF-8"):
            piped([*chunks, data])
    else:
        assert "".join(piped([*chunks, data])) == expected


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=40))
def test_bytes_that_are_no_text_are_named(data: bytes):
    """Where in the input the first of them stands, or the text that they are."""
    try:
        expected = data.decode()
    except UnicodeDecodeError as error:
        with pytest.raises(Failure, match=f"standard input is not UTF-8 text: .* at byte {error.start}$"):
            piped([data])
    else:
        assert "".join(piped([data])) == expected


async def test_what_is_there_is_passed_on_at_once():
    """No waiting for a line, a block or the end."""
    reading, writing = os.pipe()
    text = arriving(reading)
    for word in ("one ", "two"):
        os.write(writing, word.encode())
        async with asyncio.timeout(60):  # the pipe stays open: waiting for more would never end
            assert await anext(text) == word
    os.close(writing)
    assert await collected(text) == []
    os.close(reading)


async def test_a_long_file_is_read_as_it_is_wanted(tmp_path: Path):
    """Block by block."""
    path = tmp_path / "long.txt"
    path.write_text("ä" * 100_000)
    deltas = await collected(arriving(path))
    assert "".join(deltas) == "ä" * 100_000 and max(map(len, deltas)) <= BLOCK_BYTES
    assert "".join(await collected(whole("ä" * 100_000))) == "ä" * 100_000


@pytest.mark.skipif(not FILES.is_dir(), reason="needs /proc")
def test_nobody_leaves_a_file_open(tmp_path: Path):
    """Read to the end, given up in the middle, or no text at all: the descriptor is closed, the thread ends."""
    path = tmp_path / "long.txt"
    path.write_bytes(b"word " * 10_000 + b"\xff")

    async def given_up() -> str:
        return await anext(arriving(path))

    files, threads = len(list(FILES.iterdir())), threading.active_count()
    for _ in range(5):
        assert asyncio.run(given_up()).startswith("word")
        with pytest.raises(Failure):
            asyncio.run(collected(arriving(path)))
    deadline = time.monotonic() + 60
    while len(list(FILES.iterdir())) > files or threading.active_count() > threads:
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_what_cannot_be_read_is_one_line(tmp_path: Path):
    """A directory, a file that is not there."""
    for path, reason in ((tmp_path, "directory"), (tmp_path / "none.txt", "No such file")):
        with pytest.raises(Failure, match=reason):
            await collected(arriving(path))
