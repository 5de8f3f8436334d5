"""Speech from a daemon, over ``/v1/speak``."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

from commands.speech import MAX_AHEAD, Awaiting, Manner, Remark, Sound, SpeechEvent, Spoken

RATE = 24_000
"""Hertz, where no other rate is asked for."""
KEEP_ALIVE_SECONDS = 20.0
"""Seconds between two signs of life: a third of what the daemon waits by default (``idle_seconds``)."""


class Remote:
    """A session on a daemon's ``/v1/speak``."""

    def __init__(self, url: str, key: str | None, model: str | None, manner: Manner) -> None:
        from clients.speech import AsyncSpeech, SpeechOptions

        self.seed: int | None = manner.seed
        options = SpeechOptions(
            model=model,
            voice=manner.voice,
            language=manner.language,
            instructions=manner.instructions,
            speed=manner.speed if manner.speed != 1 else None,
            seed=manner.seed,
            pauses=manner.pauses,
            sample_rate=manner.sample_rate or RATE,
            marks=True,
        )
        self._speech = AsyncSpeech(url, options, key=key)
        self._flushes = self._answered = self._since_flush = 0
        self._room = asyncio.Condition()
        self._finished = False
        self._alive: asyncio.Task[None] | None = None

    @property
    def sample_rate(self) -> int:
        """Hertz."""
        return self._speech.options.sample_rate

    async def say(self, text: str) -> None:
        """Say ``text``."""
        if self._since_flush + len(text) > MAX_AHEAD:
            # The protocol tells how far the daemon has come only where a flush was; a piece ends there.
            cut = last_break(text)
            await self._tell(text[:cut])
            await self._flush()
            async with self._room:
                await self._room.wait_for(lambda: self._flushes - self._answered < 2)
            text = text[cut:]
        await self._tell(text)

    async def _tell(self, text: str) -> None:
        if text:
            await self._speech.speak(text)
            self._since_flush += len(text)

    async def finish(self) -> None:
        """Say that the text is complete."""
        self._finished = True
        await self._flush()

    async def events(self, buffered: Callable[[], float]) -> AsyncIterator[SpeechEvent]:
        """Every event until the finished text is spoken."""
        from clients.events import Fault
        from clients.speech import Audio, Flushed, Piece, SpeechMetadata, SpeechWarning

        del buffered  # The daemon reckons this itself, from what it has sent.
        async for event in self._speech:
            match event:
                case Audio():
                    yield Sound(event.data)
                case Piece():
                    for word in event.words:
                        yield Spoken(word.word, word.start, word.end)
                    yield Awaiting()
                case SpeechMetadata():
                    self.seed = event.seed
                    for warning in event.warnings:
                        yield Remark(warning)
                case SpeechWarning():
                    yield Remark(event.message)
                case Fault():
                    yield Remark(event.message)
                case Flushed():
                    async with self._room:
                        self._answered += 1
                        self._room.notify_all()
                    if self._finished and self._answered == self._flushes:
                        await self._speech.close_speech()
                case _:
                    pass

    async def _flush(self) -> None:
        self._since_flush = 0
        self._flushes += 1
        await self._speech.flush()

    async def __aenter__(self) -> Self:
        await self._speech.connect()
        self._alive = asyncio.create_task(self._stay())
        return self

    async def _stay(self) -> None:
        """Keep the session alive: whoever writes the text may think for longer than the daemon waits."""
        from clients.events import ListenError

        with contextlib.suppress(ListenError):  # The task that iterates is told.
            while True:
                await asyncio.sleep(KEEP_ALIVE_SECONDS)
                await self._speech.keep_alive()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._alive is not None:
            self._alive.cancel()
        await self._speech.close()


def last_break(text: str) -> int:
    """The best place to cut ``text``: after its last sentence, else after its last word, else at its end."""
    sentence = max((found.end() for found in re.finditer(r"[.!?…]\s+|\n", text)), default=0)
    word = max((found.end() for found in re.finditer(r"\s+", text)), default=0)
    return sentence or word or len(text)
