"""OpenAI's ``POST /v1/audio/transcriptions``: a multipart form with a file, bounded in size and time, to its text.

A file is heard by a listener like a stream's, block after block in a worker thread; a client that leaves ends it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from audio.recording import RecordingError, samples
from daemon import body
from daemon.answer import in_time, json, unless_gone
from daemon.config import Settings
from daemon.heard_file import heard
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.openai.transcript import FORMATS, FileTranscript
from daemon.parameters import HEARING_ALIASES, OTHER_HEARING, check_model, language, warning_header
from daemon.paths import TRANSCRIPTIONS
from daemon.refusal import Refused
from daemon.workers import SessionWorker
from engines.sessions import OptionError
from streaming.events import Transcript
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions

_KNOWN: Final = frozenset({
    "file", "model", "language", "languages[]", "prompt", "keywords[]", "temperature", "response_format",
    "timestamp_granularities[]", "include[]", "stream", "chunking_strategy", "known_speaker_names[]",
    "known_speaker_references[]",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Upload:
    """A checked request to transcribe a file."""

    file: BinaryIO
    options: ListenOptions
    names: Mapping[str, str]
    """Fields that brought options of another name."""
    response_format: str
    words: bool
    stream: bool
    warnings: tuple[str, ...]
    """What is not quite as it was asked for."""


async def transcriptions(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the form, hear the file, answer."""
    if scope["method"] != "POST":
        raise Refused(405, "method", "POST a multipart form with a file", allow="POST")
    loaded = hub.hearing_model()
    async with _uploaded(scope, receive, hub.settings, loaded) as upload:
        worker = await hub.hear(upload.options, upload.names)
        try:
            await unless_gone(receive, _Answer(hub, upload, worker, scope, receive, send).give())
        except RecordingError as error:
            raise Refused(400, "invalid_file", f"file: {error}", param="file") from None
        finally:
            await worker.close()


def translations(hub: Hub, request: Request) -> Response:
    """``/v1/audio/translations``, which is not done here."""
    del hub, request
    told = f"speech is not translated here; POST {TRANSCRIPTIONS.path} writes it down as it is spoken"
    raise Refused(501, "not_implemented", told)


class _Answer:
    """What is said of one file."""

    def __init__(
        self, hub: Hub, upload: Upload, worker: SessionWorker[Listener], scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._hub, self._upload, self._worker = hub, upload, worker
        self._scope, self._receive, self._send = scope, receive, send
        self._heard = FileTranscript()

    async def give(self) -> None:
        """Hear the file and send its text, at once or as it comes."""
        if self._upload.stream:
            await self._stream()
        else:
            await self._whole()

    async def _whole(self) -> None:
        async for _ in self._finals():
            pass
        heard = self._heard
        match self._upload.response_format:
            case "json":
                response = json(heard.json())
            case "verbose_json":
                response = json(heard.verbose(words=self._upload.words))
            case "text":
                response = Response(heard.text + "\n", media_type="text/plain")
            case "srt":
                response = Response(heard.srt(), media_type="application/x-subrip")
            case _:
                response = Response(heard.vtt(), media_type="text/vtt")
        response.raw_headers += warning_header(self._upload.warnings)
        async with in_time(self._hub.settings.send_timeout_seconds):
            await response(self._scope, self._receive, self._send)

    async def _stream(self) -> None:
        """Server-sent events. A delta is a segment's final text, so nothing said is ever taken back."""
        texts = self._finals()
        # A file that is no audio is still refused with a status: that shows with the first block.
        finals = await anext(texts, None)
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        headers += warning_header(self._upload.warnings)
        await self._put({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            said = False
            while finals is not None:
                for final in finals:
                    delta = (" " if said else "") + final.text
                    await self._put_event({"type": "transcript.text.delta", "delta": delta})
                    said = True
                finals = await anext(texts, None)
            done = {"type": "transcript.text.done", **self._heard.json()}
        except RecordingError as error:
            done = {
                "error": {"message": f"file: {error}", "type": "invalid_request_error", "param": "file", "code": None}
            }
        await self._put_event(done)
        await self._put({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def _put_event(self, event: dict[str, Any]) -> None:
        data = b"data: " + msgspec.json.encode(event) + b"\n\n"
        await self._put({"type": "http.response.body", "body": data, "more_body": True})

    async def _put(self, message: Message) -> None:
        async with in_time(self._hub.settings.send_timeout_seconds):
            await self._send(message)

    async def _finals(self) -> AsyncIterator[list[Transcript]]:
        """The finals that each block of the file brings."""
        hub = self._hub
        rate = hub.hearing_model().model.sample_rate
        blocks = samples(self._upload.file, rate, hub.settings.max_session_seconds)
        async with aclosing(heard(hub, self._worker, blocks, TRANSCRIPTIONS)) as events:
            async for some, seconds in events:
                self._heard.duration += seconds
                yield self._heard.take(some)


@asynccontextmanager
async def _uploaded(
    scope: Scope, receive: Receive, settings: Settings, loaded: Loaded[AsrModel]
) -> AsyncGenerator[Upload]:
    """Read and check the form; its file is deleted when the block ends.

    Raises:
        Refused: 400 naming the field, 408 standing still, 413 too large, 415 not a form.
        ClientDisconnect: the client left.
    """
    form = await body.form(scope, receive, settings, settings.max_upload_bytes, "max_upload_bytes")
    try:
        yield _checked(form, loaded, strict=settings.strict)
    finally:
        await form.close()


def _checked(form: FormData, loaded: Loaded[AsrModel], *, strict: bool) -> Upload:
    for name in form:
        if name not in _KNOWN and not name.startswith("chunking_strategy["):
            raise body.wrong(name, f"{name}: no such field")
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise body.wrong("file", f"file: {'missing' if file is None else 'a text where a file belongs (no filename)'}")
    if not file.size:
        raise body.wrong("file", "file: empty")
    aliases = HEARING_ALIASES if strict else HEARING_ALIASES + OTHER_HEARING
    warnings = check_model(body.text(form, "model"), loaded.name, aliases, status=404)
    response_format = body.text(form, "response_format", "json")
    if response_format == "diarized_json":
        told = f"response_format: speakers are not told apart here; {', '.join(FORMATS)} are written"
        raise body.wrong("response_format", told)
    if response_format not in FORMATS:
        raise body.wrong("response_format", f"response_format: {response_format!r} is none of {', '.join(FORMATS)}")
    stream = body.text(form, "stream", "false").lower()
    if stream not in ("true", "false"):
        raise body.wrong("stream", f"stream: {stream!r} is not true or false")
    if stream == "true" and response_format not in ("json", "text"):
        raise body.wrong("response_format", f"response_format: {response_format!r} does not stream; json and text do")
    granularities = {str(value) for value in form.getlist("timestamp_granularities[]")}
    if granularities - {"word", "segment"}:
        raise body.wrong("timestamp_granularities[]", "timestamp_granularities[]: each is word or segment")
    if "word" in granularities and response_format != "verbose_json":
        raise body.wrong("timestamp_granularities[]", "timestamp_granularities[]: needs response_format verbose_json")
    candidates = [str(value) for value in form.getlist("languages[]")] or [body.text(form, "language")]
    # One language is forced; of several the model tells which it hears.
    forced = language(candidates[0]) if len(candidates) == 1 else None
    try:
        keywords = tuple(str(value) for value in form.getlist("keywords[]"))
        options = ListenOptions(language=forced, keyterms=keywords, interim=False)
    except OptionError as error:
        raise body.wrong("keywords[]", f"keywords[]: {error.reason}") from None
    names = {"keyterms": "keywords[]"}
    if prompt := body.text(form, "prompt"):  # often all that was heard before, of which OpenAI takes the end as well
        end = loaded.model.fitting(prompt, options)
        if len(end.split()) < len(prompt.split()):
            warnings.append(f"prompt: its last {len(end.split())} words are listened for, the others do not fit")
        options = replace(options, keyterms=(end, *keywords))
        names = {"keyterms": "prompt"}
    words = "word" in granularities
    return Upload(file.file, options, names, response_format, words, stream == "true", tuple(warnings))
