"""Is it raw audio? The first bytes of a stream, where a file's header may hide.

A WAV header that agrees with the request is skipped, one that does not is an error naming both; other containers are an
error. Raw audio passes untouched; its first 12 bytes wait for each other, since they tell which of all that it is.
"""

import struct
from typing import Final, Protocol

_CONTAINERS: Final = {
    (0, b"OggS"): "Ogg", (0, b"fLaC"): "FLAC", (0, b"ID3\x03"): "MP3", (0, b"ID3\x04"): "MP3", (4, b"ftyp"): "MP4",
    (0, b"\x1aE\xdf\xa3"): "WebM or Matroska", (0, b"caff"): "CAF", (0, b"FORM"): "AIFF",
}  # fmt: skip
"""By magic bytes and where they stand."""
_MAGIC_BYTES: Final = 12
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
        self._begun = False
        self._left: int | None = None
        """Bytes left of a WAV's data chunk; what follows it is not audio."""
        self.beyond = 0
        """Bytes that followed it."""

    def strip(self, data: bytes) -> bytes:
        """The raw audio that ``data`` brings.

        Raises:
            NotRaw: see the module.
        """
        if not self._begun:
            data = self._held + data
            start = self._start(data)
            if start is None:
                self._held = data
                return b""
            self._begun, self._held = True, b""
            data = data[start:]
        if self._left is not None:
            self.beyond += max(0, len(data) - self._left)
            data = data[: self._left]
            self._left -= len(data)
        return data

    def rest(self) -> bytes:
        """At the end: bytes held back because they might have become a header."""
        held, self._held = self._held, b""
        return held

    def _start(self, data: bytes) -> int | None:
        """Where the audio begins in ``data``; None while too little of it is there to tell."""
        for (at, magic), name in _CONTAINERS.items():
            if data.startswith(magic, at):
                raise NotRaw(
                    f"this is {name}, not raw {self._wire.encoding}: files go to POST /v1/audio/transcriptions"
                )
        if len(data) < _MAGIC_BYTES:
            return None
        if not data.startswith(b"RIFF") or not data.startswith(b"WAVE", 8):
            return 0
        at, agrees = _MAGIC_BYTES, False
        while len(data) >= at + 8:
            name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
            at += 8
            if name == b"data":
                if not agrees:
                    raise NotRaw("a WAV header without a format chunk")
                self._left = None if size in _UNKNOWN_SIZES else size
                return at
            if at + size > _MAX_HEADER:
                raise NotRaw(f"a WAV header of more than {_MAX_HEADER} bytes")
            if name == b"fmt " and len(data) >= at + size:
                self._compare(data[at : at + size])
                agrees = True
            at += size + size % 2
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
