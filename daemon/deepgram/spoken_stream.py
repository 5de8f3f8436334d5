"""A stream that is spoken to: what ``/v1/speak`` and ``/v2/speak`` share.

A client that reads more slowly than the model speaks holds the speaker back; one that does not read at all is closed.
In good order: what was said is spoken to its end, then the close code (``daemon.duplex``).
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from starlette.types import Receive, Send

from audio import encoder
from codec.events import Event
from codec.model import TtsModel
from daemon.deepgram.speak_messages import SpeakWarning
from daemon.deepgram.speak_query import SpeakRequest
from daemon.duplex import Duplex, Ending
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.paths import Endpoint
from daemon.speaking import Sound, SpeechStream
from engines.sessions import OptionError

MOST_FLUSHES: Final = 1000
"""Flushes that may wait for their audio. Each keeps its place in the text."""


@asynccontextmanager
async def open_speech(
    hub: Hub, request: SpeakRequest, endpoint: Endpoint
) -> AsyncGenerator[tuple[SpeechStream, list[str]]]:
    """Open a speaker as ``request`` asks; returns it, and all warnings about the request.

    Raises:
        Refused: as ``Hub.speak``.
    """
    warnings = list(request.warnings)
    async with AsyncExitStack() as stack:
        worker = await hub.speak(request.options, warnings)
        raw = encoder.raw(request.encoding, request.sample_rate)
        stack.callback(raw.close)
        stack.push_async_callback(worker.close)
        yield SpeechStream(worker, raw, hub.metrics, endpoint.path), warnings


class SpokenStream(Duplex):
    """One connection, from accept to close."""

    def __init__(self, hub: Hub, loaded: Loaded[TtsModel], speech: SpeechStream, receive: Receive, send: Send) -> None:
        super().__init__(hub, receive, send)
        self._loaded, self._speech = loaded, speech

    @abstractmethod
    def _tell(self, event: Event) -> None:
        """Take an event of the speaker's, which comes after the sound before it."""

    def _sounded(self, seconds: float) -> None:
        """Count the seconds of sound that have gone into the outbox."""

    @property
    def _voice(self) -> str | None:
        """The name of the voice that speaks; None where the model has one voice only."""
        asked = self._speech.speaker.options.voice
        return asked.lower() if asked else next(iter(self._loaded.model.manifest.voices), None)

    def _warn(self, code: str, description: str) -> None:
        self._say(SpeakWarning(description, code))

    def _take_bytes(self, data: bytes) -> None:
        self._warn("BINARY", f"a binary message of {len(data)} bytes: text goes in Speak messages")

    def _misunderstood(self, reason: str, text: str) -> None:
        del text
        self._warn("NOT_UNDERSTOOD", reason)

    def _taken(self, text: str) -> bool:
        """Take text that is to be spoken; returns whether there was room for it."""
        try:
            self._speech.say(text)
        except OptionError as error:
            self._warn("TEXT_LIMIT", f"{error}; this message was not taken")
            return False
        return True

    def _taken_no_more(self) -> None:
        """Tell the client that a message came too late, after the end began; a client that ended the stream itself is
        told nothing."""
        if self._ending is not None and self._ending.code == 1012:
            self._warn("SHUTTING_DOWN", f"{self._ending.reason}; this message was not taken")

    def _forget(self) -> None:
        """Speak no more of what was said."""
        self._speech.clear()
        self._outbox.forget_sound()

    def _unfinished(self) -> str:
        return f"text that is not spoken, after {self._speech.seconds:.1f} s of audio"

    def _wind_up(self, ending: Ending) -> None:
        """Speak to the end where the client asked for that, or where the daemon goes. Otherwise stop."""
        self._speech.finish()
        if ending.code not in (1000, 1012):
            self._forget()

    async def _work(self) -> None:
        """Speak until the stream's end."""
        async for item in self._speech.items(self._outbox.room):
            if isinstance(item, Sound):
                if item.data:
                    self._outbox.put_sound(item.data)
                self._sounded(item.seconds)
            else:
                self._tell(item)
