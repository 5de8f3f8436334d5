"""One text over Wyoming: it comes as a whole or in chunks, and its audio goes out while it is made."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

import msgspec
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.event import Eventable

from audio import encoder
from codec.options import SpeakOptions
from daemon.hub import Hub
from daemon.names import language, means_model
from daemon.parameters import SEED_BITS
from daemon.paths import WYOMING_SYNTHESIZE
from daemon.refusal import Refused
from daemon.speaking import Sound, SpeechStream
from engines.sessions import OptionError

_WIDTH: Final = 2
"""Bytes of a sample: linear16."""


class Voice(msgspec.Struct):
    """Who is to speak: a voice of ``describe``'s by name, one of its speakers, or any voice that speaks a language."""

    name: str = ""
    language: str = ""
    speaker: str = ""


class SynthesizeRequest(msgspec.Struct):
    """What ``synthesize`` and ``synthesize-start`` ask for."""

    text: str = ""
    voice: Voice = msgspec.field(default_factory=Voice)
    text_format: str = "text"


class Text(msgspec.Struct):
    """What ``synthesize-chunk`` brings."""

    text: str


class Synthesis:
    """One text, from ``open`` to ``close``.

    Args:
        say: takes what the client is told.
        sound: takes its audio, and waits where the client does not read.
    """

    def __init__(
        self, hub: Hub, say: Callable[[Eventable], None], sound: Callable[[Eventable], Awaitable[None]]
    ) -> None:
        self._hub, self._say, self._sound = hub, say, sound
        self._held = AsyncExitStack()
        self._speech: SpeechStream | None = None
        self._speaking: asyncio.Task[None] | None = None

    @property
    def busy_until(self) -> float:
        """``time.monotonic()`` until which there is something to say or, for the client, to play."""
        return self._speech.busy_until if self._speech is not None else 0.0

    async def open(self, request: SynthesizeRequest) -> None:
        """Take a slot and a speaker.

        Raises:
            Refused: the format, voice or language is not one that there is; or there is no room.
        """
        if request.text_format != "text":
            raise Refused(400, "invalid_format", f"text_format: {request.text_format[:80]!r} is not text")
        hub = self._hub
        await self._held.enter_async_context(hub.slot(WYOMING_SYNTHESIZE))
        loaded = hub.speaking_model()
        rate = loaded.model.sample_rate
        voice = request.voice.speaker or request.voice.name
        if voice == loaded.name or means_model(voice, "speaks", strict=hub.settings.strict):
            voice = ""
        seed = secrets.randbits(SEED_BITS)
        options = SpeakOptions(voice=voice or None, language=language(request.voice.language), seed=seed)
        worker = await hub.speak(options)
        raw = encoder.raw("linear16", rate)
        self._held.callback(raw.close)
        # The worker closes first, because a call in flight may be inside ``raw``.
        self._held.push_async_callback(worker.close)
        self._speech = SpeechStream(worker, raw, hub.metrics, WYOMING_SYNTHESIZE.path)
        self._speaking = asyncio.create_task(self._speak(self._speech, rate))

    def push(self, text: str) -> None:
        """Add text.

        Raises:
            Refused: too much of it waits.
        """
        assert self._speech is not None
        try:
            self._speech.say(text)
        except OptionError as error:
            raise Refused(400, "text_limit", str(error), param="text") from None

    async def finish(self) -> None:
        """Say that no more text comes, and wait until all of it is spoken."""
        assert self._speech is not None and self._speaking is not None
        self._speech.finish()
        await self._speaking

    async def close(self) -> None:
        """Give up what is not finished, and what was taken, also where this call is cancelled. Idempotent."""
        try:
            if self._speaking is not None:
                self._speaking.cancel()
                # finish() raises what went wrong; a cancellation of this call is raised here.
                await asyncio.gather(self._speaking, return_exceptions=True)
        finally:
            await self._held.aclose()

    async def _speak(self, speech: SpeechStream, rate: int) -> None:
        self._say(AudioStart(rate, _WIDTH, 1, timestamp=0))
        at = 0.0
        async for batch in speech.batches():
            for item in batch:
                if isinstance(item, Sound) and item.data:
                    await self._sound(AudioChunk(rate, _WIDTH, 1, item.data, timestamp=round(1000 * at)))
                    at += item.seconds
        self._say(AudioStop(timestamp=round(1000 * speech.seconds)))
