"""A span of a session's audio that one listener hears, with one set of options."""

import asyncio
from collections import deque

from daemon.hearing import MOST_FINALIZES, HearingStream
from daemon.openai.realtime.spec import Spec
from daemon.openai.realtime.turn import Turn


class Span:
    """Audio that one listener hears. Until that is open, what comes waits here."""

    def __init__(self, spec: Spec, offset: float, turn: Turn, *, apart: bool = False) -> None:
        self.spec, self.offset, self.apart = spec, offset, apart
        """``offset``: where it begins, in seconds of the session's audio; ``apart``: it came in an item of its own."""
        self.stream: HearingStream | None = None
        self.hearing: asyncio.Task[None] | None = None
        self.refused = False
        """No listener opens for it."""
        self.cleared = False
        """Only what was committed of it is to be told."""
        self.turns = deque((turn,))
        """What is heard of it, in order: the last one is open, those before it the client committed here."""
        self.closes = 0
        """Commits of the client's where the listener ends turns, whose text is still to come."""
        self.size = 0
        self._backlog = [bytearray()]
        """What waits for the listener, cut at the commits."""
        self._ended = False

    @property
    def commits(self) -> int:
        """Turns of the client's whose text is still to come."""
        return len(self.turns) - 1

    @property
    def drained(self) -> bool:
        """Whether nothing that was committed is still to be told."""
        return not self.commits and not self.closes

    @property
    def seconds(self) -> float:
        """Audio that came."""
        return self.size / self.spec.audio.input.format.bytes_per_second

    @property
    def unheard(self) -> float:
        """Seconds of it that wait."""
        return self.stream.unheard if self.stream is not None else self.seconds

    def push(self, data: bytes) -> bool:
        """Take audio, or nothing of it (False) where too much of it waits."""
        if self.stream is None:
            self._backlog[-1] += data
        elif not self.stream.push(data):
            return False
        self.size += len(data)
        return True

    def finalize(self) -> bool:
        """Close what is open after all audio so far; False where too many such wait."""
        if self.stream is not None:
            return self.stream.finalize()
        if len(self._backlog) > MOST_FINALIZES:
            return False
        self._backlog.append(bytearray())
        return True

    def end(self) -> None:
        """No more audio."""
        self._ended = True
        if self.stream is not None:
            self.stream.end()

    def open(self, stream: HearingStream) -> None:
        """The listener is there: hand over what waited."""
        self.stream = stream
        for place, part in enumerate(self._backlog):
            if place:
                stream.finalize()
            stream.push(bytes(part))
        self._backlog.clear()
        if self._ended:
            stream.end()
