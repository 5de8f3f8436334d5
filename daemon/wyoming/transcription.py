"""An utterance over Wyoming: audio comes in, committed words go out meanwhile, and the whole text at the end.

A transcript cannot be taken back here, so only committed words are sent early. ``transcript`` holds the finals, which
in rare cases differ from what was sent before.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from typing import Final

import msgspec
from wyoming.asr import Transcript as WyomingTranscript
from wyoming.asr import TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.event import Eventable

from audio.pcm import WIDTHS, FormatError, Shape
from daemon.hearing import HearingStream, opened
from daemon.hub import Hub
from daemon.names import check_model, language
from daemon.paths import WYOMING_TRANSCRIBE
from daemon.refusal import Refused
from engines.sessions import OptionError
from streaming.events import Transcript
from streaming.options import ListenOptions

_NAMES: Final = {"keyterms": "transcript_names, transcript_terms"}
_PIECE_BYTES: Final = 1 << 14
"""Bytes of a chunk that are taken at once: half a second at 16 kHz."""
_LOOK_SECONDS: Final = 0.05
"""Seconds between two looks at whether there is room for more audio."""


class TranscribeRequest(msgspec.Struct):
    """What ``transcribe`` asks for."""

    name: str = ""
    language: str = ""
    transcript_names: list[str] = []
    transcript_terms: list[str] = []


class AudioFormat(msgspec.Struct):
    """What ``audio-start`` and ``audio-chunk`` say of the audio."""

    rate: int
    width: int
    channels: int


class Transcription:
    """One utterance, from ``open`` to ``close``. ``say`` sends an event to the client."""

    def __init__(self, hub: Hub, request: TranscribeRequest, say: Callable[[Eventable], None]) -> None:
        self._hub, self._request, self._say = hub, request, say
        self._held = AsyncExitStack()
        self._stream: HearingStream | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._piece = _PIECE_BYTES
        self.format = AudioFormat(0, 0, 0)
        self._texts: list[str] = []
        """The texts of the finals so far."""
        self._sent = ""
        """What the client has been sent of the open segment."""
        self._sent_words = 0
        self._language: str | None = None
        self._started = False

    @property
    def unheard(self) -> float:
        """Seconds of audio that wait to be heard."""
        return self._stream.unheard if self._stream is not None else 0.0

    @property
    def arrived(self) -> float:
        """Seconds of audio that came."""
        return self._stream.arrived if self._stream is not None else 0.0

    async def open(self, given: AudioFormat) -> None:
        """Take a slot and a listener.

        Raises:
            Refused: the format, the model, the language or a term is not one that there is; or there is no room.
        """
        if given.width not in WIDTHS:
            raise _wrong("width", f"width: {given.width} bytes is none of {', '.join(map(str, WIDTHS))}")
        hub, request = self._hub, self._request
        await self._held.enter_async_context(hub.slot(WYOMING_TRANSCRIBE))
        loaded = hub.hearing_model()
        check_model(request.name, loaded.name, "hears", strict=hub.settings.strict, status=404)
        try:
            shape = Shape(WIDTHS[given.width], given.rate, given.channels)
            terms = (*request.transcript_names, *request.transcript_terms)
            options = ListenOptions(language=language(request.language), keyterms=terms)
            stream = await opened(hub, WYOMING_TRANSCRIBE, options, _NAMES, shape, self._held)
        except FormatError as error:
            field = {"sample_rate": "rate"}.get(error.field, error.field)
            raise _wrong(field, str(error).replace(error.field, field, 1)) from None
        except OptionError as error:
            field = _NAMES.get(error.field, error.field)
            raise _wrong(field, f"{field}: {error.reason}") from None
        self.format, self._piece = given, min(_PIECE_BYTES, int(stream.decoder.bytes_per_second) // 4)
        self._stream = stream
        self._hearing = asyncio.create_task(self._hear(stream))

    async def push(self, audio: bytes) -> None:
        """Take audio. Where too much of it waits, this waits as well, and so the client has to."""
        assert self._stream is not None and self._hearing is not None
        for start in range(0, len(audio), self._piece):
            while not self._stream.push(audio[start : start + self._piece]):
                if self._hearing.done():  # finish() tells why.
                    return
                await asyncio.sleep(_LOOK_SECONDS)

    async def finish(self) -> None:
        """Say that no more audio comes, hear the rest, and send the transcript.

        Raises:
            Refused: what came is no raw audio, or another one than was said; the transcript ends before it.
        """
        assert self._stream is not None and self._hearing is not None
        self._stream.end()
        await self._hearing
        self._start()
        self._say(WyomingTranscript(" ".join(self._texts), language=self._language))
        self._say(TranscriptStop())
        if self._stream.fault is not None:
            raise Refused(400, "not_decodable", str(self._stream.fault))

    async def close(self) -> None:
        """Give up what is not finished, and what was taken, also where this call is cancelled. Idempotent."""
        try:
            if self._hearing is not None:
                self._hearing.cancel()
                # finish() raises what went wrong; a cancellation of this call is raised here.
                await asyncio.gather(self._hearing, return_exceptions=True)
        finally:
            await self._held.aclose()

    async def _hear(self, stream: HearingStream) -> None:
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                for said in batch:
                    if isinstance(said.event, Transcript):
                        self._take(said.event)

    def _take(self, event: Transcript) -> None:
        """Send what of the event is new and will stay."""
        self._language = self._language or event.language
        words = len(event.words) if event.is_final else event.stable_words
        if words > self._sent_words or (event.is_final and event.text):
            begin = len(self._sent)
            if not event.text.startswith(self._sent):  # The final takes words back: what follows as many words is sent.
                begin = event.end_of(self._sent_words)
            text = event.text if event.is_final else event.text[: event.end_of(words)]
            new = text[begin:] if self._sent else text[begin:].lstrip()
            if new:
                self._start()
                self._say(TranscriptChunk(f" {new}" if self._texts and not self._sent else new))
            self._sent, self._sent_words = text, words
        if event.is_final:
            if event.text:
                self._texts.append(event.text)
            self._sent, self._sent_words = "", 0

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._say(TranscriptStart(language=self._language))


def _wrong(field: str, message: str) -> Refused:
    return Refused(400, "invalid_format", message, param=field)
