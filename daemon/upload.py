"""An upload of ``/v1/audio/transcriptions``: the multipart form, bounded in size and time, and its fields checked."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from daemon.config import Settings
from daemon.names import check_model
from daemon.query import language
from daemon.refusal import Refused
from daemon.transcript import FORMATS
from streaming.options import ListenOptions, OptionError

_KNOWN: Final = frozenset({
    "file", "model", "language", "languages[]", "prompt", "keywords[]", "temperature", "response_format",
    "timestamp_granularities[]", "include[]", "stream", "chunking_strategy", "known_speaker_names[]",
    "known_speaker_references[]",
})  # fmt: skip
_MAX_FIELDS: Final = 100
_MAX_FIELD_BYTES: Final = 1 << 18
_SLOWEST: Final = 1024
"""Bytes a second that an upload must bring on average, once it has had ``idle_seconds`` to begin."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A checked request to transcribe a file."""

    file: BinaryIO
    options: ListenOptions
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
    request = Request(scope, _bounded(receive, settings))
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Refused(415, "content_type", "the body must be multipart/form-data with a field 'file'")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > settings.max_upload_bytes:
        raise _too_large(settings)
    try:
        form = await request.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES)
    except HTTPException as error:  # starlette's word for a broken form
        raise Refused(400, "invalid_form", f"the form is broken: {error.detail}") from None
    try:
        yield _checked(form, model)
    finally:
        await form.close()


def _bounded(receive: Receive, settings: Settings) -> Receive:
    """``receive`` that gives up on a body which is too large, stands still or trickles."""
    taken, began = 0, time.monotonic()

    async def bounded() -> Message:
        nonlocal taken
        try:
            async with asyncio.timeout(settings.idle_seconds):
                message = await receive()
        except TimeoutError:
            raise Refused(
                408, "idle", f"the upload stood still for {settings.idle_seconds:g} s (idle_seconds)"
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        taken += len(message.get("body", b""))
        if taken > settings.max_upload_bytes:
            raise _too_large(settings)
        late = time.monotonic() - began - settings.idle_seconds
        if message.get("more_body") and (taken < late * _SLOWEST or late > settings.max_session_seconds):
            raise Refused(408, "slow", f"the upload is slower than {_SLOWEST} bytes a second (or max_session_seconds)")
        return message

    return bounded


def _too_large(settings: Settings) -> Refused:
    limit = f"the body is larger than {settings.max_upload_bytes} bytes (max_upload_bytes)"
    return Refused(413, "too_large", limit, param="file")


def _checked(form: FormData, model: str) -> Upload:
    for name in form:
        if name not in _KNOWN and not name.startswith("chunking_strategy["):
            raise _wrong(name, f"{name}: no such field")
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise _wrong("file", "file: missing")
    if not file.size:
        raise _wrong("file", "file: empty")
    check_model(_text(form, "model"), model, status=404)
    response_format = _text(form, "response_format", "json")
    if response_format not in FORMATS:
        raise _wrong("response_format", f"response_format: {response_format!r} is none of {', '.join(FORMATS)}")
    stream = _text(form, "stream", "false").lower()
    if stream not in ("true", "false"):
        raise _wrong("stream", f"stream: {stream!r} is not true or false")
    if stream == "true" and response_format not in ("json", "text"):
        raise _wrong("response_format", f"response_format: {response_format!r} does not stream; json and text do")
    granularities = {str(value) for value in form.getlist("timestamp_granularities[]")}
    if granularities - {"word", "segment"}:
        raise _wrong("timestamp_granularities[]", "timestamp_granularities[]: each is word or segment")
    if "word" in granularities and response_format != "verbose_json":
        raise _wrong("timestamp_granularities[]", "timestamp_granularities[]: needs response_format verbose_json")
    candidates = [str(value) for value in form.getlist("languages[]")] or [_text(form, "language")]
    # One language is forced; of several the model tells which it hears.
    forced = language(candidates[0]) if len(candidates) == 1 else None
    prompt = _text(form, "prompt")
    terms = (*([prompt] if prompt else []), *(str(value) for value in form.getlist("keywords[]")))
    try:
        options = ListenOptions(language=forced, keyterms=terms, interim=False)
    except OptionError as error:
        raise _wrong("prompt", f"prompt and keywords[]: {error}") from None
    return Upload(file.file, options, response_format, "word" in granularities, stream == "true")


def _text(form: FormData, name: str, default: str = "") -> str:
    value = form.get(name, default)
    if not isinstance(value, str):
        raise _wrong(name, f"{name}: a file where a text belongs")
    return value or default


def _wrong(name: str, message: str) -> Refused:
    return Refused(400, "invalid_field", message, param=name)
