"""A request's body, bounded in size and time: forms and JSON."""

import asyncio
import logging
import os
import re
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import Any, Final, TypeVar

import msgspec
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from daemon import messages
from daemon.config import Settings
from daemon.fields import Understood
from daemon.form import SPOOL_BYTES, BrokenForm, read
from daemon.refusal import Refused

B = TypeVar("B")

log: Final = logging.getLogger("hearsay.body")

_SLOWEST: Final = 1024
"""Bytes a second that a body must bring on average, once it has had ``idle_seconds`` to begin: less than any
modem brings."""


async def form(
    scope: Scope, receive: Receive, settings: Settings, most: int, limit: str, files: Collection[str]
) -> FormData:
    """Read a multipart form with at most one file. The caller closes it, which deletes the file.

    Args:
        most: bytes; ``limit`` says for people where that comes from.
        files: names of fields that hold the file.

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
        with storing():  # A large file goes to the temporary directory.
            return await read(request.headers["content-type"], request.stream(), files)
    except BrokenForm as error:
        raise Refused(400, "invalid_form", f"the form is broken: {error}") from None


async def whole(scope: Scope, receive: Receive, settings: Settings, most: int, limit: str) -> bytes:
    """Read a body into memory; arguments and errors as :func:`form`."""
    return await _request(scope, receive, settings, most, limit, None).body()


async def stored(scope: Scope, receive: Receive, settings: Settings) -> UploadFile:
    """Read a body into a temporary file, which is held in memory while it is small. The caller closes the file, which
    deletes it.

    Raises:
        Refused, ClientDisconnect: as :func:`form`.
    """
    request = _request(scope, receive, settings, settings.max_upload_bytes, "max_upload_bytes", None)
    spool: Any = SpooledTemporaryFile(SPOOL_BYTES)
    file = UploadFile(spool, size=0)
    try:
        async for chunk in request.stream():
            with storing():
                await file.write(chunk)
    except BaseException:
        await file.close()
        raise
    return file


def decoded(data: bytes, decoder: "msgspec.json.Decoder[B]") -> B:
    """A JSON body as the value that ``decoder`` makes of it.

    Raises:
        Refused: 400 naming the field that is wrong.
    """
    try:
        return messages.decoded(data, decoder)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _misfit(error, messages.wrong_field(data, decoder.type)) from None


def converted(fields: dict[str, Any], kind: type[B]) -> B:
    """The fields of a JSON object as ``kind``; a number or a truth value may also stand in a string.

    Raises:
        Refused: 400 naming the field that is wrong.
    """
    try:
        return msgspec.convert(fields, kind, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _misfit(error, messages.misfit(fields, kind, strict=False)) from None


class FormFields:
    """The fields of a form, each read as the type that it must have."""

    def __init__(self, found: Understood[str | UploadFile]) -> None:
        self.found: Final = found

    def texts(self, name: str) -> list[str]:
        """Every value of a field.

        Raises:
            Refused: 400, one is a file.
        """
        values = self.found.values.get(name, [])
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) < len(values):
            raise self.wrong(name, "a file where a text belongs")
        return texts

    def text(self, name: str, default: str = "") -> str:
        """The only value of a field; ``default`` where it is empty.

        Raises:
            Refused: 400, it is a file, or there are two.
        """
        values = self.texts(name)
        if len(values) > 1:
            raise self.wrong(name, "given more than once")
        return (values[0] if values else "") or default

    def file(self, name: str) -> UploadFile:
        """The only value of a field that holds a file.

        Raises:
            Refused: 400, there is none, it is a text, or nothing is in it.
        """
        values = self.found.values.get(name, [])
        if len(values) != 1:
            raise self.wrong(name, "given more than once" if values else "missing")
        value = values[0]
        if not isinstance(value, UploadFile):
            raise self.wrong(name, "a text where a file belongs")
        if not value.size:
            raise self.wrong(name, "empty")
        return value

    def flag(self, name: str, default: str = "false") -> bool:
        """The value of a field that is ``true`` or ``false``, which some clients write as ``1`` and ``0``;
        ``default`` where it is empty.

        Raises:
            Refused: 400, it is neither.
        """
        text = self.text(name, default).strip().lower()
        if text not in ("true", "false", "1", "0"):
            raise self.wrong(name, f"{text[:80]!r} is not true or false")
        return text in ("true", "1")

    def wrong(self, name: str, reason: str) -> Refused:
        """The refusal of a field, under the name that the caller gave it."""
        given = self.found.name(name)
        return wrong(given, f"{given}: {reason}")


def wrong(name: str, message: str) -> Refused:
    """The refusal of the field ``name``."""
    return Refused(400, "invalid_field", message, param=name)


def _misfit(error: Exception, place: str | None) -> Refused:
    name = re.split(r"[.\[]", place or "")[0] or None
    prefix = f"{name}: " if name else "the body must be a JSON object: "
    return Refused(400, "invalid_body", f"{prefix}{error}", param=name)


@contextmanager
def storing(what: str = "the file") -> Generator[None]:
    """Run a block that writes to disk, and in which nothing else can raise an ``OSError``.

    Raises:
        Refused: 507, it cannot. The answer names no path of this machine; the log does.
    """
    try:
        yield
    except OSError as error:
        log.warning("%s cannot be stored: %s", what, error)
        reason = os.strerror(error.errno) if error.errno else "there is no room"
        raise Refused(507, "no_room", f"{what} cannot be stored: {reason}", closes=True) from None


def _request(scope: Scope, receive: Receive, settings: Settings, most: int, limit: str, field: str | None) -> Request:
    too_large = Refused(413, "too_large", f"the body is larger than {most} bytes ({limit})", param=field)
    request = Request(scope, _bounded(receive, settings, most, too_large))
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise too_large
    return request


def _bounded(receive: Receive, settings: Settings, most: int, too_large: Refused) -> Receive:
    """A ``receive`` that gives up on a body which is too large, stands still or trickles."""
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
