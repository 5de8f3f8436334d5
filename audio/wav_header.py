"""Is it raw audio? The first bytes of a stream, where a file's header may hide.

A WAV header that agrees with the request is skipped, one that does not is an error naming both; other containers are an
error. Raw audio passes untouched; its first 12 bytes wait for each other, since they tell which of all that it is.
"""

import struct
from typing import Final, NamedTuple

from audio.container import CONTAINERS, MAGIC_BYTES, recognised
from audio.pcm import DecodeError, Shape

_OTHERS: Final = {b"caff": "CAF", b"FORM": "AIFF"}
"""Containers that are told from raw audio only to be refused: they are not read from a stream."""
MAX_HEADER: Final = 1 << 16
"""Bytes. A longer header is refused, because the audio waits until all of it has come."""
_ENCODINGS: Final = {(1, 16): "linear16", (3, 32): "float32", (6, 8): "alaw", (7, 8): "mulaw"}
_EXTENSIBLE: Final = 0xFFFE
"""The tag of a format that a longer chunk describes (WAVE_FORMAT_EXTENSIBLE)."""
_UNKNOWN_SIZES: Final = frozenset({0, 0xFFFFFFFF, 0x7FFFFFFF})
"""The sizes that writers who cannot seek put into the data chunk's header."""


class NotRaw(DecodeError):
    """The bytes are a container's, or of another format than the request says."""


class WavHeader(NamedTuple):
    """What a WAV header says: where the audio begins, how many bytes it has (None where it does not tell), and its
    format. An ``encoding`` for which raw audio has no name is put into words."""

    start: int
    size: int | None
    encoding: str
    sample_rate: int
    channels: int

    @classmethod
    def read(cls, data: bytes) -> "WavHeader | None":
        """The header at the beginning of ``data``; None while not all of it is there.

        Raises:
            NotRaw: it is broken.
        """
        at, found = MAGIC_BYTES, None
        while len(data) >= at + 8:
            name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
            at += 8
            if name == b"data":
                if found is None:
                    raise NotRaw("a WAV header without a format chunk")
                return cls(at, None if size in _UNKNOWN_SIZES else size, *found)
            if at + size > MAX_HEADER:
                raise NotRaw(f"a WAV header of more than {MAX_HEADER} bytes")
            if name == b"fmt " and len(data) >= at + size:
                found = _format(data[at : at + size])
            at += size + size % 2
        return None


class RawAudio:
    """The raw audio of one stream, of the shape that the request says. Pass every message through ``strip``, then take
    ``rest`` at the end."""

    def __init__(self, asked: Shape) -> None:
        self._asked = asked
        self._held = b""
        self._begun = False
        self._left: int | None = None
        """Bytes that are left of a WAV's data chunk. What follows it is no audio."""
        self.beyond = 0
        """Bytes that came behind the data chunk."""
        self.after = b""
        """The first eight of those: a chunk's name and length, where editors put one there."""

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
            self.after += data[self._left :][: 8 - len(self.after)]
            data = data[: self._left]
            self._left -= len(data)
        return data

    def rest(self) -> bytes:
        """The bytes that were held back at the end, because they might have become a header.

        Raises:
            NotRaw: they are the beginning of one.
        """
        held, self._held = self._held, b""
        if recognised(held, sure=True) == "WAV":
            raise NotRaw("a WAV that ends within its header")
        return held

    def _start(self, data: bytes) -> int | None:
        """The place in ``data`` where the audio begins; None while too few bytes are there to tell."""
        name = _OTHERS.get(data[:4]) or recognised(data, sure=True)
        if name is not None and name != "WAV":
            without = " without encoding and sample_rate" if name in CONTAINERS else ""
            where = f"send it{without}" if without else "files go to POST /v1/listen"
            raise NotRaw(f"this is {name}, not raw {self._asked.encoding}: {where}")
        if len(data) < MAGIC_BYTES:
            return None
        if name is None:
            return 0
        header = WavHeader.read(data)
        if header is None:
            return None
        says = header[2:]
        if says != self._asked:
            raise NotRaw(f"the WAV header says {_shown(says)}, the request {_shown(self._asked)}")
        self._left = header.size
        return header.start


def begins_chunk(head: bytes) -> bool:
    """Whether what stands behind the audio of a WAV begins as a chunk or tag does. Another WAV is none."""
    name = head[:4]
    return name.isascii() and name.decode("ascii").isprintable() and name not in (b"RIFF", b"RF64", b"BW64")


def _format(chunk: bytes) -> tuple[str, int, int]:
    """The encoding, sample rate and number of channels in a format chunk."""
    if len(chunk) < 16:
        raise NotRaw("a WAV header with a broken format chunk")
    tag, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == _EXTENSIBLE and len(chunk) >= 26:
        tag = struct.unpack_from("<H", chunk, 24)[0]
    return _ENCODINGS.get((tag, bits), f"format {tag} of {bits} bit"), rate, channels


def _shown(shape: tuple[str, int, int]) -> str:
    return f"encoding={shape[0]} sample_rate={shape[1]} channels={shape[2]}"
