"""One live stream between wire bytes and events: bounded, ordered, counted, cancelled as a whole. Knows no socket.

``push``, ``finalize`` and ``end`` never wait. Two tasks move what they took: one feeds the listener, in a thread that
never waits for a model; the other steps it in the worker pool, as long as there is work. So audio reaches voice
activity and endpoint at once, however long the model is busy with what came before.

Audio gathers for a few tens of milliseconds, so that small frames do not cost a call each. While the listener is behind
it is fed no more: then audio waits here, as the bytes that came. Compressed audio is decoded as it is fed, not before.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

from audio.pcm import DecodeError, Samples, Shape
from audio.wire import ContainerStream, Decoder, RawDecoder
from daemon.hub import Hub
from daemon.metrics import Metrics
from daemon.paths import Endpoint
from daemon.workers import SessionWorker
from streaming.events import Event, Transcript
from streaming.listener import Listener
from streaming.options import ListenOptions

GATHER_SECONDS: Final = 0.06
"""Audio waits at most this long for more before it is fed."""
SLICE_SECONDS: Final = 0.5
"""Most audio fed at once: some milliseconds of computing."""
SLICE_BYTES: Final = 1 << 14
"""The same of what must be decoded: junk between sounds makes no seconds."""
MOST_BEHIND_SECONDS: Final = 4.0
"""A listener that is further behind is fed no more until it is not."""
MOST_FINALIZES: Final = 1000
"""That may wait for their answer."""
UNHEARD_BYTES: Final = 64_000
"""Audio that may wait, in bytes as they came, for each second that may wait: what the listener itself would keep of it
(float32 at 16 kHz). Formats that bring more bytes a second wait for less time."""
_CLOCK_ENTRIES: Final = 2048
"""Arrivals that are remembered: two minutes of live audio."""


class _Mark(Enum):
    """What can stand between two stretches of audio."""

    FINALIZE = "finalize"
    END = "end"


@dataclass(frozen=True, slots=True)
class Said:
    """An event, and ``time.monotonic()`` at which the newest audio, or the mark, that it depends on came in."""

    event: Event
    arrived: float


async def opened(
    hub: Hub,
    endpoint: Endpoint,
    options: ListenOptions,
    names: Mapping[str, str],
    shape: Shape | None,
    held: AsyncExitStack,
    channel: int | None = None,
) -> "HearingStream":
    """A stream of ``endpoint``, which ``held`` closes. The caller holds a slot.

    Args:
        names: of options that the protocol calls something else.
        shape: of raw audio; None: a container.
        channel: the one that is heard; None: all of them mixed.

    Raises:
        Refused: as ``Hub.hear``. FormatError: the shape lies outside its limits.
    """
    rate, settings = hub.hearing_model().model.sample_rate, hub.settings
    if shape is None:
        decoder, feeding = ContainerStream(rate, settings.max_session_seconds), hub.decoding
    else:
        decoder, feeding = RawDecoder(shape, rate, channel), hub.feeding
    worker = await hub.hear(options, names)
    held.push_async_callback(hub.run, decoder.close)
    held.push_async_callback(worker.close)
    return HearingStream(worker, feeding, decoder, settings.max_unheard_seconds, hub.metrics, endpoint.path)


class HearingStream:
    """A stream being heard.

    Args:
        worker: of a listener opened for this stream; the caller closes it.
        feeding: threads that feed listeners, of many streams.
        decoder: of what arrives; the caller closes it, after the worker.
        limit_seconds: how much unheard audio may wait, and that many times ``UNHEARD_BYTES``.
        metrics, path: what counts it, and under which name.
    """

    def __init__(
        self,
        worker: SessionWorker[Listener],
        feeding: ThreadPoolExecutor,
        decoder: Decoder,
        limit_seconds: float,
        metrics: Metrics,
        path: str,
    ) -> None:
        self._worker, self._feeding = worker, feeding
        self.listener: Final = worker.session
        self.decoder: Final = decoder
        self._metrics, self._path = metrics, path
        self._counted = 0.0
        """Seconds of audio that the metrics have."""
        self._limit = limit_seconds
        self._limit_bytes = int(limit_seconds * UNHEARD_BYTES)
        self.full: Final = (
            f"more than {limit_seconds:g} s, or {self._limit_bytes} bytes, of audio arrived that is not heard yet "
            "(max_unheard_seconds)"
        )
        """Why :meth:`push` took nothing."""
        # One buffer instead of a queue of frames: a frame of one byte costs one byte.
        self._audio = bytearray()
        self._pushed = self._taken = self._fed = 0
        """Bytes of the stream: arrived, on their way to the listener, fed."""
        self._arrivals: deque[tuple[int, float]] = deque()
        """(bytes arrived by then, time), an entry for every ``_enough`` bytes or so."""
        self._marks: deque[tuple[int, _Mark, float]] = deque()
        """(bytes before it, mark, time)."""
        self._unanswered: deque[int] = deque()
        """Bytes before each Finalize that has no answer yet."""
        self._clock: deque[tuple[float, float]] = deque(maxlen=_CLOCK_ENTRIES)
        """(seconds on the listener's clock, time at which they had arrived), marks included."""
        self._since = 0.0
        """When the oldest audio that waits here came."""
        self._came, self._moved, self._stepped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        """Something was pushed; the feeding got on; the stepping got on."""
        self._ended = False
        self.fault: DecodeError | None = None
        """Why the audio could be heard only up to some place; the stream has ended there."""

    @property
    def unheard(self) -> float:
        """Seconds of audio that arrived and are not heard yet, those in flight included."""
        return (self._pushed - self._fed) / self.decoder.bytes_per_second + self.listener.behind

    @property
    def arrived(self) -> float:
        """Seconds of audio that were pushed."""
        return self._pushed / self.decoder.bytes_per_second

    @property
    def fed(self) -> float:
        """Seconds of audio that the listener has."""
        return self.listener.seconds

    @property
    def heard(self) -> float:
        """Seconds of audio heard so far."""
        return self.listener.heard

    @property
    def _enough(self) -> int:
        """Bytes that are fed at once, if no more come."""
        return int(GATHER_SECONDS * self.decoder.bytes_per_second)

    # ------------------------------------------------------------------------------------------------- in

    def push(self, data: bytes) -> bool:
        """Take audio, or nothing of it (False) where it would pass the limit. After ``end``, audio is ignored."""
        if self._ended or not data:
            return True
        seconds = self.unheard + len(data) / self.decoder.bytes_per_second
        # How long compressed audio is shows when it is decoded, which waits for the listener.
        too_long = self.decoder.exact and seconds > self._limit
        if too_long or len(self._audio) + len(data) > self._limit_bytes:
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
        self._came.set()
        return True

    def finalize(self) -> bool:
        """Close the open segment after all audio pushed before. Two without audio between them are one.

        False where ``MOST_FINALIZES`` wait: nothing is taken.
        """
        if self._ended or (self._unanswered and self._unanswered[-1] == self._pushed):
            return True
        if len(self._unanswered) >= MOST_FINALIZES:
            return False
        self._unanswered.append(self._pushed)
        self._mark(_Mark.FINALIZE)
        return True

    def end(self) -> None:
        """No more audio. ``batches`` ends after what was pushed. Idempotent."""
        if not self._ended:
            self._ended = True
            self._mark(_Mark.END)

    def _mark(self, mark: _Mark) -> None:
        self._marks.append((self._pushed, mark, time.monotonic()))
        self._came.set()

    # ------------------------------------------------------------------------------------------------ out

    async def batches(self) -> AsyncGenerator[list[Said]]:
        """What was said since the last batch, possibly nothing; ends when all is said. Raises what the listener does.

        Close it to stop: nothing is fed and no step begins after that.
        """
        feeding = asyncio.create_task(self._feed())
        feeding.add_done_callback(lambda _: self._moved.set())
        try:
            while not self.listener.finished:
                if self.listener.ready:
                    due = self.listener.heard
                    events = await self._worker.run(self.listener.step)
                    self._stepped.set()
                    batch = [self._said(event, due) for event in events]
                    self._count(batch)
                    yield batch
                elif feeding.done():
                    feeding.result()
                    raise RuntimeError("the listener has finished and says neither more nor that this is all")
                else:
                    await _woken(self._moved)
                    yield []
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    def _count(self, batch: list[Said]) -> None:
        heard, now = self.heard, time.monotonic()
        self._metrics.audio.labels(self._path).inc(max(0.0, heard - self._counted))
        self._counted = max(heard, self._counted)
        for said in batch:
            if isinstance(said.event, Transcript):
                self._metrics.count(self._path, said.event, now - said.arrived)

    def _said(self, event: Event, due: float) -> Said:
        """``due``: seconds on the listener's clock at which the oldest work before this event's step became due."""
        clock = due
        if isinstance(event, Transcript):
            if event.from_finalize:
                self._unanswered.popleft()
            if not event.is_final:
                clock = event.end
        return Said(event, self._arrived(clock))

    def _arrived(self, clock: float) -> float:
        """When the audio up to ``clock`` had arrived, and the mark that follows it where there is one."""
        found: tuple[float, float] | None = None
        for entry in reversed(self._clock):
            if entry[0] < clock - 1e-6:
                break
            if found is None or entry[0] < found[0]:
                found = entry
        return found[1] if found else time.monotonic()

    # --------------------------------------------------------------------------------------------- feeding

    async def _feed(self) -> None:
        """Feed the listener slice by slice and mark by mark, until the end."""
        mark = None
        while mark is not _Mark.END:
            await self._due()
            data, arrived, mark = self._take()
            pieces = self.decoder.pieces(data, last=mark is _Mark.END)
            done = False
            while not done:
                while self.listener.behind > MOST_BEHIND_SECONDS:
                    await _woken(self._stepped)
                waiting = len(self._audio) / self.decoder.bytes_per_second
                done = await self._worker.beside(self._feeding, partial(self._give, pieces, mark, waiting))
                self._clock.append((self.listener.seconds, arrived))
                self._moved.set()
            self._fed += len(data)
            if self.fault is not None:
                self._ended, mark = True, _Mark.END

    async def _due(self) -> None:
        """Until there is something to feed and either enough of it, or a mark, or it has waited long enough."""
        while not self._audio and not self._marks:
            await _woken(self._came)
        try:
            async with asyncio.timeout_at(
                asyncio.get_running_loop().time() + self._since + GATHER_SECONDS - time.monotonic()
            ):
                while len(self._audio) < self._enough and not self._marks:
                    await _woken(self._came)
        except TimeoutError:
            pass

    def _take(self) -> tuple[bytes, float, _Mark | None]:
        """The next slice, up to the next mark, and that mark where the slice reaches it."""
        most = int(SLICE_SECONDS * self.decoder.bytes_per_second)
        if not self.decoder.exact:
            most = min(most, SLICE_BYTES)
        end = min(self._pushed, self._taken + most, self._marks[0][0] if self._marks else self._pushed)
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

    def _give(self, pieces: Iterator[Samples], mark: _Mark | None, waiting: float) -> bool:
        """In a feeding thread: feed what ``pieces`` holds, at most a slice, ``waiting`` seconds behind it; whether that
        was all of it."""
        began = self.listener.seconds
        try:
            for samples in pieces:
                self.listener.feed(samples, waiting)
                if self.listener.seconds - began >= SLICE_SECONDS:
                    return False
        except DecodeError as error:
            self.fault, mark = error, _Mark.END
        if mark is _Mark.FINALIZE:
            self.listener.finalize()
        elif mark is _Mark.END:
            self.listener.finish()
        return True


async def _woken(event: asyncio.Event) -> None:
    """Until ``event`` is set from now on."""
    event.clear()
    await event.wait()
