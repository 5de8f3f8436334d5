"""A multipart form, read while it comes: fields in memory, its one file in memory while small, on disk beyond.

Starlette's parser takes for a file only what has a ``filename=``. Some clients name a file by ``filename*=`` alone
(RFC 5987, which RFC 7578 forbids in forms, so that python-multipart passes it over), or not at all; here the kind of
content and the name of the field tell as well.
"""

import re
from collections.abc import AsyncIterable, Collection
from tempfile import SpooledTemporaryFile
from typing import Any, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.datastructures import FormData, UploadFile

MOST_FIELDS: Final = 100
"""Fields of a form: many more than any endpoint understands."""
MOST_FIELD_BYTES: Final = 1 << 18
"""Bytes of a field that is no file: room for the longest prompt that a model reads."""
MOST_URL_BYTES: Final = 4 << 20
"""Bytes of a field that holds a ``data:`` URL: room for 10 s of the largest usual sound. All fields together have no
more than ``MOST_FIELDS`` of ``MOST_FIELD_BYTES``."""
SPOOL_BYTES: Final = 1 << 20
"""Bytes. A larger file goes to the temporary directory: this is the size at which starlette does the same."""

_QUOTED: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_FILENAME: Final = re.compile(rb";\s*filename[\s*0-9]*=", re.IGNORECASE)
_FILE_TYPES: Final = (b"audio/", b"video/", b"application/octet-stream", b"application/ogg")


class BrokenForm(ValueError):
    """The bytes are no form, or hold more than is taken; the message says which."""


class _Part:
    """A field, while it comes."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.name = ""
        self.data = bytearray()
        self.file: UploadFile | None = None


class _Reader:
    """Puts together what the parser reports. ``files`` are the names of fields that hold a file in whatever way they
    come."""

    def __init__(self, files: Collection[str]) -> None:
        self._files = files
        self.found: list[tuple[str, str | UploadFile]] = []
        self.opened: list[UploadFile] = []
        self.waiting: list[tuple[UploadFile, bytes]] = []
        """Pieces of files, which are written outside the parser's calls: a disk may be slow."""
        self._part = _Part()
        self._name = self._value = b""
        self.whole = False
        self._size = 0
        """Bytes of all fields so far."""

    @property
    def callbacks(self) -> Any:
        """The functions that python-multipart calls."""
        return {
            "on_part_begin": self._begin,
            "on_part_data": self._take,
            "on_part_end": self._end,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_end,
            "on_end": self._over,
        }

    def _begin(self) -> None:
        self._part = _Part()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._part.headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _headers_end(self) -> None:
        part = self._part
        disposition = part.headers.get(b"content-disposition", b"")
        options = parse_options_header(disposition)[1]
        if b"name" not in options:
            raise BrokenForm("a part of it has no name")
        part.name = _decoded(options[b"name"])
        kind = part.headers.get(b"content-type", b"").strip().lower()
        named = _FILENAME.search(_QUOTED.sub(b'""', disposition)) is not None
        if named or kind.startswith(_FILE_TYPES) or part.name in self._files:
            if self.opened:
                told = f"it holds more than one file, the second as {part.name[:80]}"
                raise BrokenForm(f"{told}: all fields but the recording are text (with curl: -F 'NAME=<FILE', no @)")
            spool: Any = SpooledTemporaryFile(SPOOL_BYTES)
            part.file = UploadFile(spool, size=0)
            self.opened.append(part.file)
        elif len(self.found) >= MOST_FIELDS:
            raise BrokenForm(f"it has more than {MOST_FIELDS} fields")

    def _take(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        if part.file is not None:
            self.waiting.append((part.file, data[start:end]))
            return
        part.data += data[start:end]
        self._size += end - start
        most = MOST_URL_BYTES if part.data[:5].lower().startswith(b"data:") else MOST_FIELD_BYTES
        if len(part.data) > most:
            raise BrokenForm(f"{part.name[:80]}: longer than {most} bytes")
        if self._size > MOST_FIELDS * MOST_FIELD_BYTES:
            raise BrokenForm(f"its fields are longer than {MOST_FIELDS * MOST_FIELD_BYTES} bytes together")

    def _end(self) -> None:
        part = self._part
        self.found.append((part.name, _decoded(bytes(part.data)) if part.file is None else part.file))

    def _over(self) -> None:
        self.whole = True


async def read(content_type: str, chunks: AsyncIterable[bytes], files: Collection[str]) -> FormData:
    """Read a form. The caller closes it, which deletes its file.

    Args:
        content_type: of the request, with its boundary.
        chunks: the body.
        files: names of fields that hold a file, even where the client names none.

    Raises:
        BrokenForm: it is none, or holds too much.
        OSError: the file cannot be stored.
    """
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    if not boundary:
        raise BrokenForm("Content-Type names no boundary")
    reader = _Reader(files)
    try:
        parser = MultipartParser(boundary, reader.callbacks)
        async for chunk in chunks:
            parser.write(chunk)
            for file, data in reader.waiting:
                await file.write(data)
            reader.waiting.clear()
        parser.finalize()
        if not reader.whole:
            raise BrokenForm("it ends before its last boundary")
        for file in reader.opened:
            await file.seek(0)
    except BaseException as error:
        for file in reader.opened:
            await file.close()
        if isinstance(error, FormParserError):
            raise BrokenForm(str(error)) from None
        raise
    return FormData(reader.found)


def _decoded(data: bytes) -> str:
    """The text of a field: UTF-8, or Latin-1, which some clients send without saying so."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
