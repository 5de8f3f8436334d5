"""One speaker between text and encoded audio. Knows no socket.

A group of frames at a time is made and encoded in a worker thread, as large as what the client has to play allows.

``say``, ``flush``, ``clear`` and ``finish`` never wait. A single consumer iterates ``batches`` and, by not asking for
the next one, holds the speaker back: nothing is made ahead of it.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from codec.events import AudioChunk, Cleared, Event, Finished
from daemon.calls import Speaking
from daemon.encoder import Encoder
from daemon.metrics import Metrics
from daemon.pace import Crowd, Pace

_TURN_SECONDS: Final = 0.05
"""How often one who waits for others looks whether they still need it."""


@dataclass(frozen=True, slots=True)
class Sound:
    """Encoded audio. ``data`` may be empty: encoders hold back; ``seconds``: playing time of the samples."""

    data: bytes
    seconds: float


Item = Sound | Event
"""What a batch holds, in order: every ``AudioChunk`` as ``Sound``, all other events as they are."""


class Narration:
    """A text being spoken.

    Args:
        speaking: opened for this session; the caller closes it.
        encoder: of the wire format; the caller closes it.
        path: whose metrics it counts in.
        crowd: the others.
    """

    def __init__(self, speaking: Speaking, encoder: Encoder, metrics: Metrics, path: str, crowd: Crowd) -> None:
        self.speaker = speaking.speaker
        self._speaking, self._encoder = speaking, encoder
        self._first_audio, self._spoken = metrics.first_audio, metrics.spoken.labels(path)
        self._pace, self._crowd = Pace(), crowd
        crowd.join(self._pace)
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
            codec.options.OptionError: too much of it waits; nothing is taken.
        """
        self.speaker.say(text)
        if self._idle and self._asked_at is None:
            self._asked_at = time.monotonic()
        self._wake.set()

    def flush(self) -> None:
        """What was said is complete."""
        self.speaker.flush()
        self._wake.set()

    def clear(self) -> None:
        """Forget everything said so far: from now on no audio comes before ``Cleared``, and then none of it."""
        self._clearing = self.speaker.clear()
        self._pace.clear()
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
        return self._pace.ends_at if self._idle else time.monotonic()

    # ------------------------------------------------------------------------------------------------ out

    async def batches(self) -> AsyncIterator[list[Item]]:
        """What is spoken, group by group; ends with the batch that holds ``Finished``. Raises what the speaker does."""
        while True:
            await self._turn()
            self._wake.clear()
            self._pace.making = True
            try:
                items = self._given(await self._speaking.run(partial(self._step, self._pace.buffered)))
            finally:
                self._pace.making = False
            if items:
                yield items
                if isinstance(items[-1], Finished):
                    return
            elif not self.speaker.wait(0):
                self._idle = True
                await self._wake.wait()
                self._idle = False

    async def _turn(self) -> None:
        """Let those go first who have nothing to play. A clear does not wait: then there is nothing to play here."""
        while self._crowd.comes_before(self._pace):
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TURN_SECONDS):
                    await self._wake.wait()

    def _step(self, buffered: float) -> list[Item]:
        """In a worker thread."""
        return [self._encoded(event) for event in self.speaker.step(buffered)]

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
        self._pace.sent(seconds)
        self._spoken.inc(seconds)
        self.seconds += seconds
        if self._asked_at is not None:
            self._first_audio.observe(time.monotonic() - self._asked_at)
            self._asked_at = None
