"""One speaker between text and encoded audio, for which the model's lane makes and encodes a group of frames at a time.
Knows no socket.

``say``, ``flush``, ``clear`` and ``finish`` never wait. A single consumer iterates ``batches`` and, by not asking for
the next one, holds the speaker back: at most one group's codes are made ahead of it.

How much a client has to play is estimated from what was sent and the time since. A group is as large as that allows,
and due when the client runs dry: so nobody runs ever further ahead while others stutter.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from audio.encoder import Encoder
from codec.arrival import Arrival
from codec.events import AudioChunk, Cleared, Event, Finished
from codec.speaker import Speaker
from daemon.metrics import Metrics
from daemon.workers import SessionWorker
from engines.lane import Steps, Task


@dataclass(frozen=True, slots=True)
class Sound:
    """Encoded audio. ``data`` may be empty: encoders hold back; ``seconds``: playing time of the samples."""

    data: bytes
    seconds: float


Item = Sound | Event
"""What a batch holds, in order: every ``AudioChunk`` as ``Sound``, all other events as they are."""


class Playback:
    """One client. Assumes that it plays what it gets at once and without a pause, and waits where it has nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.ends_at = 0.0
        """Time by the clock at which the client has played everything."""

    @property
    def buffered(self) -> float:
        """Seconds of audio sent and not yet played."""
        return max(0.0, self.ends_at - self._clock())

    def sent(self, seconds: float) -> None:
        """Audio of that length goes out."""
        self.ends_at = max(self.ends_at, self._clock()) + seconds

    def clear(self) -> None:
        """The client forgets what it has."""
        self.ends_at = 0.0


class SpeechStream:
    """A text being spoken.

    Args:
        worker: of a speaker opened for this session; the caller closes it.
        encoder: of the wire format; the caller closes it.
        path: whose metrics it counts in.
    """

    def __init__(self, worker: SessionWorker[Speaker], encoder: Encoder, metrics: Metrics, path: str) -> None:
        self.speaker = worker.session
        self._worker, self._encoder = worker, encoder
        self._first_audio, self._spoken = metrics.first_audio, metrics.spoken.labels(path)
        self._playback, self._arrival = Playback(), Arrival()
        self._group: Task[list[Item]] | None = None
        """The group of frames that is being made."""
        self._wake = asyncio.Event()
        self._asked_at: float | None = None
        """When text came that is not answered by audio yet, to a speaker that had nothing to say."""
        self._idle = True
        self._clearing = -1
        """Number of the newest clear whose ``Cleared`` has not come, or −1."""
        self.seconds = 0.0
        """Audio given out."""

    # ------------------------------------------------------------------------------------------------- in

    def say(self, text: str) -> None:
        """Append text.

        Raises:
            engines.sessions.OptionError: too much of it waits; nothing is taken.
        """
        self.speaker.say(text)
        self._arrival.came(len(text))
        if self._idle and self._asked_at is None:
            self._asked_at = time.monotonic()
        self._wake.set()

    def flush(self) -> int:
        """What was said is complete. Returns the number that ``Flushed`` will carry."""
        number = self.speaker.flush()
        self._arrival.begins_anew()
        self._wake.set()
        return number

    def clear(self) -> None:
        """Forget everything said so far: from now on no audio comes before ``Cleared``, and then none of it."""
        self._clearing = self.speaker.clear()
        self._arrival.begins_anew()
        self._playback.clear()
        if self._group is not None:  # The clear is answered where it ends.
            self._group.deadline = time.monotonic()
            self.speaker.lane.wake()
        self._asked_at = None
        self._wake.set()

    def finish(self) -> None:
        """No more text follows."""
        self.speaker.finish()
        self._wake.set()

    @property
    def clearing(self) -> bool:
        """Whether a ``Cleared`` has been asked for and not come yet."""
        return self._clearing >= 0

    @property
    def busy_until(self) -> float:
        """``time.monotonic()`` until which there is something to say or, for the client, to play."""
        return self._playback.ends_at if self._idle else time.monotonic()

    @property
    def unplayed(self) -> float:
        """Seconds of audio that the client has and, by the clock, has not played."""
        return self._playback.buffered

    # ------------------------------------------------------------------------------------------------ out

    async def batches(self) -> AsyncIterator[list[Item]]:
        """What is spoken, group by group; ends with the batch that holds ``Finished``. Raises what the speaker does."""
        while True:
            self._wake.clear()
            hold = self._holds()
            due = max(self._playback.ends_at, time.monotonic())
            self._group = Task(self._made(hold), owner=self.speaker.owner, deadline=due)
            items = self._given(await self._worker.done(self.speaker.lane, self._group))
            if items:
                yield items
                if isinstance(items[-1], Finished):
                    return
            elif not self.speaker.wait(0):
                self._idle = not hold
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, self._arrival.idle_in) if hold else None):
                        await self._wake.wait()
                self._idle = False

    async def items(self, room: Callable[[int], Awaitable[None]]) -> AsyncIterator[Item]:
        """What is spoken, item by item. ``room`` waits until so many bytes may be sent; sound that a clear overtakes
        meanwhile is left out."""
        async for batch in self.batches():
            for item in batch:
                if isinstance(item, Sound):
                    await room(len(item.data))
                    if self.clearing:
                        continue
                yield item

    def _holds(self) -> bool:
        """Whether a piece waits for all of its text."""
        hold = self.speaker.options.hold
        return self._arrival.slow if hold == "auto" else hold == "phrase"

    def _made(self, hold: bool) -> Steps[list[Item]]:
        """The next group, which begins when its turn comes: what the client has to play is asked then."""
        events = yield from self.speaker.steps(self._playback.buffered, hold=hold)
        return [self._encoded(event) for event in events]

    def _encoded(self, event: Event) -> Item:
        if not isinstance(event, AudioChunk):
            return event
        return Sound(self._encoder.feed(event.samples), len(event.samples) / self.speaker.sample_rate)

    def _given(self, items: list[Item]) -> list[Item]:
        """``items`` without the audio that a clear has overtaken on its way here."""
        kept: list[Item] = []
        for item in items:
            match item:
                case Cleared(sequence) if sequence == self._clearing:
                    self._clearing = -1
                case Sound() if self._clearing >= 0:
                    continue
                case Sound():
                    self._count(item.seconds)
                case _:
                    pass
            kept.append(item)
        return kept

    def _count(self, seconds: float) -> None:
        self._playback.sent(seconds)
        self._spoken.inc(seconds)
        self.seconds += seconds
        if self._asked_at is not None:
            self._first_audio.observe(time.monotonic() - self._asked_at)
            self._asked_at = None
