"""A request's body, bounded in size and time: forms and JSON."""

import asyncio
import logging
import re
import time
from tempfile import SpooledTemporaryFile
from typing import Any, Final, TypeVar

import msgspec
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from daemon.config import Settings
from daemon.refusal import Refused

B = TypeVar("B")

log: Final = logging.getLogger("hearsay.body")

_PLACE: Final = re.compile(r"at `\$\.(\w+)")
_FIELD: Final = re.compile(r"field `(\w+)`")
_MAX_FIELDS: Final = 100
_MAX_FIELD_BYTES: Final = 1 << 18
_SPOOL_BYTES: Final = 1 << 20
_SLOWEST: Final = 1024
"""Bytes a second that a body must bring on average, once it has had ``idle_seconds`` to begin."""


async def form(scope: Scope, receive: Receive, settings: Settings, most: int, limit: str) -> FormData:
    """Read a multipart form with at most one file; the caller closes it, which deletes the file.

    Args:
        most: bytes; ``limit`` says for people where that comes from.

    Raises:
        Refused: 400 a broken form, 408 standing still, 413 too large, 415 no form of UTF-8, 507 no room for its file.
        ClientDisconnect: the client left.
    """
    request = _request(scope, receive, settings, most, limit, "file")
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data":
        raise Refused(415, "content_type", "the body must be multipart/form-data with a file")
    if options.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
        raise Refused(415, "content_type", "charset: a form's fields are UTF-8")
    try:
        return await request.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES)
    except HTTPException as error:  # starlette's word for a broken form
        raise Refused(400, "invalid_form", f"the form is broken: {error.detail}") from None
    except OSError as error:  # nothing else of this writes: a large file goes to the temporary directory
        raise _no_room(error) from None


async def whole(scope: Scope, receive: Receive, settings: Settings, most: int, limit: str) -> bytes:
    """Read a body into memory; arguments and errors as :func:`form`."""
    return await _request(scope, receive, settings, most, limit, None).body()


async def stored(scope: Scope, receive: Receive, settings: Settings) -> UploadFile:
    """Read a body into a temporary file, in memory while it is small; the caller closes it, which deletes it.

    Raises:
        Refused, ClientDisconnect: as :func:`form`.
    """
    request = _request(scope, receive, settings, settings.max_upload_bytes, "max_upload_bytes", None)
    spool: Any = SpooledTemporaryFile(_SPOOL_BYTES)
    file = UploadFile(spool, size=0)
    try:
        async for chunk in request.stream():
            await file.write(chunk)
    except OSError as error:
        await file.close()
        raise _no_room(error) from None
    except BaseException:
        await file.close()
        raise
    return file


def decoded(data: bytes, decoder: "msgspec.json.Decoder[B]") -> B:
    """A JSON body.

    Raises:
        Refused: 400 naming the field that is wrong.
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        found = _PLACE.search(str(error)) or _FIELD.search(str(error))
        name = found[1] if found else None
        prefix = f"{name}: " if name else "the body must be a JSON object: "
        raise Refused(400, "invalid_body", f"{prefix}{error}", param=name) from None


def text(form: FormData, name: str, default: str = "") -> str:
    """A field of a form.

    Raises:
        Refused: 400, it is a file, or there are two.
    """
    if len(form.getlist(name)) > 1:
        raise wrong(name, f"{name}: given more than once")
    value = form.get(name, default)
    if not isinstance(value, str):
        raise wrong(name, f"{name}: a file where a text belongs")
    return value or default


def wrong(name: str, message: str) -> Refused:
    """400 for the field ``name``."""
    return Refused(400, "invalid_field", message, param=name)


def _no_room(error: OSError) -> Refused:
    reason = f"the file cannot be stored: {error.strerror}"
    log.warning("%s", reason)
    return Refused(507, "no_room", reason, closes=True)


def _request(scope: Scope, receive: Receive, settings: Settings, most: int, limit: str, field: str | None) -> Request:
    too_large = Refused(413, "too_large", f"the body is larger than {most} bytes ({limit})", param=field)
    request = Request(scope, _bounded(receive, settings, most, too_large))
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise too_large
    return request


def _bounded(receive: Receive, settings: Settings, most: int, too_large: Refused) -> Receive:
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
        if taken > most:
            raise too_large
        late = time.monotonic() - began - settings.idle_seconds
        if message.get("more_body") and (taken < late * _SLOWEST or late > settings.max_session_seconds):
            raise Refused(408, "slow", f"the upload is slower than {_SLOWEST} bytes a second (or max_session_seconds)")
        return message

    return bounded
