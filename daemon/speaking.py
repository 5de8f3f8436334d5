"""One speaker between text and encoded audio, and who goes first when the machine cannot keep up. Knows no socket.

A group of frames at a time is made and encoded in a worker thread, as large as what the client has to play allows.

``say``, ``flush``, ``clear`` and ``finish`` never wait. A single consumer iterates ``batches`` and, by not asking for
the next one, holds the speaker back: nothing is made ahead of it.

How much a client has to play is estimated from what was sent and the time since. A voice whose client has plenty waits
while another's has next to nothing: else whoever began first would run ever further ahead, and the others stutter.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import WeakSet

from audio.encoder import Encoder
from codec.arrival import Arrival
from codec.events import AudioChunk, Cleared, Event, Finished
from codec.speaker import Speaker
from daemon.metrics import Metrics
from daemon.workers import SessionWorker

STARVING_SECONDS: Final = 0.5
"""Whoever has less to play goes first."""
PLENTY_SECONDS: Final = 2.0
"""Whoever has more can wait."""
_TURN_SECONDS: Final = 0.05
"""How often one who waits for others looks whether they still need it."""


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
        self.making = False
        """Whether audio is being made for it now."""

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


class PlaybackClock:
    """What all clients of a daemon have to play, and who goes first; who is gone is forgotten."""

    def __init__(self) -> None:
        self._playbacks: WeakSet[Playback] = WeakSet()

    def join(self, playback: Playback) -> None:
        """Count ``playback`` in."""
        self._playbacks.add(playback)

    def comes_before(self, playback: Playback) -> bool:
        """Whether ``playback`` has plenty while audio is being made for somebody who has next to nothing."""
        return playback.buffered > PLENTY_SECONDS and any(
            other.making and other.buffered < STARVING_SECONDS for other in self._playbacks if other is not playback
        )


class SpeechStream:
    """A text being spoken.

    Args:
        worker: of a speaker opened for this session; the caller closes it.
        encoder: of the wire format; the caller closes it.
        path: whose metrics it counts in.
        clock: what all clients have to play.
    """

    def __init__(
        self, worker: SessionWorker[Speaker], encoder: Encoder, metrics: Metrics, path: str, clock: PlaybackClock
    ) -> None:
        self.speaker = worker.session
        self._worker, self._encoder = worker, encoder
        self._first_audio, self._spoken = metrics.first_audio, metrics.spoken.labels(path)
        self._playback, self._clock = Playback(), clock
        clock.join(self._playback)
        self._arrival = Arrival()
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
            await self._turn()
            self._wake.clear()
            self._playback.making = True
            try:
                hold = self._holds()
                items = self._given(await self._worker.run(partial(self._step, self._playback.buffered, hold)))
            finally:
                self._playback.making = False
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

    async def _turn(self) -> None:
        """Let those go first who have nothing to play. A clear does not wait: then there is nothing to play here."""
        while self._clock.comes_before(self._playback):
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TURN_SECONDS):
                    await self._wake.wait()

    def _step(self, buffered: float, hold: bool) -> list[Item]:
        """In a worker thread."""
        return [self._encoded(event) for event in self.speaker.step(buffered, hold=hold)]

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
