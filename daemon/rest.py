"""OpenAI's ``POST /v1/audio/transcriptions``.

A file is heard by a listener like a stream's, block after block in a worker thread; a client that leaves ends it.
"""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from daemon import upload
from daemon.answer import answering, in_time, json, unless_gone
from daemon.calls import Hearing
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.refusal import Refused
from daemon.transcript import FileTranscript
from daemon.upload import Upload
from streaming.events import Event, Transcript
from streaming.model import AsrModel
from streaming.pcm import Samples
from streaming.recording import RecordingError, samples

PATH: Final = "/v1/audio/transcriptions"


class Transcriptions:
    """The ASGI endpoint of file transcription."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the form, hear the file, answer."""
        hub = self._hub
        async with answering(hub, scope, send):
            if scope["method"] != "POST":
                raise Refused(405, "method", "POST a multipart form with a file")
            loaded = hub.hearing_model()
            async with upload.read(scope, receive, hub.settings, loaded.name) as request:
                hearing = await hub.hear(request.options, request.names)
                try:
                    answer = self._stream if request.stream else self._answer
                    await unless_gone(receive, answer(request, loaded, hearing, scope, receive, send))
                except RecordingError as error:
                    raise Refused(400, "invalid_file", f"file: {error}", param="file") from None
                finally:
                    await hearing.close()

    async def _answer(
        self, request: Upload, loaded: Loaded[AsrModel], hearing: Hearing, scope: Scope, receive: Receive, send: Send
    ) -> None:
        heard = FileTranscript()
        async for _ in self._finals(request, loaded, hearing, heard):
            pass
        match request.response_format:
            case "json":
                response = json(heard.json())
            case "verbose_json":
                response = json(heard.verbose(words=request.words))
            case "text":
                response = Response(heard.text + "\n", media_type="text/plain")
            case "srt":
                response = Response(heard.srt(), media_type="application/x-subrip")
            case _:
                response = Response(heard.vtt(), media_type="text/vtt")
        async with in_time(self._hub.settings.send_timeout_seconds):
            await response(scope, receive, send)

    async def _stream(
        self, request: Upload, loaded: Loaded[AsrModel], hearing: Hearing, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Server-sent events. A delta is a segment's final text, so nothing said is ever taken back."""
        del scope, receive
        heard = FileTranscript()
        texts = self._finals(request, loaded, hearing, heard)
        # A file that is no audio is still refused with a status: that shows with the first block.
        first = await anext(texts, None)
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await self._put(send, {"type": "http.response.start", "status": 200, "headers": headers})
        try:
            said = False
            while first is not None:
                for final in first:
                    await self._send_event(
                        send, {"type": "transcript.text.delta", "delta": (" " if said else "") + final.text}
                    )
                    said = True
                first = await anext(texts, None)
            done = {"type": "transcript.text.done", **heard.json()}
        except RecordingError as error:
            done = {
                "error": {"message": f"file: {error}", "type": "invalid_request_error", "param": "file", "code": None}
            }
        await self._send_event(send, done)
        await self._put(send, {"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def _send_event(self, send: Send, event: dict[str, Any]) -> None:
        body = b"data: " + msgspec.json.encode(event) + b"\n\n"
        await self._put(send, {"type": "http.response.body", "body": body, "more_body": True})

    async def _put(self, send: Send, message: Message) -> None:
        async with in_time(self._hub.settings.send_timeout_seconds):
            await send(message)

    async def _finals(
        self, request: Upload, loaded: Loaded[AsrModel], hearing: Hearing, heard: FileTranscript
    ) -> AsyncIterator[list[Transcript]]:
        """The finals that each block of the file brings; ``heard`` grows along."""
        settings, metrics = self._hub.settings, self._hub.metrics
        rate = loaded.model.sample_rate
        blocks = samples(request.file, rate, settings.max_session_seconds)
        try:
            last = False
            while not last:
                events, size, last = await hearing.run(partial(_hear_block, hearing, blocks))
                heard.duration += size / rate
                metrics.audio.labels(PATH).inc(size / rate)
                new = heard.take(events)
                for final in new:
                    metrics.finals.labels(PATH).inc()
                    metrics.words.labels(PATH).inc(len(final.words))
                yield new
        finally:
            await hearing.close()  # ends the call in flight, which may be inside ``blocks``
            blocks.close()


def _hear_block(hearing: Hearing, blocks: Iterator[Samples]) -> tuple[list[Event], int, bool]:
    """In a worker thread: (events, samples, whether that was the end)."""
    block = next(blocks, None)
    if block is None:
        return hearing.listener.finish(), 0, True
    return hearing.listener.feed(block), block.size, False
