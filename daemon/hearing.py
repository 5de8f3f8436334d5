"""One live stream between wire bytes and events: bounded, ordered, counted, cancelled as a whole. It knows no socket.

``push``, ``finalize`` and ``end`` only put bytes and marks in line. What is in line is heard in a thread of
``daemon/ears.py``: bytes become samples, and the listener's clock finds what is due. The model's lane does that, piece
after piece (``streaming/listener.py``), and what is said comes back to the event loop. So audio reaches voice activity
and endpoint at once, however long the model is busy with what came before.

Small pieces of audio gather for a few tens of milliseconds, until moments that all streams share, so that they do not
cost a turn each. While the listener is behind it is fed no more: then audio waits here, as the bytes that came.
Compressed audio is decoded as it is fed, not before.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

from audio.pcm import DecodeError, Samples, Shape
from audio.sound import Wanted
from audio.wire import ContainerStream, Decoder, RawDecoder
from daemon.ears import Ears
from daemon.hub import Hub
from daemon.metrics import Metrics
from daemon.paths import Endpoint
from daemon.workers import SessionWorker
from engines.lane import Cancelled, Steps
from streaming.events import Event, Transcript
from streaming.listener import Listener, Told
from streaming.options import ListenOptions

GATHER_SECONDS: Final = 0.04
"""Less audio than this waits for more until the clock is next at a multiple of it; as much as this is fed at once,
because a final would be that much later."""
SLICE_SECONDS: Final = 0.5
"""Most audio that is fed at once, which takes some milliseconds."""
SLICE_BYTES: Final = 1 << 14
"""Most bytes that are decoded at once: junk between sounds makes no seconds."""
MOST_BEHIND_SECONDS: Final = 4.0
"""A listener that is further behind is fed no more until it has caught up."""
MOST_FINALIZES: Final = 1000
"""How many Finalizes may wait for their answer."""
MUTED_SECONDS: Final = 1.0
"""Seconds by the wall clock without audio after which silence is assumed: a muted microphone sends no frames, and the
last words before it should not wait. A network that stands still for so long is taken for a muted microphone, and its
clients see a second's pause."""
_LONGEST_GAP_SECONDS: Final = 5.0
"""Most that is added to ``MUTED_SECONDS`` for a client that sends seldom: browsers record in pieces of some seconds."""
_LOOK_SECONDS: Final = 0.25
"""How often a stream looks whether that time has passed."""
_STILL_SECONDS: Final = 0.5
"""A look that is later than this was held up, with the whole process or machine (a laptop slept): audio that came
meanwhile is not read yet, so the time does not count as one without audio."""
UNHEARD_BYTES: Final = 64_000
"""Bytes of audio, as they came, that may wait for each second that may wait: the listener itself would keep so many of
a second (float32 at 16 kHz). Of formats that bring more bytes a second fewer seconds may wait."""
_CLOCK_ENTRIES: Final = 2048
"""How many arrivals are remembered: those of a minute and a half of live audio."""
_MOST_TOLD: Final = 64
"""How many batches may wait for somebody to take them, before no more work is begun."""


class _Mark(Enum):
    """Something that can stand between two stretches of audio."""

    FINALIZE = "finalize"
    END = "end"


@dataclass(frozen=True, slots=True)
class Said:
    """An event, and the time by ``time.monotonic()`` at which the newest audio or mark that it depends on came in."""

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
    track: int | None = None,
) -> "HearingStream":
    """Open a stream of ``endpoint``, which ``held`` closes. The caller holds a slot.

    Args:
        names: of options that the protocol calls something else.
        shape: of raw audio; None: a container.
        channel: the one that is heard; None: all of them mixed.
        track: of a container, as ``audio.sound.Wanted`` says.

    Raises:
        Refused: as ``Hub.hear``. FormatError: the shape lies outside its limits.
    """
    model, settings = hub.hearing_model().model, hub.settings
    rate = model.sample_rate
    if shape is None:
        wanted = Wanted(rate, track=track, speaks=model.speaks)
        decoder, ears = ContainerStream(wanted, settings.max_session_seconds), next(hub.decoding)
    else:
        decoder, ears = RawDecoder(shape, rate, channel), hub.ears
    worker = await hub.hear(options, names)
    held.push_async_callback(hub.run, decoder.close)
    held.push_async_callback(worker.close)
    return HearingStream(worker, ears, decoder, settings.max_unheard_seconds, hub.metrics, endpoint.path)


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some bytes on their way to the listener: their number, the samples that they make, the mark behind them, and when
    they, or it, had arrived."""

    size: int
    pieces: Iterator[Samples]
    mark: _Mark | None
    arrived: float


class HearingStream:
    """A stream being heard.

    Args:
        worker: of a listener opened for this stream; the caller closes it.
        ears: where it hears.
        decoder: of what arrives; the caller closes it, after the worker.
        limit_seconds: how much unheard audio may wait, and that many times ``UNHEARD_BYTES``.
        metrics, path: what counts it, and under which name.
    """

    def __init__(
        self,
        worker: SessionWorker[Listener],
        ears: Ears,
        decoder: Decoder,
        limit_seconds: float,
        metrics: Metrics,
        path: str,
    ) -> None:
        self._worker, self._ears = worker, ears
        self.listener: Final = worker.session
        self.decoder: Final = decoder
        self._rate: Final = self.listener.sample_rate
        self._metrics, self._path = metrics, path
        self._counted = 0.0
        """How many seconds of audio the metrics have counted."""
        self._limit = limit_seconds
        self._limit_bytes = int(limit_seconds * UNHEARD_BYTES)
        self.full: Final = (
            f"more than {limit_seconds:g} s, or {self._limit_bytes} bytes, of audio arrived that is not heard yet "
            "(max_unheard_seconds)"
        )
        """Why :meth:`push` took nothing."""
        self.due = math.inf
        """See ``daemon.ears.Ear``."""
        self._lock = threading.Lock()
        """It guards what is in line: the bytes and marks, what is known of when they came, and ``due``."""
        # This is one buffer and no queue of frames, so that a frame of one byte costs one byte.
        self._audio = bytearray()
        self._pushed = self._taken = self._fed = 0
        """How many bytes of the stream have arrived, were taken from the buffer, and were fed."""
        self._arrivals: deque[tuple[int, float]] = deque()
        """Pairs of the bytes that had arrived and the time, one for every ``_enough`` bytes or so."""
        self._marks: deque[tuple[int, _Mark, float]] = deque()
        """Each mark with the bytes before it and the time at which it came."""
        self._unanswered: deque[int] = deque()
        """For each Finalize that has no answer yet, the bytes before it."""
        self._clock: deque[tuple[float, float]] = deque(maxlen=_CLOCK_ENTRIES)
        """Pairs of seconds on the listener's clock and the time at which they, or the mark behind them, had arrived."""
        self._pushed_at = self._stepped_at = self._woke_at = 0.0
        """The times by ``time.monotonic()`` at which audio last came, the listener last said something, and a look was
        last held up."""
        self._gap: float | None = None
        """The longest time between two pieces of audio, mutes left out; at first the length of the only piece."""
        self._gap_is_guessed = True
        self._resting, self._muted = False, False
        """Whether silence would end something that is open, and whether it is assumed since audio last came."""
        self._slice: _Slice | None = None
        """The slice that is being heard."""
        self._told: deque[Told] = deque()
        """What was said and nobody has taken yet."""
        self._came = asyncio.Event()
        """It is set when something was said."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held = False
        """Whether the listener was told to begin no more work."""
        self._ended = False
        self.fault: DecodeError | None = None
        """Tells why the audio could be heard only up to some place, where the stream has then ended."""

    @property
    def unheard(self) -> float:
        """Seconds of audio that arrived and are not heard yet, those on their way included."""
        return (self._pushed - self._fed) / self.decoder.bytes_per_second + self.listener.behind

    @property
    def arrived(self) -> float:
        """Seconds of audio that have arrived."""
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
        """How many bytes do not wait for more."""
        return int(GATHER_SECONDS * self.decoder.bytes_per_second)

    # ------------------------------------------------------------------------------------------------- in

    def push(self, data: bytes) -> bool:
        """Take audio, or nothing of it and return False where it would pass the limit. After ``end`` it is ignored."""
        if self._ended or not data:
            return True
        with self._lock:
            return self._pushed_in(data)

    def _pushed_in(self, data: bytes) -> bool:
        seconds = self.unheard + len(data) / self.decoder.bytes_per_second
        # How long compressed audio is shows only when it is decoded, which waits for the listener.
        too_long = self.decoder.exact and seconds > self._limit
        if too_long or len(self._audio) + len(data) > self._limit_bytes:
            return False
        now = time.monotonic()
        if self._gap is None:
            self._gap = len(data) / self.decoder.bytes_per_second
        elif not self._muted:
            self._gap = now - self._pushed_at if self._gap_is_guessed else max(self._gap, now - self._pushed_at)
            self._gap_is_guessed = False
        self._pushed_at, self._muted = now, False
        self._audio += data
        begun = self._arrivals[-2][0] if len(self._arrivals) > 1 else self._taken
        if self._arrivals and self._pushed - begun < self._enough:
            self._arrivals.pop()
        self._pushed += len(data)
        self._arrivals.append((self._pushed, now))
        enough = self._pushed - self._taken >= self._enough
        self._is_due(now if enough else _next_moment())
        return True

    def finalize(self) -> bool:
        """Close the open segment after all audio pushed before. Two calls without audio between them are one.

        Where ``MOST_FINALIZES`` wait it returns False and takes nothing.
        """
        if self._ended or (self._unanswered and self._unanswered[-1] == self._pushed):
            return True
        if len(self._unanswered) >= MOST_FINALIZES:
            return False
        self._unanswered.append(self._pushed)
        self._mark(_Mark.FINALIZE)
        return True

    def end(self) -> None:
        """Say that no more audio comes. ``batches`` ends after what was pushed. Idempotent."""
        if not self._ended:
            self._ended = True
            self._mark(_Mark.END)

    def _mark(self, mark: _Mark) -> None:
        with self._lock:
            now = time.monotonic()
            self._marks.append((self._pushed, mark, now))
            self._is_due(now)

    def _is_due(self, when: float) -> None:
        """Note that there is something to hear from ``when`` on."""
        if when < self.due:
            self.due = when
            self._ears.wake(when)

    # ------------------------------------------------------------------------------------------------ out

    async def batches(self) -> AsyncGenerator[list[Said]]:
        """Yield what was said since the last batch, until all is said. It raises what the listener raises.

        Close it to stop: nothing is heard and no piece of work begins after that.
        """
        self._loop = asyncio.get_running_loop()
        self._ears.join(self)
        self.listener.attach(self._tell)
        try:
            while True:
                while not self._told:
                    self._came.clear()
                    await self._came.wait()
                told = self._told.popleft()
                if self._held and not self._told:
                    with self._lock:
                        self._is_due(time.monotonic())
                if told.error is not None:
                    raise told.error
                batch = [self._said(event, told.due) for event in told.events]
                self._count(batch)
                if batch:
                    yield batch
                if told.finished:
                    return
        finally:
            await self._worker.run(partial(self._ears.leave, self))

    def _tell(self, told: Told) -> None:
        """Pass on to the event loop what the listener tells, from whatever thread that is."""
        self._stepped_at = time.monotonic()
        with suppress(RuntimeError):  # The loop is closed, so nobody waits.
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._receive, told)

    def _receive(self, told: Told) -> None:
        self._worker.moved()
        self.listener.beside()
        self._told.append(told)
        self._came.set()
        if len(self._told) > _MOST_TOLD:
            with self._lock:
                self._is_due(time.monotonic())

    def _count(self, batch: list[Said]) -> None:
        heard, now = self.heard, time.monotonic()
        self._metrics.audio.labels(self._path).inc(max(0.0, heard - self._counted))
        self._counted = max(heard, self._counted)
        for said in batch:
            if isinstance(said.event, Transcript):
                self._metrics.count(self._path, said.event, now - said.arrived)

    def _said(self, event: Event, due: float) -> Said:
        """``due`` is the time on the listener's clock at which the oldest work before this event became due."""
        clock = due
        if isinstance(event, Transcript):
            if event.from_finalize:
                self._unanswered.popleft()
            if not event.is_final:
                clock = event.end
        return Said(event, self._arrived(clock))

    def _arrived(self, clock: float) -> float:
        """Find when the audio up to ``clock`` had arrived, and the mark that follows it where there is one."""
        found: tuple[float, float] | None = None
        for entry in reversed(list(self._clock)):  # It is copied because the ears go on writing.
            if entry[0] < clock - 1e-6:
                break
            if found is None or entry[0] < found[0]:
                found = entry
        return found[1] if found else time.monotonic()

    # --------------------------------------------------------------------------------------------- feeding

    def hear(self) -> Steps[None]:
        """Feed a slice, up to the next mark; see ``daemon.ears.Ear``."""
        with self._lock:
            late, self.due = time.monotonic() - self.due, math.inf
        try:
            if late > _STILL_SECONDS:
                self._woke_at = time.monotonic()
            if self._held is not (len(self._told) > (0 if self._held else _MOST_TOLD)):
                self._held = not self._held
                self.listener.hold(self._held)
            behind = self.listener.behind > MOST_BEHIND_SECONDS
            if not behind:
                self._slice = self._slice or self._take()
                if self._slice is None:
                    self._rest()
                else:
                    self._worker.moved()
                    if (yield from self._give(self._slice)):
                        self._slice = None
        except Cancelled:
            return
        except Exception as error:
            self._tell(Told([], 0.0, error=error))
            return
        with self._lock:
            if not behind and (self._slice or self._marks or len(self._audio) >= self._most):
                self._is_due(time.monotonic())
            elif self._slice or self._audio or self._marks:
                self._is_due(_next_moment())
            elif self._resting:
                self._is_due(time.monotonic() + _LOOK_SECONDS)

    def _rest(self) -> None:
        """Assume silence where nothing has come for long enough, and all that came is heard."""
        quiet = time.monotonic() - max(self._pushed_at, self._stepped_at, self._woke_at)
        if (
            self._resting
            and quiet >= MUTED_SECONDS + min(self._gap or 0.0, _LONGEST_GAP_SECONDS)
            and not self.listener.ready
        ):
            self._muted = True
            self._clock.append((self.listener.seconds, self._pushed_at))
            self._resting = self.listener.rest(quiet)

    def _take(self) -> _Slice | None:
        """Take the next slice from the buffer, up to the next mark, and that mark where the slice reaches it."""
        with self._lock:
            if not self._audio and not self._marks:
                return None
            end = min(self._pushed, self._taken + self._most, self._marks[0][0] if self._marks else self._pushed)
            data = bytes(self._audio[: end - self._taken])
            del self._audio[: end - self._taken]
            self._taken = end
            arrived = self._arrivals[0][1] if self._arrivals else 0.0
            while self._arrivals and self._arrivals[0][0] <= end:
                arrived = self._arrivals.popleft()[1]
            mark = None
            if self._marks and self._marks[0][0] == end:
                _, mark, arrived = self._marks.popleft()
        return _Slice(len(data), self.decoder.pieces(data, last=mark is _Mark.END), mark, arrived)

    @property
    def _most(self) -> int:
        """Most bytes of a slice."""
        most = int(SLICE_SECONDS * self.decoder.bytes_per_second)
        return most if self.decoder.exact else min(most, SLICE_BYTES)

    def _give(self, taken: _Slice) -> Steps[bool]:
        """Feed what ``taken`` holds, at most a slice, and return whether that was all of it."""
        began, mark = self.listener.seconds, taken.mark
        waiting = len(self._audio) / self.decoder.bytes_per_second
        try:
            for samples in filter(len, taken.pieces):
                self._clock.append((self.listener.seconds + len(samples) / self._rate, taken.arrived))
                yield from self.listener.hear(samples, waiting)
                if self.listener.seconds - began >= SLICE_SECONDS:
                    self._resting = True
                    return False
        except DecodeError as error:
            self.fault, mark, self._ended = error, _Mark.END, True
        self._resting = True
        self._fed += taken.size
        if mark is not None:
            self._clock.append((self.listener.seconds, taken.arrived))
        if mark is _Mark.FINALIZE:
            self.listener.finalize()
        elif mark is _Mark.END:
            self.listener.finish()
            self._resting = False
        return True


def _next_moment() -> float:
    """Give the time by ``time.monotonic()`` at which streams next hear what they have."""
    return (time.monotonic() // GATHER_SECONDS + 1) * GATHER_SECONDS
