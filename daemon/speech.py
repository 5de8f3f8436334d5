"""OpenAI's ``POST /v1/audio/speech``: a text to a file that arrives while it is made.

The answer begins with the first audio: until then what goes wrong is still told by a status. After that a fault breaks
the answer off, so that nobody takes a part for the whole. A client that does not read holds the speaker back.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from daemon import encoder, speech_request
from daemon.answer import unless_gone
from daemon.calls import Speaking
from daemon.encoder import Encoder, NoEncoder
from daemon.hub import Hub
from daemon.narration import Narration, Sound
from daemon.refusal import Refused, refuse
from daemon.speech_request import SpeechRequest

PATH: Final = "/v1/audio/speech"

log: Final = logging.getLogger("hearsay.speech")


class Speech:
    """The ASGI endpoint."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the request, speak, send what is made."""
        hub = self._hub
        try:
            if scope["method"] != "POST":
                raise Refused(405, "method", "POST a JSON object with input")
            request = await speech_request.read(scope, receive, hub.settings, hub.speaking_model().name)
            file = await hub.run(partial(_file, request))
            try:
                speaking = await hub.speak(request.options)
                try:
                    async with asyncio.timeout(hub.settings.max_session_seconds):
                        await unless_gone(receive, self._answer(request, speaking, file, send))
                finally:
                    await speaking.close()  # ends the call in flight, which may be inside ``file``
            finally:
                file.close()
        except ClientDisconnect:
            log.info("the client left during the request")
        except TimeoutError:  # uvicorn drops a connection whose answer is incomplete
            log.info("the client does not read its answer")
        except Refused as refused:
            hub.metrics.denials.labels(refused.code).inc()
            await refuse(scope, send, refused)

    async def _answer(self, request: SpeechRequest, speaking: Speaking, file: Encoder, send: Send) -> None:
        async with aclosing(self._pieces(request, speaking, file)) as pieces:
            await self._tell(request, speaking, pieces, send)

    async def _tell(
        self, request: SpeechRequest, speaking: Speaking, pieces: AsyncGenerator[bytes], send: Send
    ) -> None:
        first = await anext(pieces, None)
        if first is None:
            raise Refused(400, "nothing_to_speak", "input: holds nothing that can be spoken", param="input")
        kind = "text/event-stream; charset=utf-8" if request.sse else encoder.MEDIA_TYPES[request.format]
        headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send(send, request, first)
        async for piece in pieces:
            if piece:
                await self._send(send, request, piece)
        end = b""
        if request.sse:
            work = speaking.speaker.work
            tokens = {"input_tokens": work.text_tokens, "output_tokens": work.frames}
            usage = {**tokens, "total_tokens": work.text_tokens + work.frames}
            end = _event({"type": "speech.audio.done", "usage": usage}) + b"data: [DONE]\n\n"
        await self._put(send, end, more=False)

    async def _pieces(self, request: SpeechRequest, speaking: Speaking, file: Encoder) -> AsyncGenerator[bytes]:
        """The file's bytes; nothing at all where nothing was spoken. The first may be empty: audio is under way."""
        narration = Narration(speaking, file, self._hub.metrics, PATH, self._hub.crowd)
        narration.say(request.text)
        narration.finish()
        spoken = False
        async for batch in narration.batches():
            for item in batch:
                if isinstance(item, Sound):
                    spoken = True
                    yield item.data
        if spoken:
            rest = file.finish()
            while (piece := await speaking.run(partial(next, rest, None))) is not None:
                yield piece

    async def _send(self, send: Send, request: SpeechRequest, data: bytes) -> None:
        if request.sse and data:
            data = _event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})
        await self._put(send, data, more=True)

    async def _put(self, send: Send, data: bytes, *, more: bool) -> None:
        async with asyncio.timeout(self._hub.settings.send_timeout_seconds):
            await send({"type": "http.response.body", "body": data, "more_body": more})


def _file(request: SpeechRequest) -> Encoder:
    assert request.options.sample_rate is not None
    try:
        return encoder.file(request.format, request.options.sample_rate)
    except NoEncoder as error:
        raise Refused(400, "no_encoder", f"response_format: {error}", param="response_format") from None


def _event(event: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"
