"""A stream that is heard while it comes: what the doors share at which audio streams in and text comes back.

Every channel that is heard for itself has a listener of its own and counts as a session. In good order: the buffered
audio is heard, what was said is written, an Error where there was one, then the close code (``daemon.duplex``).
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import ClassVar

from starlette.types import Receive, Send

from audio.pcm import Shape
from audio.wav_header import NotRaw
from daemon import hearing
from daemon.duplex import Duplex, Ending
from daemon.hearing import HearingStream
from daemon.hub import Hub
from daemon.paths import Endpoint
from streaming.events import Event
from streaming.options import ListenOptions


@asynccontextmanager
async def open_streams(
    hub: Hub,
    endpoint: Endpoint,
    options: ListenOptions,
    names: Mapping[str, str],
    shape: Shape | None,
    channels: int | None = None,
    track: int | None = None,
) -> AsyncGenerator[list[HearingStream]]:
    """Open a stream that is heard, in the slot of the request; for ``channels`` one each, every one in a slot of its
    own.

    Args:
        names: of options that the protocol calls something else.
        shape: of raw audio; None: a container, of which one ``track`` is heard and its channels are mixed.

    Raises:
        Refused: as ``Hub.hear``; 429 where not every channel has a slot.
    """
    async with AsyncExitStack() as stack:
        streams: list[HearingStream] = []
        for channel in [None] if channels is None else range(channels):
            if channel:
                await stack.enter_async_context(hub.hearing_slot())
            streams.append(await hearing.opened(hub, endpoint, options, names, shape, stack, channel, track))
        yield streams


class HeardStream(Duplex):
    """One connection, from accept to close. Every stream of ``streams`` gets all bytes."""

    _faults: ClassVar[tuple[str, str]]
    """The names of two errors: audio that is not raw as declared, and audio that cannot be decoded."""
    _full: ClassVar[str]
    """The name of the error that more audio came than may wait."""

    def __init__(self, hub: Hub, streams: Sequence[HearingStream], receive: Receive, send: Send) -> None:
        super().__init__(hub, receive, send)
        self._streams = streams

    @abstractmethod
    def _hear(self, channel: int, event: Event) -> None:
        """Take an event that was heard in a channel."""

    @property
    def _waiting(self) -> float:
        return sum(stream.unheard for stream in self._streams)

    def _take_bytes(self, data: bytes) -> None:
        if self._ending is None:
            self._alive_at = time.monotonic()
            for stream in self._streams:
                if not stream.push(data):
                    self._end(Ending(1008, self._full, stream.full))

    def _finalize(self) -> bool:
        """Close the open segment of every channel; returns False where too many such requests wait."""
        return all([stream.finalize() for stream in self._streams])

    def _wind_up(self, ending: Ending) -> None:
        """Hear the audio that has come."""
        del ending
        for stream in self._streams:
            stream.end()

    async def _work(self) -> None:
        """Turn audio into messages until the stream's end."""
        try:
            async with asyncio.TaskGroup() as channels:
                for channel in range(len(self._streams)):
                    channels.create_task(self._work_channel(channel))
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None
        fault = next((stream.fault for stream in self._streams if stream.fault is not None), None)
        if fault is not None:
            self._ending = Ending(1008, self._faults[not isinstance(fault, NotRaw)], str(fault))

    async def _work_channel(self, channel: int) -> None:
        async with aclosing(self._streams[channel].batches()) as batches:
            async for batch in batches:
                for said in batch:
                    self._hear(channel, said.event)
