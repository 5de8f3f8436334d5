"""The client of ``POST /v1/audio/transcriptions``: one recording up, its words back."""

import http.client
import json
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clients.events import ListenError, ProtocolError
from clients.handshake import Refused, user_agent

CONNECT_SECONDS = 10.0
_BLOCK = 1 << 16


def transcribe(
    url: str,
    path: Path,
    *,
    key: str | None = None,
    model: str | None = None,
    language: str | None = None,
    keyterms: Sequence[str] = (),
) -> dict[str, Any]:
    """Have the daemon at ``url`` transcribe a file; its ``verbose_json`` answer, with words.

    Raises:
        Refused: no daemon there, or it said no (``status``, and its own words in the message).
        ListenError: the connection broke before the answer.
        ProtocolError: the answer is not what the protocol says.
        OSError: the file cannot be read.
    """
    fields = [("model", model or "default"), ("response_format", "verbose_json"), ("timestamp_granularities[]", "word")]
    fields += [("timestamp_granularities[]", "segment")]
    fields += [("language", language)] if language is not None else []
    fields += [("keywords[]", term) for term in keyterms]
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
        raise Refused(f"{url!r} is no daemon's address: expected http://HOST:PORT", 400)
    kind = http.client.HTTPSConnection if parts.scheme in ("https", "wss") else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=CONNECT_SECONDS)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise Refused(f"no daemon answers at {parts.netloc}: {error}") from error
        assert connection.sock is not None
        connection.sock.settimeout(None)  # a long recording takes its time; a dead peer is the kernel's to notice
        place = parts.path.rstrip("/").removesuffix("/v1") + "/v1/audio/transcriptions"
        return _exchange(connection, place, path, fields, key)
    finally:
        connection.close()


def _exchange(
    connection: http.client.HTTPConnection, place: str, path: Path, fields: list[tuple[str, str]], key: str | None
) -> dict[str, Any]:
    boundary = secrets.token_hex(16)
    head = b"".join(_field(boundary, name, value) for name, value in fields)
    name = path.name.replace("\\", "_").replace('"', "_").replace("\r", "_").replace("\n", "_")
    head += (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    tail = f"\r\n--{boundary}--\r\n".encode()
    headers = {
        "Content-Type": f"multipart/form-data; boundary={boundary}",
        "Content-Length": str(len(head) + path.stat().st_size + len(tail)),
        "User-Agent": user_agent(),
        "Accept": "application/json",
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        try:
            connection.request("POST", place, _body(head, path, tail), headers)
        except BrokenPipeError:
            pass  # the daemon answered before it read everything (413, 401): its answer says why
        answer = connection.getresponse()
        content = answer.read()
    except (http.client.HTTPException, ConnectionError) as error:
        raise ListenError(f"the connection broke before the answer: {error or type(error).__name__}") from error
    if answer.status != 200:
        raise Refused(f"the daemon refused with HTTP {answer.status}: {_explanation(content)}", answer.status)
    try:
        data: Any = json.loads(content)
        if not isinstance(data, dict) or not isinstance(data["text"], str):  # pyright: ignore[reportUnknownMemberType]
            raise ValueError("no text")
    except (ValueError, KeyError) as error:
        raise ProtocolError(f"unreadable answer from the daemon: {content[:200]!r}") from error
    return data  # pyright: ignore[reportUnknownVariableType]


def _field(boundary: str, name: str, value: str) -> bytes:
    return f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def _body(head: bytes, path: Path, tail: bytes) -> Iterator[bytes]:
    yield head
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
    yield tail


def _explanation(content: bytes) -> str:
    try:
        data: Any = json.loads(content)
        return str(data["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode("utf-8", "replace").strip() or "no reason given"
