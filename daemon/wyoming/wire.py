"""Wyoming's frames: a JSON line, then as many bytes of JSON and of payload as the line says. Bounded, and checked.

The ``wyoming`` package reads frames too, of any length that a client cares to announce.
"""

import asyncio
from typing import Annotated, Any, Final, TypeVar

import msgspec
from wyoming.event import Event
from wyoming.version import __version__

from daemon.messages import decoded

LINE_BYTES: Final = 1 << 16
"""Bytes of the longest line: asyncio's own limit for a line."""

T = TypeVar("T")

_Length = Annotated[int, msgspec.Meta(ge=0)]


class Malformed(ValueError):
    """What came is no event, or a field of it has a wrong value; the message says which."""


class _Line(msgspec.Struct):
    type: str
    data: dict[str, Any] | None = None
    data_length: _Length | None = None
    payload_length: _Length | None = None


_lines: Final = msgspec.json.Decoder(_Line)
_objects: Final = msgspec.json.Decoder(dict[str, Any])


async def read(reader: asyncio.StreamReader, most_bytes: int) -> Event | None:
    """The next event, None where the client has gone.

    Args:
        reader: with a limit of ``LINE_BYTES``.
        most_bytes: of its data, and of its payload.

    Raises:
        Malformed: it is none; where the next one begins is not known.
    """
    try:
        text = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        raise Malformed(f"a line of more than {LINE_BYTES} bytes") from None
    except (asyncio.IncompleteReadError, OSError):
        return None
    line = _decoded(_lines, text, "the line")
    data = line.data or {}
    try:
        if line.data_length:
            _check("data_length", line.data_length, most_bytes)
            data |= _decoded(_objects, await reader.readexactly(line.data_length), "data")
        payload = None
        if line.payload_length:
            _check("payload_length", line.payload_length, most_bytes)
            payload = await reader.readexactly(line.payload_length)
    except (asyncio.IncompleteReadError, OSError):
        return None
    return Event(line.type, data, payload)


def fields(event: Event, shape: type[T]) -> T:
    """The data of ``event`` as a ``shape``; what that does not name is ignored.

    Raises:
        Malformed: a field is missing or of another type.
    """
    # Some clients send null in fields that they do not choose.
    given = {name: value for name, value in event.data.items() if value is not None}
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        raise Malformed(f"{event.type}: {error}") from None


def encoded(event: Event) -> bytes:
    """``event`` as it goes over the wire."""
    line: dict[str, Any] = {"type": event.type, "version": __version__}
    data = msgspec.json.encode(event.data) if event.data else b""
    if data:
        line["data_length"] = len(data)
    if event.payload:
        line["payload_length"] = len(event.payload)
    return msgspec.json.encode(line) + b"\n" + data + (event.payload or b"")


def _check(name: str, length: int, most: int) -> None:
    if length > most:
        raise Malformed(f"{name}: {length} bytes, the limit is {most} (max_frame_bytes)")


def _decoded(decoder: msgspec.json.Decoder[T], text: bytes, what: str) -> T:
    try:
        return decoded(text, decoder)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"{what}: {error}") from None
