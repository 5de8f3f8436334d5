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
from typing import Any, Final

import msgspec
from starlette.types import Receive, Send

from audio.encoder import Encoder
from codec.options import SpeakOptions
from codec.speaker import Speaker
from codec.work import Work
from daemon import body
from daemon.answer import in_time, unless_gone
from daemon.config import Settings
from daemon.hub import Hub
from daemon.parameters import warning_header
from daemon.refusal import Refused
from daemon.speaking import Sound, SpeechStream
from daemon.workers import SessionWorker

MAX_BYTES: Final = 1 << 20
"""Of a request's body: room for the longest text that any setting allows, every character written as \\uXXXX."""

log: Final = logging.getLogger("hearsay.speech")


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A checked request for one text."""

    text: str
    field: str
    """Where the text stood, for those who are told that there is nothing to speak in it."""
    options: SpeakOptions
    encoder: Callable[[], Encoder]
    """Makes the file's encoder, in a worker thread; may raise ``Refused``."""
    media_type: str
    sse: bool = False
    """Send the bytes in server-sent events, as OpenAI does."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """More of the answer's."""
    warnings: tuple[str, ...] = ()
    """For another header: what is not quite as it was asked for."""


def check_text(field: str, text: str, settings: Settings) -> None:
    """
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
        except TimeoutError:  # uvicorn drops a connection whose answer is incomplete
            log.info("%s: an answer took longer than max_session_seconds", path)
        finally:
            await worker.close()  # ends the call in flight, which may be inside ``file``
    finally:
        file.close()


class SpokenFile:
    """One answer."""

    def __init__(
        self, hub: Hub, path: str, request: FileRequest, worker: SessionWorker[Speaker], file: Encoder, send: Send
    ) -> None:
        self._hub, self._path, self._request = hub, path, request
        self._worker, self._file, self._send = worker, file, send

    async def answer(self) -> None:
        """Say the text and send what it becomes, to the end."""
        async with aclosing(self._pieces()) as pieces:
            await self._tell(pieces)

    async def _tell(self, pieces: AsyncGenerator[bytes]) -> None:
        request = self._request
        first = await anext(pieces, None)
        if first is None:
            raise Refused(
                400, "nothing_to_speak", f"{request.field}: holds nothing that can be spoken", param=request.field
            )
        kind = "text/event-stream; charset=utf-8" if request.sse else request.media_type
        headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-cache"), *request.headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._put(self._framed(first))
        async for piece in pieces:
            if piece:
                await self._put(self._framed(piece))
        await self._put(_done(self._worker.session.work) if request.sse else b"", more=False)

    async def _pieces(self) -> AsyncGenerator[bytes]:
        """The file's bytes; nothing at all where nothing was spoken. The first may be empty: audio is under way."""
        speech = SpeechStream(self._worker, self._file, self._hub.metrics, self._path, self._hub.playback)
        speech.say(self._request.text)
        speech.finish()
        spoken = False
        async for batch in speech.batches():
            for item in batch:
                if isinstance(item, Sound):
                    spoken = True
                    yield item.data
        if spoken:
            rest = self._file.finish()
            while (piece := await self._worker.run(partial(next, rest, None))) is not None:
                yield piece

    def _framed(self, data: bytes) -> bytes:
        if not self._request.sse or not data:
            return data
        return _event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})

    async def _put(self, data: bytes, *, more: bool = True) -> None:
        async with in_time(self._hub.settings.send_timeout_seconds):
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


def _done(work: Work) -> bytes:
    tokens = {"input_tokens": work.text_tokens, "output_tokens": work.frames}
    usage = {**tokens, "total_tokens": work.text_tokens + work.frames}
    return _event({"type": "speech.audio.done", "usage": usage}) + b"data: [DONE]\n\n"


def _event(event: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"
