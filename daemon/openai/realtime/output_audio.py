"""What a session says aloud: one speaker, which is kept from response to response as long as it is to sound the
same."""

import asyncio
from contextlib import AsyncExitStack
from typing import Protocol

from audio import encoder
from codec.events import Flushed, PieceMark
from codec.options import SpeakOptions
from daemon.duplex import Outbox
from daemon.hub import Hub
from daemon.openai.realtime.spec import Spec
from daemon.paths import REALTIME
from daemon.speaking import Sound, SpeechStream
from engines.lane import Cancelled


class Sink(Protocol):
    """The response for which something is spoken."""

    def sound(self, data: bytes, seconds: float) -> None:
        """Take encoded audio."""
        ...

    def paced(self, last: int) -> None:
        """Say that a sentence is complete. ``last`` is the place of its last character in the text that was said for
        this sink."""
        ...


class OutputAudio:
    """The voice of a session. :meth:`close` must be called."""

    def __init__(self, hub: Hub, outbox: Outbox) -> None:
        self._hub, self._outbox = hub, outbox
        self._opened: tuple[SpeakOptions, str] | None = None
        self._speech: SpeechStream | None = None
        self._resources = AsyncExitStack()
        self._speaking: asyncio.Task[None] | None = None
        self._sink: Sink | None = None
        self._said = self._base = 0
        """Characters that were said, and those of them before the present sink's."""
        self._flush = -1
        self._flushed = asyncio.Event()

    @property
    def unplayed(self) -> float:
        """Seconds of audio that the client has and that, by the clock, it has not played."""
        return self._speech.unplayed if self._speech is not None else 0.0

    @property
    def frames(self) -> int:
        """The number of frames spoken so far."""
        return self._speech.speaker.work.frames if self._speech is not None else 0

    async def open(self, spec: Spec) -> None:
        """Get a speaker that sounds as ``spec`` says.

        Raises:
            Refused: there is none, or none like that. Invalid: the speed.
        """
        output = spec.audio.output
        assert output is not None
        wanted = spec.speak_options(), output.format.encoding
        if self._opened == wanted and self._speaking is not None and not self._speaking.done():
            return
        await self.close()
        async with AsyncExitStack() as resources:
            await resources.enter_async_context(self._hub.speaking_slot())
            worker = await self._hub.speak(wanted[0])
            resources.push_async_callback(worker.close)
            raw = encoder.raw(wanted[1], output.format.sample_rate)
            resources.callback(raw.close)
            self._speech = SpeechStream(worker, raw, self._hub.metrics, REALTIME.path)
            self._resources = resources.pop_all()
        self._opened, self._said = wanted, 0
        self._speaking = asyncio.create_task(self._speak(self._speech))
        self._speaking.add_done_callback(lambda _: self._flushed.set())

    async def close(self) -> None:
        """Stop, and give the speaker back. May be called again."""
        speaking, self._speaking = self._speaking, None
        if speaking is not None:
            speaking.cancel()
        resources, self._resources = self._resources, AsyncExitStack()
        self._speech = self._opened = self._sink = None
        await resources.aclose()
        if speaking is not None:
            await asyncio.gather(speaking, return_exceptions=True)

    def begin(self, sink: Sink) -> None:
        """Speak for ``sink`` from now on. The speaker must be open."""
        self._sink, self._base, self._flush = sink, self._said, -1
        self._flushed.clear()

    def say(self, text: str) -> None:
        """Append text.

        Raises:
            engines.sessions.OptionError: too much of it waits; nothing is taken.
        """
        assert self._speech is not None
        self._speech.say(text)
        self._said += len(text)

    async def finish(self) -> None:
        """Speak what was said to its end. Raises what the speaker raises."""
        assert self._speech is not None and self._speaking is not None
        self._flush = self._speech.flush()
        await self._flushed.wait()
        if self._speaking.done():
            self._speaking.result()
            raise Cancelled

    def clear(self) -> None:
        """Stop now, and take back the audio that waits to be sent."""
        self._sink = None
        if self._speech is not None:
            self._speech.clear()
        self._outbox.forget_sound()

    async def _speak(self, speech: SpeechStream) -> None:
        async for item in speech.items(lambda size: self._outbox.room(2 * size)):
            match item:
                case Sound() if item.data and self._sink is not None:
                    self._sink.sound(item.data, item.seconds)
                case PieceMark() if self._sink is not None and item.start_char >= self._base:
                    self._sink.paced(item.end_char - self._base)
                case Flushed() if item.sequence == self._flush:
                    self._flushed.set()
                case _:
                    pass
