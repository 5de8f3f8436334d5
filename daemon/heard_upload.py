"""A recording that comes as an upload, and its transcript: what all endpoints for files share.

Each endpoint says which fields it understands and how its answers are made (:class:`Dialect`). A file is heard by a
listener like that of a stream, block after block as backlog of the lane. It ends when the client leaves.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from audio.ffmpeg import MOST_TRACKS
from audio.pcm import Samples, Shape
from audio.recording import RecordingError, raw_samples, samples
from audio.sound import Notes, Wanted
from daemon import body
from daemon.answer import in_time, unless_gone
from daemon.body import FormFields
from daemon.fields import Fields
from daemon.file_transcript import FileTranscript
from daemon.heard_file import heard as heard_file
from daemon.hub import Hub
from daemon.known_speakers import NAMES, REFERENCES, known_speakers
from daemon.loading import Loaded
from daemon.names import check_model, language
from daemon.parameters import warning_header
from daemon.paths import Endpoint
from daemon.refusal import Refused
from daemon.subtitles import LINES, WIDTHS, Layout
from daemon.workers import SessionWorker
from engines.lane import Owner
from engines.sessions import OptionError
from streaming.events import Transcript
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions

_SEPARATORS: Final = re.compile("[,;\n]")
"""The marks that part the words of a list in one field."""
_RAW: Final = Shape("linear16", 16_000, 1)
"""The format of a file that holds samples without a container, as servers around Whisper take it."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A checked request to hear a file."""

    file: BinaryIO
    options: ListenOptions
    names: Mapping[str, str]
    """For options of the listener that came in fields of another name: the option's name, and the field's."""
    format: str
    """The format of the answer: a key of the dialect's ``formats``."""
    words: bool
    """Whether the times of words are asked for."""
    layout: Layout
    """How many lines and characters a subtitle may have."""
    stream: bool
    """Whether the answer comes as server-sent events while the file is heard."""
    raw: bool
    """Whether the file holds samples without a container."""
    track: int | None
    """The number of the track to hear, from 1 on; None lets ``audio.sound.Wanted`` choose."""
    callback: str
    """The address that is told the result of a job, or empty if none is."""
    warnings: tuple[str, ...]
    """What was ignored or changed of the request, a sentence each."""


Written = Callable[[FileTranscript, Upload], Response]
"""Makes the answer of one format from a transcript."""


def text_answer(heard: FileTranscript, upload: Upload) -> Response:
    """The words alone, as text/plain."""
    del upload
    return Response(heard.text + "\n", media_type="text/plain")


def srt_answer(heard: FileTranscript, upload: Upload) -> Response:
    """Subtitles as SubRip."""
    return Response(heard.srt(upload.layout), media_type="application/x-subrip")


def vtt_answer(heard: FileTranscript, upload: Upload) -> Response:
    """Subtitles as WebVTT."""
    return Response(heard.vtt(upload.layout), media_type="text/vtt")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the clients of one kind of server ask for a file to be heard.

    Attributes:
        endpoint: the path at which they ask.
        fields: the fields that they send.
        files: the names of fields in which the recording may come.
        formats: the answer of each format; the first is used if none is asked for.
        same_formats: other names of formats.
        worded: the formats that can have the times of words.
        streamed: the formats that may come as server-sent events.
        in_query: whether fields may come in the query too.
        seconds: how much of the recording is heard; the rest is ignored.
    """

    endpoint: Endpoint
    fields: Fields
    files: frozenset[str]
    formats: Mapping[str, Written]
    same_formats: Mapping[str, str] = field(default_factory=dict[str, str])
    worded: frozenset[str] = frozenset()
    streamed: frozenset[str] = frozenset()
    in_query: bool = False
    seconds: float = float("inf")


async def hear_upload(hub: Hub, dialect: Dialect, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the form, hear the file, and answer.

    Raises:
        Refused: 400 for a wrong field, which the message names; 405 for another method; 408 for an upload that stands
            still; 413 for one that is too large; 415 for another type; and as ``Hub.hear``.
    """
    if scope["method"] != "POST":
        raise Refused(405, "method", "POST a multipart form with a file", allow="POST")
    loaded = hub.hearing_model()
    async with uploaded(hub, dialect, scope, receive, loaded) as upload:
        worker = await hub.hear(upload.options, upload.names, live=False)
        try:
            await unless_gone(receive, _Answer(hub, dialect, upload, worker, scope, receive, send).give())
        except RecordingError as error:
            raise Refused(400, "invalid_file", f"{error.field}: {error}", param=error.field) from None
        finally:
            await worker.close()


class _Answer:
    """The answer to one request."""

    def __init__(
        self,
        hub: Hub,
        dialect: Dialect,
        upload: Upload,
        worker: SessionWorker[Listener],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        self._hub, self._dialect, self._upload, self._worker = hub, dialect, upload, worker
        self._scope, self._receive, self._send = scope, receive, send
        self._heard, self._notes = FileTranscript(), Notes()

    async def give(self) -> None:
        """Hear the file and send its text, at once or while it is heard."""
        if self._upload.stream:
            await self._stream()
        else:
            await self._whole()

    async def _whole(self) -> None:
        async for _ in self._texts():
            pass
        response = self._dialect.formats[self._upload.format](self._heard, self._upload)
        response.raw_headers += warning_header(self._warnings())
        async with in_time(self._hub):
            await response(self._scope, self._receive, self._send)

    async def _stream(self) -> None:
        """Send server-sent events. A delta is the final text of a segment, so nothing that was sent is ever taken
        back."""
        texts = self._texts()
        # A file that is no audio is still refused with a status, because its first block shows that.
        finals = await anext(texts, None)
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        headers += warning_header(self._upload.warnings)
        await self._put({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            said, segments = False, 0
            while finals is not None:
                for segment in self._heard.segments(finals, segments) if self._upload.format == "diarized_json" else ():
                    await self._put_event(segment)
                    segments += 1
                for final in finals:
                    delta = (" " if said else "") + final.text
                    timed = self._heard.timed(final) if self._upload.words else {}
                    await self._put_event({"type": "transcript.text.delta", "delta": delta, **timed})
                    said = True
                finals = await anext(texts, None)
            done = {"type": "transcript.text.done", **self._heard.json(words=self._upload.words)}
            if warnings := self._warnings():  # The header went before the file was heard.
                done["warnings"] = warnings
        except RecordingError as error:
            done = {
                "error": {
                    "message": f"{error.field}: {error}",
                    "type": "invalid_request_error",
                    "param": error.field,
                    "code": None,
                }
            }
        await self._put_event(done)
        await self._put({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def _put_event(self, event: dict[str, Any]) -> None:
        data = b"data: " + msgspec.json.encode(event) + b"\n\n"
        await self._put({"type": "http.response.body", "body": data, "more_body": True})

    async def _put(self, message: Message) -> None:
        async with in_time(self._hub):
            await self._send(message)

    def _warnings(self) -> list[str]:
        return [*self._upload.warnings, *self._notes.warnings()]

    def _texts(self) -> AsyncIterator[list[Transcript]]:
        return finals(self._hub, self._dialect, self._upload, self._worker, self._heard, self._notes)


async def finals(
    hub: Hub, dialect: Dialect, upload: Upload, worker: SessionWorker[Listener], heard: FileTranscript, notes: Notes
) -> AsyncIterator[list[Transcript]]:
    """The finals that each block of the file brings, block by block. They are kept in ``heard``.

    Raises:
        RecordingError: the file is no audio, or damaged.
    """
    model = hub.hearing_model().model
    most, file, rate = hub.settings.max_session_seconds, upload.file, model.sample_rate
    if upload.raw:
        blocks = raw_samples(file, _RAW, rate, most, None)
    else:
        blocks = samples(file, Wanted(rate, track=upload.track, speaks=model.speaks), most, notes)
    blocks = _beginning(blocks, dialect.seconds * rate)
    async with aclosing(heard_file(hub, worker, blocks, dialect.endpoint)) as events:
        async for some, seconds in events:
            heard.duration += seconds
            yield heard.take(some)
    if not upload.stream:  # What was sent keeps its speakers.
        heard.finals = await hub.run(partial(worker.session.settled, heard.finals))


@asynccontextmanager
async def uploaded(
    hub: Hub, dialect: Dialect, scope: Scope, receive: Receive, loaded: Loaded[AsrModel]
) -> AsyncGenerator[Upload]:
    """Read and check the form; its file is deleted when the block ends.

    Raises:
        Refused: as :func:`hear_upload`.
        ClientDisconnect: the client left.
    """
    settings = hub.settings
    form = await body.form(scope, receive, settings, settings.max_upload_bytes, "max_upload_bytes", dialect.files)
    try:
        given: list[tuple[str, str | UploadFile]] = list(form.multi_items())
        if dialect.in_query:
            given += parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        yield await _understood(hub, dialect, given, loaded, receive)
    finally:
        await form.close()


async def _understood(
    hub: Hub,
    dialect: Dialect,
    given: Iterable[tuple[str, str | UploadFile]],
    loaded: Loaded[AsrModel],
    receive: Receive,
) -> Upload:
    """What is asked for, understood in a worker thread: finding how much of a long prompt fits takes tens of
    milliseconds, and voice prints of known speakers wait for the lane. Whoever leaves waits no longer."""
    owner, found = Owner(), list[Upload]()

    async def check() -> None:
        found.append(await hub.run(partial(_checked, dialect, given, loaded, owner, strict=hub.settings.strict)))

    try:
        await unless_gone(receive, check())
    finally:
        owner.cancel()
        loaded.model.engine.lane.wake()
    if not found:
        raise ClientDisconnect
    return found[0]


def _checked(
    dialect: Dialect,
    given: Iterable[tuple[str, str | UploadFile]],
    loaded: Loaded[AsrModel],
    owner: Owner,
    *,
    strict: bool,
) -> Upload:
    found = dialect.fields.understood(given, strict=strict)
    asked = _Asked(found)
    file = asked.file("file")
    warnings = found.warnings
    warnings += check_model(asked.text("model"), loaded.name, "hears", strict=strict, status=404)
    if asked.text("task", "transcribe").lower() != "transcribe":
        raise body.wrong("task", "task: speech is written down as it is spoken here (transcribe), not translated")
    format = asked.format(dialect)
    stream = asked.flag("stream")
    if stream and format not in dialect.streamed:
        asked.ignore("stream", f"stream: {format} is not streamed, it comes as a whole", strict=strict)
        stream = False
    words = asked.words()
    if words and format not in dialect.worded:
        told = f"timestamp_granularities: {format} has no words; {' and '.join(sorted(dialect.worded))} have"
        asked.ignore("timestamp_granularities", told, strict=strict)
    # One language is forced. If there are several, the model finds out by itself.
    candidates = [one for one in asked.texts("languages") if one] or [asked.text("language")]
    forced = language(candidates[0]) if len(candidates) == 1 else None
    names = {"keyterms": found.name("keywords")}
    try:
        speakers = format == "diarized_json" or asked.flag("diarize")
        if speakers and (format == "text" or (format == "json" and not words)):
            told = f"diarize: {format} tells no speakers; diarized_json, verbose_json, srt and vtt do"
            asked.ignore("diarize", told, strict=strict)
            speakers = False
        options = ListenOptions(language=forced, keyterms=asked.keywords(), interim=False, speakers=speakers)
    except OptionError as error:
        raise body.wrong(names["keyterms"], f"{names['keyterms']}: {error.reason}") from None
    if speakers:
        options = replace(options, known=known_speakers(asked, loaded.model, owner))
    for unused in () if speakers else (NAMES, REFERENCES):
        if asked.texts(unused):
            told = f"{unused}: {format} tells no speakers; diarized_json does, and diarize=true"
            asked.ignore(unused, told, strict=strict)
    if prompt := asked.text("prompt"):  # A prompt often holds the transcript so far; OpenAI too uses only its end.
        try:
            loaded.model.check(options)  # Keywords that are wrong by themselves are not the prompt's fault.
        except OptionError as error:
            name = names.get(error.field, error.field)
            raise body.wrong(name, f"{name}: {error.reason}") from None
        end = loaded.model.fitting(prompt, options)
        if len(end.split()) < len(prompt.split()):
            warnings.append(f"prompt: its last {len(end.split())} words are listened for, the others do not fit")
        options = replace(options, keyterms=(end, *options.keyterms))
        names = {"keyterms": "prompt"}
    return Upload(
        file.file,
        options,
        names,
        format,
        words,
        asked.layout(),
        stream,
        not asked.flag("encode", "true"),
        asked.track(),
        asked.text("callback"),
        tuple(warnings),
    )


class _Asked(FormFields):
    """The fields of the form."""

    def format(self, dialect: Dialect) -> str:
        """The format of the answer, by its own name.

        Raises:
            Refused: 400, there is no such format.
        """
        wanted = self.text("response_format", next(iter(dialect.formats))).lower()
        format = dialect.same_formats.get(wanted, wanted)
        if format in dialect.formats:
            return format
        written = ", ".join(dialect.formats)
        raise self.wrong("response_format", f"{wanted[:80]!r} is none of {written}")

    def words(self) -> bool:
        """Whether the times of words are asked for.

        Raises:
            Refused: 400, there is no such granularity.
        """
        listed = ",".join(self.texts("timestamp_granularities")).lower().split(",")
        granularities = {one.strip("[]\"' ") for one in listed} - {""}
        if granularities - {"word", "segment", "none"}:
            raise self.wrong("timestamp_granularities", "each is word or segment")
        return "word" in granularities or self.flag("word_timestamps")

    def keywords(self) -> tuple[str, ...]:
        """The keyterms. They come in a field each, or as a list in one field, as with other servers."""
        texts = self.texts("keywords")
        if len(texts) == 1:
            texts = _SEPARATORS.split(texts[0])
        return tuple(one.strip() for one in texts if one.strip())

    def layout(self) -> Layout:
        """How many lines and characters a subtitle may have, by the names of Whisper's command.

        Raises:
            Refused: 400, a number lies outside its bounds.
        """
        usual = Layout()
        return Layout(
            self._whole("max_line_width", usual.width, WIDTHS), self._whole("max_line_count", usual.lines, LINES)
        )

    def track(self) -> int | None:
        """The number of the track to hear, from 1 on; None if the request names none.

        Raises:
            Refused: 400, the number lies outside its bounds.
        """
        return self._whole("track", 0, (1, MOST_TRACKS)) if self.text("track") else None

    def _whole(self, name: str, default: int, bounds: tuple[int, int]) -> int:
        text = self.text(name, str(default)).strip()
        low, high = bounds
        if not (text.isascii() and text.isdigit() and len(text) < 9 and low <= int(text) <= high):
            raise self.wrong(name, f"{text[:20]!r} is no whole number in {low}…{high}")
        return int(text)

    def ignore(self, name: str, warning: str, *, strict: bool) -> None:
        """Add a ``warning`` that a field is ignored, since it does not go with the others.

        Raises:
            Refused: 400, the daemon is strict.
        """
        if strict:
            raise body.wrong(self.found.name(name), f"{warning} (strict)")
        self.found.warnings.append(warning)


def _beginning(blocks: Generator[Samples], most: float) -> Generator[Samples]:
    """The first ``most`` samples of ``blocks``."""
    with closing(blocks):
        for block in blocks:
            yield block[: int(min(most, block.size))]
            most -= block.size
            if most <= 0:
                return
