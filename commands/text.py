"""Text to be spoken, as it arrives: an argument, a file, or standard input while somebody still writes to it."""

import asyncio
import codecs
import os
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

from commands.console import Failure

BLOCK_BYTES = 4096
"""Bytes of one delta at most. What is there is passed on at once, however little it is."""
_WAITING = 4
"""Deltas that are read ahead."""


async def whole(text: str) -> AsyncGenerator[str]:
    """A text that is all there."""
    for start in range(0, len(text), BLOCK_BYTES):
        yield text[start : start + BLOCK_BYTES]


async def arriving(source: Path | int) -> AsyncGenerator[str]:
    """The UTF-8 text of a file or a file descriptor, in deltas as they can be read; a descriptor is left open.

    Raises:
        Failure: it cannot be read, or is not UTF-8.
    """
    name = str(source) if isinstance(source, Path) else "standard input"
    try:
        descriptor = (
            os.open(source, os.O_RDONLY | getattr(os, "O_BINARY", 0)) if isinstance(source, Path) else os.dup(source)
        )
    except OSError as error:
        raise Failure(f"{name} cannot be read: {error.strerror or error}") from None
    reader = _Reader(descriptor)
    try:
        async for delta in _decoded(reader, name):
            yield delta
    finally:
        reader.leave()


async def read(source: Path | int) -> str:
    """The whole text of a file or a descriptor.

    Raises:
        Failure: as :func:`arriving`.
    """
    return "".join([delta async for delta in arriving(source)])


async def _decoded(reader: "_Reader", name: str) -> AsyncGenerator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    position = 0
    while True:
        block = await reader.next()
        if isinstance(block, OSError):
            raise Failure(f"{name} cannot be read: {block.strerror or block}")
        held = len(decoder.getstate()[0])  # The bytes that are held begin a letter of several bytes.
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            place = position - held + error.start
            raise Failure(f"{name} is not UTF-8 text: {error.reason} at byte {place}") from None
        position += len(block)
        if text:
            yield text
        if not block:
            return


class _Reader:
    """Reads a descriptor in a thread of its own, which a read that never returns may keep for ever.

    ``os.read`` and not ``sys.stdin``: its lock, held by such a thread, would stop the interpreter from ending.
    """

    def __init__(self, descriptor: int) -> None:
        """Read ``descriptor``, which is closed in the end."""
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._blocks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._room = threading.Semaphore(_WAITING)
        self._left = False
        threading.Thread(target=self._run, name="hearsay-text", daemon=True).start()

    async def next(self) -> bytes | OSError:
        """The next block, which is empty at the end; or the error for which there is none."""
        block = await self._blocks.get()
        self._room.release()
        return block

    def leave(self) -> None:
        """Say that nobody wants more."""
        self._left = True
        self._room.release()

    def _run(self) -> None:
        block: bytes | OSError = b" "
        while block and not isinstance(block, OSError):
            self._room.acquire()
            if self._left:
                break
            try:
                block = os.read(self._descriptor, BLOCK_BYTES)
            except OSError as error:
                block = error
            try:
                self._loop.call_soon_threadsafe(self._blocks.put_nowait, block)
            except RuntimeError:  # The loop has ended meanwhile.
                break
        os.close(self._descriptor)
