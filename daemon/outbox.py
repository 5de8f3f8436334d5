"""What a stream still has to tell its client: bounded in bytes, interims coalesced, finals never."""

import asyncio
from collections import deque


class Outbox:
    """A queue of messages with one reader. ``put`` never waits."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._messages: deque[tuple[str, int, bool]] = deque()
        self._wake = asyncio.Event()
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
        if revises and self._messages and self._messages[-1][2]:
            self.size -= self._messages.pop()[1]
            self.coalesced += 1
        if self.size + len(message) > self._limit:
            self.overflow.set()
            return
        self._messages.append((message.decode(), len(message), revisable))
        self.size += len(message)
        self._wake.set()

    def close(self) -> None:
        """Nothing more will be put."""
        self._closed = True
        self._wake.set()

    async def get(self) -> str | None:
        """The next message, as soon as there is one; None once closed and empty."""
        while not self._messages:
            if self._closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        message, size, _ = self._messages.popleft()
        self.size -= size
        return message
