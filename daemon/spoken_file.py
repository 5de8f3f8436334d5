"""A text spoken into the body of an HTTP answer, which goes out while it is made.

The answer begins with the first audio: until then what goes wrong is still told by a status. After that a fault breaks
the answer off, so that nobody takes a part for the whole. A client that does not read holds the speaker back.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import msgspec
from starlette.types import Receive, Send

from audio.encoder import Encoder
from codec.events import PieceMark, SpokenWord
from codec.options import SpeakOptions
from codec.speaker import Speaker
from codec.work import Work
from daemon import body
from daemon.answer import BrokenOff, in_time, unless_gone
from daemon.config import Settings
from daemon.hub import Hub
from daemon.parameters import warning_header
from daemon.refusal import Refused
from daemon.speaking import Sound, SpeechStream
from daemon.workers import SessionWorker

MAX_BYTES: Final = 1 << 20
"""Bytes of a request's body: room for the longest text that any setting allows with every character written as
\\uXXXX."""

Part = bytes | PieceMark
"""Bytes of the file, or a sentence that has been spoken."""

log: Final = logging.getLogger("hearsay.speech")


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A checked request for one text."""

    text: str
    field: str
    """The field in which the text stood, which is named where there is nothing to speak in it."""
    options: SpeakOptions
    encoder: Callable[[], Encoder]
    """Makes the encoder of the file, in a worker thread. It may raise ``Refused``."""
    media_type: str
    frame: "type[Frame] | None" = None
    """How the parts of the answer are put on the wire; None: the file as it is."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """More headers of the answer."""
    warnings: tuple[str, ...] = ()
    """What is not quite as it was asked for; a header of the answer tells it."""


def check_text(field: str, text: str, settings: Settings) -> None:
    """Check a text.

    Raises:
        Refused: 400, ``text`` is empty or too long.
    """
    if not text.strip():
        raise body.wrong(field, f"{field}: empty")
    if len(text) > settings.max_text_characters:
        limit = f"the limit is {settings.max_text_characters} (max_text_characters)"
        raise body.wrong(field, f"{field}: {len(text)} characters, {limit}; GET /v1/speak takes text without an end")


async def speak_file(hub: Hub, path: str, request: FileRequest, receive: Receive, send: Send) -> None:
    """Open a speaker and answer with what it says; counted under ``path``.

    Raises:
        Refused: before anything was sent.
        SlowReader: the client does not take its answer.
    """
    file = await hub.run(request.encoder)
    try:
        told = list(request.warnings)
        worker = await hub.speak(request.options, told)
        request = replace(request, headers=(*request.headers, *warning_header(told)))
        try:
            async with asyncio.timeout(hub.settings.max_session_seconds):
                await unless_gone(receive, SpokenFile(hub, path, request, worker, file, send).answer())
        except TimeoutError:  # An answer that ends early closes its connection.
            log.info("%s: an answer took longer than max_session_seconds", path)
        finally:
            await worker.close()  # Closing the worker ends the call in flight, which may be inside ``file``.
    finally:
        file.close()


class SpokenFile:
    """The answer to one request."""

    def __init__(
        self, hub: Hub, path: str, request: FileRequest, worker: SessionWorker[Speaker], file: Encoder, send: Send
    ) -> None:
        self._hub, self._path, self._request = hub, path, request
        self._worker, self._file, self._send = worker, file, send

    async def answer(self) -> None:
        """Say the text and send what it becomes, to the end."""
        async with aclosing(self._parts()) as parts:
            await self._tell(parts)

    async def _tell(self, parts: AsyncGenerator[Part]) -> None:
        request = self._request
        first = await anext(parts, None)
        if first is None:
            raise Refused(
                400, "nothing_to_speak", f"{request.field}: holds nothing that can be spoken", param=request.field
            )
        frame = (request.frame or Frame)(request, self._worker.session.work)
        kind = frame.media_type or request.media_type
        headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-cache"), *request.headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._put(frame.part(first))
        try:
            async for part in parts:
                await self._put(frame.part(part))
        except Refused as refused:
            raise BrokenOff(refused.message) from None
        await self._put(frame.end(), more=False)

    async def _parts(self) -> AsyncGenerator[Part]:
        """The file's bytes, and the sentences that have been spoken; nothing at all where nothing was spoken. The first
        may be empty: audio is under way."""
        speech = SpeechStream(self._worker, self._file, self._hub.metrics, self._path)
        speech.say(self._request.text)
        speech.finish()
        spoken = False
        with body.storing():  # A FLAC file waits on disk, and nothing else here opens a file.
            async for batch in speech.batches():
                for item in batch:
                    if isinstance(item, Sound):
                        spoken = True
                        yield item.data
                    elif isinstance(item, PieceMark) and item.words:
                        yield item
            if spoken:
                rest = self._file.finish()
                while (data := await self._worker.run(partial(next, rest, None))) is not None:
                    yield data

    async def _put(self, data: bytes, *, more: bool = True) -> None:
        if more and not data:
            return
        async with in_time(self._hub):
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


class Frame:
    """How the parts of an answer are put on the wire: a file as it is. Subclasses have another content type."""

    media_type: ClassVar[str] = ""

    def __init__(self, request: FileRequest, work: Work) -> None:
        self._request, self._work = request, work

    def part(self, part: Part) -> bytes:
        """What is sent of ``part``."""
        return part if isinstance(part, bytes) else b""

    def end(self) -> bytes:
        """What is sent last."""
        return b""


class Events(Frame):
    """Server-sent events with the file's bytes in base64, as OpenAI's."""

    media_type = "text/event-stream; charset=utf-8"

    def part(self, part: Part) -> bytes:
        if not part or not isinstance(part, bytes):
            return b""
        return _event({"type": "speech.audio.delta", "audio": base64.b64encode(part).decode()})

    def end(self) -> bytes:
        work = self._work
        tokens = {"input_tokens": work.text_tokens, "output_tokens": work.frames}
        usage = {**tokens, "total_tokens": work.text_tokens + work.frames}
        return _event({"type": "speech.audio.done", "usage": usage}) + b"data: [DONE]\n\n"


class CaptionLines(Frame):
    """A JSON object a line, with bytes in base64 or words with their times, as Kokoro-FastAPI's."""

    media_type = "application/x-ndjson"

    def part(self, part: Part) -> bytes:
        return self._object(part, ()) if isinstance(part, bytes) else self._object(b"", part.words)

    def _object(self, audio: bytes, words: tuple[SpokenWord, ...]) -> bytes:
        if not audio and not words:
            return b""
        stamps = [
            {"word": word.text, "start_time": round(word.start, 3), "end_time": round(word.end, 3)} for word in words
        ]
        told = {
            "audio": base64.b64encode(audio).decode(),
            "audio_format": self._request.media_type,
            "timestamps": stamps,
        }
        return msgspec.json.encode(told) + b"\n"


class Captions(CaptionLines):
    """One such object with everything, which is kept until the end: ``max_text_characters`` of text bound it."""

    media_type = "application/json"

    def __init__(self, request: FileRequest, work: Work) -> None:
        super().__init__(request, work)
        self._audio, self._words = bytearray(), list[SpokenWord]()

    def part(self, part: Part) -> bytes:
        if isinstance(part, bytes):
            self._audio += part
        else:
            self._words += part.words
        return b""

    def end(self) -> bytes:
        return self._object(bytes(self._audio), tuple(self._words))


def _event(event: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"
