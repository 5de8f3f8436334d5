"""One live stream between wire bytes and events: bounded, ordered, one call at a time. Knows no socket.

``push`` never waits. A single consumer iterates ``batches``; each batch is what one call to the listener brought. Audio
gathers for a few tens of milliseconds, so that small frames do not cost a call each, and a backlog is heard in slices,
so that a stream that is far behind still brings its texts one after another.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

import numpy as np

from daemon.calls import Hearing
from streaming.events import Event
from streaming.pcm import PcmDecoder

GATHER_SECONDS: Final = 0.06
"""Audio waits at most this long for more before it is heard."""
SLICE_SECONDS: Final = 8.0
"""Most audio of one call."""
MOST_FINALIZES: Final = 1000
"""That may wait for the audio before them to be heard."""


class Mark(Enum):
    """What can stand between two stretches of audio."""

    FINALIZE = "finalize"
    END = "end"


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call brought.

    ``arrived``: ``time.monotonic()`` at which the newest audio of the call, or its mark, came in. ``heard``: seconds of
    audio in this call. ``mark``: what it answers, if any.
    """

    events: list[Event]
    arrived: float
    heard: float
    mark: Mark | None


class Session:
    """A stream being heard.

    Args:
        hearing: opened for this session; the caller closes it.
        decoder: of the wire format.
        bytes_per_second: of the wire format.
        sample_rate: the model's, Hz.
        limit_seconds: how much unheard audio may wait.
    """

    def __init__(
        self, hearing: Hearing, decoder: PcmDecoder, bytes_per_second: int, sample_rate: int, limit_seconds: float
    ) -> None:
        self._hearing, self._decoder = hearing, decoder
        self._bytes_per_second, self._sample_rate = bytes_per_second, sample_rate
        self._limit = int(limit_seconds * bytes_per_second)
        self._slice = int(SLICE_SECONDS * bytes_per_second)
        self._enough = int(GATHER_SECONDS * bytes_per_second)
        # One buffer instead of a queue of frames: a frame of one byte costs one byte.
        self._audio = bytearray()
        self._pushed = self._taken = self._done = 0
        """Bytes of the stream: arrived, handed to the listener, heard."""
        self._arrivals: deque[tuple[int, float]] = deque()
        """(bytes arrived by then, time), an entry for every ``_enough`` bytes or so."""
        self._marks: deque[tuple[int, Mark, float]] = deque()
        """(bytes before it, mark, time)."""
        self._since = 0.0
        """When the oldest waiting audio came."""
        self._wake = asyncio.Event()
        self._ended = False
        self.heard = 0.0
        """Seconds of audio heard so far."""
        self.cut_bytes = 0
        """After the end: bytes of an incomplete frame that were dropped."""

    @property
    def unheard(self) -> float:
        """Seconds of audio that arrived and are not heard yet, those in flight included."""
        return (self._pushed - self._done) / self._bytes_per_second

    def push(self, data: bytes) -> bool:
        """Take audio, or nothing of it (False) where it would pass the limit. After ``end``, audio is ignored."""
        if self._ended or not data:
            return True
        if self._pushed - self._done + len(data) > self._limit:
            return False
        now = time.monotonic()
        if not self._audio:
            self._since = now
        self._audio += data
        begun = self._arrivals[-2][0] if len(self._arrivals) > 1 else self._taken
        if self._arrivals and self._pushed - begun < self._enough:
            self._arrivals.pop()
        self._pushed += len(data)
        self._arrivals.append((self._pushed, now))
        self._wake.set()
        return True

    def finalize(self) -> bool:
        """Close the open segment once all audio pushed before is heard. Two without audio between them are one.

        False where ``MOST_FINALIZES`` wait: nothing is taken.
        """
        if self._ended or (self._marks and self._marks[-1][:2] == (self._pushed, Mark.FINALIZE)):
            return True
        if len(self._marks) >= MOST_FINALIZES:
            return False
        self._mark(Mark.FINALIZE)
        return True

    def end(self) -> None:
        """No more audio. ``batches`` ends after what was pushed. Idempotent."""
        if not self._ended:
            self._ended = True
            self._mark(Mark.END)

    def _mark(self, mark: Mark) -> None:
        self._marks.append((self._pushed, mark, time.monotonic()))
        self._wake.set()

    async def batches(self) -> AsyncIterator[Batch]:
        """What is heard, call by call; ends with the batch of ``Mark.END``. Raises what the listener raises."""
        while True:
            await self._due()
            data, arrived, mark = self._take()
            events, samples = await self._hearing.run(partial(self._hear, data, mark))
            self._done += len(data)
            seconds = samples / self._sample_rate
            self.heard += seconds
            yield Batch(events, arrived, seconds, mark)
            if mark is Mark.END:
                return

    async def _due(self) -> None:
        """Until there is something to hear and either enough of it, or a mark, or it has waited long enough."""
        while not self._audio and not self._marks:
            await self._woken()
        try:
            async with asyncio.timeout_at(
                asyncio.get_running_loop().time() + self._since + GATHER_SECONDS - time.monotonic()
            ):
                while len(self._audio) < self._enough and not self._marks:
                    await self._woken()
        except TimeoutError:
            pass

    async def _woken(self) -> None:
        self._wake.clear()
        await self._wake.wait()

    def _take(self) -> tuple[bytes, float, Mark | None]:
        """The next slice, up to the next mark, and that mark where the slice reaches it."""
        end = min(self._pushed, self._taken + self._slice, self._marks[0][0] if self._marks else self._pushed)
        data = bytes(self._audio[: end - self._taken])
        del self._audio[: end - self._taken]
        self._taken = end
        arrived = self._arrivals[0][1] if self._arrivals else 0.0
        while self._arrivals and self._arrivals[0][0] <= end:
            arrived = self._arrivals.popleft()[1]
        if self._marks and self._marks[0][0] == end:
            _, mark, at = self._marks.popleft()
            return data, at, mark
        return data, arrived, None

    def _hear(self, data: bytes, mark: Mark | None) -> tuple[list[Event], int]:
        """In a worker thread."""
        listener, samples = self._hearing.listener, self._decoder.decode(data)
        if mark is Mark.END:
            self.cut_bytes = self._decoder.held_bytes
            samples = np.concatenate((samples, self._decoder.flush()))
        events: list[Event] = list(listener.feed(samples)) if samples.size else []
        if mark is Mark.FINALIZE:
            events += listener.finalize()
        elif mark is Mark.END:
            events += listener.finish()
        return events, samples.size
