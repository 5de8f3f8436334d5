"""What a stream still has to tell its client: bounded in bytes, interims coalesced, finals never."""

import asyncio
from collections import deque
from enum import Enum


class _Kind(Enum):
    TEXT = "text"
    INTERIM = "interim"
    SOUND = "sound"


class Outbox:
    """A queue of messages with one reader. ``put`` never waits."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._messages: deque[tuple[bytes, _Kind]] = deque()
        self._wake, self._taken = asyncio.Event(), asyncio.Event()
        self._closed = False
        self.size = 0
        """Bytes waiting."""
        self.coalesced = 0
        """Interims that a newer message replaced."""
        self.overflow = asyncio.Event()
        """Set for good when the bound was reached; what was put then is lost, so the stream must end."""

    def put(self, message: bytes, *, revises: bool = False, revisable: bool = False) -> None:
        """Add a message.

        Args:
            message: JSON text in UTF-8.
            revises: it supersedes the waiting interim just before it, if there is one.
            revisable: it is an interim itself.
        """
        if revises and self._messages and self._messages[-1][1] is _Kind.INTERIM:
            self.size -= len(self._messages.pop()[0])
            self.coalesced += 1
        self._add(message, _Kind.INTERIM if revisable else _Kind.TEXT)

    def put_sound(self, data: bytes) -> None:
        """Add a binary message."""
        self._add(data, _Kind.SOUND)

    def _add(self, message: bytes, kind: _Kind) -> None:
        # One message always fits: it may be larger than a very low bound.
        if self._messages and self.size + len(message) > self._limit:
            self.overflow.set()
            return
        self._messages.append((message, kind))
        self.size += len(message)
        self._wake.set()

    def forget_sound(self) -> None:
        """Take back the binary messages that wait; texts keep their order."""
        self._messages = deque(entry for entry in self._messages if entry[1] is not _Kind.SOUND)
        self.size = sum(len(message) for message, _ in self._messages)
        self._taken.set()

    async def room(self, size: int) -> None:
        """Wait until no more than ``size`` bytes wait. For one who has much to put and wants no overflow."""
        while self.size > size:
            self._taken.clear()
            await self._taken.wait()

    def close(self) -> None:
        """Nothing more will be put."""
        self._closed = True
        self._wake.set()

    async def get(self) -> str | bytes | None:
        """The next message, as soon as there is one; None once closed and empty."""
        while not self._messages:
            if self._closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        message, kind = self._messages.popleft()
        self.size -= len(message)
        self._taken.set()
        return message if kind is _Kind.SOUND else message.decode()
