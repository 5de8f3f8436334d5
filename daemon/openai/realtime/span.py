"""A span of a session's audio that one listener hears, with one set of options."""

import asyncio
from collections import deque

from daemon.hearing import MOST_FINALIZES, HearingStream
from daemon.openai.realtime.spec import Spec
from daemon.openai.realtime.turn import Turn


class Span:
    """Audio that one listener hears. Until the listener is open, audio waits here."""

    def __init__(self, spec: Spec, offset: float, turn: Turn, *, apart: bool = False) -> None:
        self.spec, self.offset, self.apart = spec, offset, apart
        """``offset`` is where the span begins, in seconds of the session's audio; ``apart`` says that its audio came in
        an item of its own."""
        self.stream: HearingStream | None = None
        self.hearing: asyncio.Task[None] | None = None
        self.refused = False
        """Whether no listener opens for it."""
        self.cleared = False
        """Whether only what was committed of it is to be told."""
        self.turns = deque((turn,))
        """The turns that are heard in it, in order. The last one is open; those before it were committed by the
        client."""
        self.closes = 0
        """The number of the client's commits whose text is still to come, where the listener ends turns."""
        self.size = 0
        self._backlog = [bytearray()]
        """The audio that waits for the listener, cut at the commits."""
        self._ended = False

    @property
    def commits(self) -> int:
        """The number of turns that the client committed and whose text is still to come."""
        return len(self.turns) - 1

    @property
    def drained(self) -> bool:
        """Whether the text of everything that was committed has been told."""
        return not self.commits and not self.closes

    @property
    def seconds(self) -> float:
        """Seconds of audio that came."""
        return self.size / self.spec.audio.input.format.bytes_per_second

    @property
    def unheard(self) -> float:
        """Seconds of audio that wait to be heard."""
        return self.stream.unheard if self.stream is not None else self.seconds

    def push(self, data: bytes) -> bool:
        """Take audio; returns False, and takes nothing, where too much of it waits."""
        if self.stream is None:
            self._backlog[-1] += data
        elif not self.stream.push(data):
            return False
        self.size += len(data)
        return True

    def finalize(self) -> bool:
        """Close the segment that is open after all audio so far; returns False where too many such requests wait."""
        if self.stream is not None:
            return self.stream.finalize()
        if len(self._backlog) > MOST_FINALIZES:
            return False
        self._backlog.append(bytearray())
        return True

    def end(self) -> None:
        """Say that no more audio comes."""
        self._ended = True
        if self.stream is not None:
            self.stream.end()

    def open(self, stream: HearingStream) -> None:
        """Hand over to the listener, which is open now, the audio that waited."""
        self.stream = stream
        for place, part in enumerate(self._backlog):
            if place:
                stream.finalize()
            stream.push(bytes(part))
        self._backlog.clear()
        if self._ended:
            stream.end()
