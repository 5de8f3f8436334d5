"""An upload of ``/v1/audio/transcriptions``: the multipart form, bounded in size and time, and its fields checked."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

from starlette.datastructures import FormData, UploadFile
from starlette.types import Receive, Scope

from daemon import body
from daemon.config import Settings
from daemon.names import HEARING_ALIASES, check_model
from daemon.query import language
from daemon.transcript import FORMATS
from streaming.options import ListenOptions, OptionError

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


@asynccontextmanager
async def read(scope: Scope, receive: Receive, settings: Settings, model: str) -> AsyncGenerator[Upload]:
    """Read and check the form; its file is deleted when the block ends.

    Raises:
        Refused: 400 naming the field, 408 standing still, 413 too large, 415 not a form.
        ClientDisconnect: the client left.
    """
    form = await body.form(scope, receive, settings, settings.max_upload_bytes, "max_upload_bytes")
    try:
        yield _checked(form, model)
    finally:
        await form.close()


def _checked(form: FormData, model: str) -> Upload:
    for name in form:
        if name not in _KNOWN and not name.startswith("chunking_strategy["):
            raise body.wrong(name, f"{name}: no such field")
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise body.wrong("file", f"file: {'missing' if file is None else 'a text where a file belongs (no filename)'}")
    if not file.size:
        raise body.wrong("file", "file: empty")
    check_model(body.text(form, "model"), model, HEARING_ALIASES, status=404)
    response_format = body.text(form, "response_format", "json")
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
    prompt = body.text(form, "prompt")
    terms = (*([prompt] if prompt else []), *(str(value) for value in form.getlist("keywords[]")))
    terms_field = "prompt" if prompt else "keywords[]"
    try:
        options = ListenOptions(language=forced, keyterms=terms, interim=False)
    except OptionError as error:
        raise body.wrong(terms_field, f"{terms_field}: {error.reason}") from None
    names = {"keyterms": terms_field}
    return Upload(file.file, options, names, response_format, "word" in granularities, stream == "true")
