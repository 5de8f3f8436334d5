"""One HTTP request to a daemon: connect, send, read the answer, and how each of them fails."""

import http.client
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .events import ListenError, ProtocolError
from .handshake import Refused, authorization, explanation, seconds_told, user_agent
from .options import sendable

CONNECT_SECONDS = 10.0
"""Seconds for a connection to be made: ten round trips over a bad line."""
_BLOCK = 1 << 16
"""Bytes of a file that are sent at once."""


@dataclass(frozen=True, slots=True)
class Form:
    """A multipart form: fields, and a file that goes up block by block under the name ``field``."""

    fields: Sequence[tuple[str, str]]
    field: str
    path: Path


def request(
    url: str,
    method: str,
    path: str,
    *,
    key: str | None = None,
    form: Form | None = None,
    warnings: list[str] | None = None,
) -> Any:
    """Ask the daemon at ``url`` and return its JSON answer.

    Args:
        path: below the daemon's root, e.g. ``/v1/models``.
        key: of the daemon, where it asks for one.
        warnings: takes what the daemon ignored, changed or found damaged, a sentence each.

    Raises:
        Refused: no daemon there, or it said no (``status``, and its own words in the message).
        ListenError: the connection broke before the answer, or a field is no text that can be sent.
        ProtocolError: the answer is not JSON.
        OSError: the form's file cannot be read.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
        raise Refused(f"{url!r} is no daemon's address: expected http://HOST:PORT", 400)
    kind = http.client.HTTPSConnection if parts.scheme in ("https", "wss") else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=CONNECT_SECONDS)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise Refused(f"no daemon answers at {parts.netloc}: {error}; start one with `hearsay serve`") from error
        assert connection.sock is not None
        # A long recording takes its time, so there is no time-out here; the kernel notices a dead peer.
        connection.sock.settimeout(None)
        return _exchange(connection, method, parts.path.rstrip("/").removesuffix("/v1") + path, key, form, warnings)
    finally:
        connection.close()


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    key: str | None,
    form: Form | None,
    warnings: list[str] | None,
) -> Any:
    headers = {"User-Agent": user_agent(), "Accept": "application/json", **authorization("Bearer", key)}
    body: Iterator[bytes] | None = None
    if form is not None:
        body, described = _encoded(form)
        headers |= described
    try:
        try:
            connection.request(method, path, body, headers)
        except BrokenPipeError:
            pass  # The answer came early (413, 401) and says why.
        answer = connection.getresponse()
        content = answer.read()
    except (http.client.HTTPException, ConnectionError) as error:
        raise ListenError(f"the connection broke before the answer: {error or type(error).__name__}") from error
    if not 200 <= answer.status < 300:
        told = explanation(content, "no reason given")
        of_file = form is not None and _param(content) == form.field
        told = f"the daemon refused with HTTP {answer.status}: {told}"
        raise Refused(told, answer.status, seconds_told(answer.headers.get("Retry-After")), of_file=of_file)
    if warnings is not None and (told := answer.headers.get("hearsay-warning")):
        warnings += told.split("; ")
    try:
        return json.loads(content)
    except ValueError as error:
        raise unreadable(content) from error


def unreadable(content: object) -> ProtocolError:
    """The error for an answer that is not what the protocol says."""
    return ProtocolError(f"unreadable answer from the daemon: {content!r:.200}")


def _param(content: bytes) -> object:
    """The field that a refusal is about, where the refusal says so."""
    try:
        return json.loads(content)["error"]["param"]
    except (ValueError, LookupError, TypeError):
        return None


def _encoded(form: Form) -> tuple[Iterator[bytes], dict[str, str]]:
    """The form as a body, block by block, and the headers that describe it."""
    boundary = secrets.token_hex(16)
    head = b"".join(_field(boundary, name, value) for name, value in form.fields)
    name = form.path.name.replace("\\", "_").replace('"', "_").replace("\r", "_").replace("\n", "_")
    head += (
        f'--{boundary}\r\nContent-Disposition: form-data; name="{form.field}"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode(errors="replace")  # A file's name need not be text.
    tail = f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    if form.path.is_file():  # http.client sends a pipe, which has no length, in chunks.
        headers["Content-Length"] = str(len(head) + form.path.stat().st_size + len(tail))
    return _body(head, form.path, tail), headers


def _field(boundary: str, name: str, value: str) -> bytes:
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
    return f"{head}{sendable(name, value)}\r\n".encode()


def _body(head: bytes, path: Path, tail: bytes) -> Iterator[bytes]:
    yield head
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
    yield tail
