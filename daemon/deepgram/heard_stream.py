"""A stream that is heard while it comes: what ``/v1/listen`` and ``/v2/listen`` share.

Every channel that is heard for itself has a listener of its own and counts as a session. In good order: the buffered
audio is heard, what was said is written, an Error where there was one, then the close code (``daemon.duplex``).
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import ClassVar

from starlette.types import Receive, Send

from audio.pcm import Shape
from audio.wav_header import NotRaw
from daemon import hearing
from daemon.deepgram.listen_query import NAMES
from daemon.duplex import Duplex, Ending
from daemon.hearing import HearingStream
from daemon.hub import Hub
from daemon.paths import Endpoint
from streaming.events import Event
from streaming.options import ListenOptions


@asynccontextmanager
async def opened(
    hub: Hub, endpoint: Endpoint, options: ListenOptions, shape: Shape | None, channels: int | None = None
) -> AsyncGenerator[list[HearingStream]]:
    """A stream being heard, in the slot of the request, or one for each of ``channels``, each in a slot of its own.

    Args:
        shape: of raw audio; None: a container, whose channels are mixed.

    Raises:
        Refused: as ``Hub.hear``; 429 where not every channel has a slot.
    """
    async with AsyncExitStack() as stack:
        streams: list[HearingStream] = []
        for channel in [None] if channels is None else range(channels):
            if channel:
                await stack.enter_async_context(hub.hearing_slot())
            streams.append(await hearing.opened(hub, endpoint, options, NAMES, shape, stack, channel))
        yield streams


class HeardStream(Duplex):
    """One connection, from accept to close. Every stream of ``streams`` gets all the bytes."""

    _faults: ClassVar[tuple[str, str]]
    """Names of audio that is not raw as declared, and of what cannot be decoded."""
    _full: ClassVar[str]
    """Name of more audio than may wait."""

    def __init__(self, hub: Hub, streams: Sequence[HearingStream], receive: Receive, send: Send) -> None:
        super().__init__(hub, receive, send)
        self._streams = streams

    @abstractmethod
    def _hear(self, channel: int, event: Event) -> None:
        """Something was heard in a channel."""

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
        """Close what is open in every channel; False where too many such wait."""
        return all([stream.finalize() for stream in self._streams])

    def _wind_up(self, ending: Ending) -> None:
        """Hear what is there."""
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
