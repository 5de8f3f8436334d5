"""Text to be spoken, as it arrives: an argument, a file, or standard input while somebody still writes to it."""

import asyncio
import codecs
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

from commands.console import Failure

BLOCK_BYTES = 4096
"""Most bytes of a delta. What is there is passed on at once, however little it is."""
_WAITING = 4
"""Deltas read ahead."""


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
        descriptor = os.open(source, os.O_RDONLY) if isinstance(source, Path) else os.dup(source)
    except OSError as error:
        raise Failure(f"{name} cannot be read: {error.strerror or error}") from None
    reader = _Reader(descriptor)
    decoder = codecs.getincrementaldecoder("utf-8")()
    position = 0
    while True:
        block = await reader.next()
        if isinstance(block, OSError):
            raise Failure(f"{name} cannot be read: {block.strerror or block}")
        held = len(decoder.getstate()[0])  # the beginning of a letter of several bytes
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
        """``descriptor`` is closed in the end."""
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._blocks: asyncio.Queue[bytes | OSError] = asyncio.Queue(_WAITING)
        threading.Thread(target=self._run, name="hearsay-text", daemon=True).start()

    async def next(self) -> bytes | OSError:
        """The next block, empty at the end, or why there is none."""
        return await self._blocks.get()

    def _run(self) -> None:
        # Whoever wanted the text may be gone: its loop is closed then, or the waiting put is cancelled.
        with contextlib.suppress(RuntimeError, concurrent.futures.CancelledError):
            block: bytes | OSError = b" "
            while block and not isinstance(block, OSError):
                try:
                    block = os.read(self._descriptor, BLOCK_BYTES)
                except OSError as error:
                    block = error
                asyncio.run_coroutine_threadsafe(self._blocks.put(block), self._loop).result()
        os.close(self._descriptor)
