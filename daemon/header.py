"""Is it raw audio? The first bytes of a stream, where a file's header may hide.

A WAV header that agrees with the request is skipped, one that does not is an error naming both; other containers are an
error. Raw audio passes untouched, without delay: bytes are held back only while they look like a container's beginning.
"""

import struct
from typing import Final, Protocol

_CONTAINERS: Final = {
    b"OggS": "Ogg", b"fLaC": "FLAC", b"ID3\x03": "MP3", b"ID3\x04": "MP3", b"\x1aE\xdf\xa3": "WebM or Matroska",
    b"caff": "CAF", b"FORM": "AIFF",
}  # fmt: skip
_RIFF: Final = b"RIFF"
_MAX_HEADER: Final = 1 << 16
_ENCODINGS: Final = {(1, 16): "linear16", (3, 32): "float32", (6, 8): "alaw", (7, 8): "mulaw"}
_EXTENSIBLE: Final = 0xFFFE
_UNKNOWN_SIZES: Final = frozenset({0, 0xFFFFFFFF, 0x7FFFFFFF})
"""What writers that cannot seek put into the size of the data chunk."""


class NotRaw(ValueError):
    """The bytes are a container's, or of another format than the request says."""


class Wire(Protocol):
    """What the request says about the audio."""

    @property
    def encoding(self) -> str: ...
    @property
    def sample_rate(self) -> int: ...
    @property
    def channels(self) -> int: ...


class RawAudio:
    """The raw audio of one stream. ``strip`` every message, then take ``rest`` at the end."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._held = b""
        self._decided = False
        self._left: int | None = None
        """Bytes left of a WAV's data chunk; what follows it is not audio."""
        self.beyond = 0
        """Bytes that followed it."""

    def strip(self, data: bytes) -> bytes:
        """The raw audio that ``data`` brings.

        Raises:
            NotRaw: see the module.
        """
        if not self._decided:
            data, self._held = self._held + data, b""
            if _may_be_container(data):
                found = self._after_header(data)
                if found is None:
                    self._held = data
                    return b""
                data = found
            self._decided = True
        if self._left is not None:
            self.beyond += max(0, len(data) - self._left)
            data = data[: self._left]
            self._left -= len(data)
        return data

    def rest(self) -> bytes:
        """At the end: bytes held back because they might have become a header."""
        held, self._held = self._held, b""
        return b"" if self._left is not None else held

    def _after_header(self, data: bytes) -> bytes | None:
        """What follows the WAV header in ``data``; None while the header, or the decision, is incomplete."""
        for magic, name in _CONTAINERS.items():
            if data.startswith(magic):
                raise NotRaw(
                    f"this is {name}, not raw {self._wire.encoding}: files go to POST /v1/audio/transcriptions"
                )
        if len(data) < 12:
            return None
        if data[8:12] != b"WAVE":
            return data
        at, agrees = 12, False
        while len(data) >= at + 8:
            name, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
            if name == b"data":
                if not agrees:
                    raise NotRaw("a WAV header without a format chunk")
                self._left = None if size in _UNKNOWN_SIZES else size
                return data[at + 8 :]
            if at + 8 + size > _MAX_HEADER:
                raise NotRaw(f"a WAV header of more than {_MAX_HEADER} bytes")
            if len(data) < at + 8 + size:
                return None
            if name == b"fmt ":
                self._compare(data[at + 8 : at + 8 + size])
                agrees = True
            at += 8 + size + size % 2
        return None

    def _compare(self, chunk: bytes) -> None:
        if len(chunk) < 16:
            raise NotRaw("a WAV header with a broken format chunk")
        tag, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
        if tag == _EXTENSIBLE and len(chunk) >= 26:
            tag = struct.unpack_from("<H", chunk, 24)[0]
        encoding = _ENCODINGS.get((tag, bits), f"format {tag} of {bits} bit")
        says = (encoding, rate, channels)
        asked = (self._wire.encoding, self._wire.sample_rate, self._wire.channels)
        if says != asked:
            raise NotRaw(f"the WAV header says {_shown(says)}, the request {_shown(asked)}")


def _shown(shape: tuple[str, int, int]) -> str:
    return f"encoding={shape[0]} sample_rate={shape[1]} channels={shape[2]}"


def _may_be_container(data: bytes) -> bool:
    return any(data[: len(magic)] == magic[: len(data)] for magic in (*_CONTAINERS, _RIFF))
