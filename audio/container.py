"""Containers and compressed audio as they arrive, to samples, by FFmpeg (PyAV).

Contract: what a stream is shows in its first bytes (:func:`recognised`), and no other reader of FFmpeg is tried. The
samples that come out, taken together, depend on the bytes alone, never on where they were cut: FFmpeg is given them in
blocks of ``BLOCK_BYTES``. What a piece of bytes holds comes out in pieces of about ``PIECE_SECONDS``, each made when it
is asked for: a day of silence in a small file is never in memory at once.

FFmpeg pulls and audio is pushed, so a stream has a thread of its own for FFmpeg, which runs only while
:meth:`ContainerDecoder.pieces` waits for it.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from audio.ffmpeg import ELSEWHERE, TOO_LARGE, TOO_SLOW, Patience, Unfit, id3_bytes, reason
from audio.pcm import DecodeError, Samples
from audio.sound import Notes, Wanted, samples_of

BLOCK_BYTES: Final = 256
"""FFmpeg reads so many bytes of a stream at once: few, so that samples come out soon (at 24 kbit/s a block is 85
ms)."""
PIECE_SECONDS: Final = 0.25
"""Seconds of sound in a piece: short enough that nobody waits for it, long enough that passing it on costs nothing."""
MAGIC_BYTES: Final = 12
"""A stream's kind is told by so many of its first bytes: the longest mark, RIFF and WAVE, is that long."""
INDEX_BYTES: Final = 1 << 16
"""The index of an MP4 stream must lie within so many bytes of its beginning, because FFmpeg reads so much of it at
once."""

READERS: Final = {
    "WebM": "matroska", "Ogg": "ogg", "MP3": "mp3", "FLAC": "flac", "WAV": "wav", "MP4": "mov", "AAC": "aac",
    "CAF": "caf", "AIFF": "aiff", "AU": "au", "AMR": "amr", "MPEG-TS": "mpegts", "AVI": "avi", "WMA": "asf",
    "W64": "w64",
}  # fmt: skip
"""The kinds of streams that are taken, each with the name of FFmpeg's reader for it."""
CONTAINERS: Final = tuple(READERS)
_MAGIC: Final = (
    (0, b"\x1aE\xdf\xa3", "WebM"), (0, b"OggS", "Ogg"), (0, b"fLaC", "FLAC"),
    (0, b"ID3\x02", "MP3"), (0, b"ID3\x03", "MP3"), (0, b"ID3\x04", "MP3"),
    (4, b"ftyp", "MP4"), (4, b"styp", "MP4"), (4, b"moof", "MP4"), (4, b"moov", "MP4"), (4, b"mdat", "MP4"),
    (4, b"wide", "MP4"), (0, b"caff", "CAF"), (8, b"AIFF", "AIFF"), (8, b"AIFC", "AIFF"), (0, b".snd", "AU"),
    (0, b"#!AMR", "AMR"), (8, b"AVI ", "AVI"), (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "WMA"),
    (0, b"riff\x2e\x91\xcf\x11", "W64"), (8, b"WAVE", "WAV"), (0, b"\x47\x40\x00\x10", "MPEG-TS"),
    (0, b"\x47\x40\x11\x10", "MPEG-TS"), (4, b"\x47\x40\x00\x10", "MPEG-TS"), (4, b"\x47\x40\x11\x10", "MPEG-TS"),
)  # fmt: skip
"""Marks by which a kind is told: the place of the bytes, the bytes, the kind. A transport stream begins with one of its
tables; a camera puts four bytes before each packet."""
_OUTER: Final = {
    "WAV": (b"RIFF", b"RF64", b"BW64"), "AVI": (b"RIFF",), "AIFF": (b"FORM",),
}  # fmt: skip
"""The same of kinds whose own mark comes later: what else may stand at their beginning."""


def reading(name: str) -> dict[str, Any]:
    """The options with which ``audio.ffmpeg.open_container`` reads one of ``CONTAINERS``: as few bytes as can be, and
    forwards."""
    probe, buffer = 32, BLOCK_BYTES
    # The tables of a transport stream come first, and FFmpeg goes back to the beginning after them.
    if name == "MPEG-TS":
        probe, buffer = 1 << 14, 1 << 17
    elif name == "MP4":
        buffer = INDEX_BYTES
    return {
        "buffer_size": buffer,
        "options": {"probesize": str(probe), "analyzeduration": "0", "max_probe_packets": "1"},
    }


def index_end(read: Callable[[int], bytes]) -> int:
    """The number of bytes of an MP4 up to the end of its index; 0 where its sound stands first, or its index is far
    from the beginning.

    Args:
        read: at least the eight bytes at a place.
    """
    at = 0
    while at < INDEX_BYTES:
        head = read(at)
        size, kind = int.from_bytes(head[:4]), head[4:8]
        if kind == b"moov":
            return at + size
        if size < 8 or kind in (b"mdat", b"moof"):
            break
        at += size
    return 0


class ContainerError(DecodeError):
    """The bytes cannot be decoded; the message says why."""


def recognised(first: bytes, *, sure: bool = False) -> str | None:
    """The one of ``CONTAINERS`` that begins with these bytes, of which there must be ``MAGIC_BYTES``; None where none
    does.

    Args:
        sure: count only what raw audio hardly ever begins with; frames of MPEG audio have no other mark than 11 bits.
    """
    for at, magic, name in _MAGIC:
        if first.startswith(magic, at) and first.startswith(_OUTER.get(name, b"")):
            return name
    if sure or len(first) < 4 or first[0] != 0xFF:
        return None
    if first[1] & 0xF6 == 0xF0:
        return "AAC"
    version, layer, bit_rate, rate = first[1] & 0x18, first[1] & 0x06, first[2] & 0xF0, first[2] & 0x0C
    sound = first[1] & 0xE0 == 0xE0 and version != 0x08 and layer != 0
    return "MP3" if sound and bit_rate not in (0x00, 0xF0) and rate != 0x0C else None


class ContainerDecoder:
    """A decoder of one stream: it takes bytes and gives float32 mono samples. :meth:`close` must be called.

    Args:
        name: of ``CONTAINERS``.
        wanted: what is to be heard of it.
    """

    def __init__(self, name: str, wanted: Wanted) -> None:
        self._name, self._wanted = name, wanted
        self.notes: Final = Notes()
        self._turn = threading.Condition()
        self._running = False
        """Whether the thread runs now. While it does, the caller waits, and the other way round."""
        self._thread: threading.Thread | None = None
        self._bytes = bytearray()
        """Bytes that FFmpeg has not read yet."""
        self._last = False
        self._left = False
        self._made: list[Samples] = []
        self._made_size = 0
        self._done = False
        self._fault: ContainerError | None = None
        self._patience = Patience(READERS[name])
        """How long FFmpeg's thread may compute; the thread renews it."""
        self._index = 0
        """How many bytes of an MP4, up to the end of its index, FFmpeg has not read yet."""

    def pieces(self, data: bytes, *, last: bool = False) -> Iterator[Samples]:
        """The samples that ``data`` brings, float32 [n] a piece, each made when it is asked for.

        Args:
            last: no more follows.

        Raises:
            ContainerError: the bytes cannot be decoded. What was decoded before has come out.
        """
        self._bytes += data
        self._last = last
        while not self._done:
            self._run()
            if not self._made:
                break
            yield self._taken()
        if self._made:
            yield self._taken()
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def warnings(self) -> list[str]:
        """What was not as it should be, a sentence each; complete after the end."""
        return self.notes.warnings()

    def close(self) -> None:
        """Release the thread and FFmpeg. May be called again."""
        self._left = True
        if self._thread is not None and not self._done:
            self._run()
        if self._thread is not None:
            self._thread.join()

    def _taken(self) -> Samples:
        made, self._made, self._made_size = self._made, [], 0
        return np.concatenate(made)

    # ------------------------------------------------------------------------------------------ the caller's side

    def _run(self) -> None:
        """Let FFmpeg go on until a piece is made, bytes are wanted, or it is done."""
        with self._turn:
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="hearsay-container", daemon=True)
                self._thread.start()
            self._running = True
            self._turn.notify_all()
            while self._running:
                self._turn.wait()

    # ---------------------------------------------------------------------------------------- FFmpeg's side

    def _pause(self) -> None:
        """Let the caller go on until it wants more."""
        with self._turn:
            self._running = False
            self._turn.notify_all()
            while not self._running:
                self._turn.wait()

    def read(self, size: int) -> bytes:
        """Called by FFmpeg: the next block, the rest of the last one, or nothing at the end. Waits for bytes."""
        # FFmpeg may step back within what it read last, and no further: so the index is given in one piece.
        size = min(size, self._index or BLOCK_BYTES)
        ahead = self._patience.ahead
        self._wait(size + ahead)
        block = self._patience.shown(bytes(self._bytes[:size]), bytes(self._bytes[size : size + ahead]))
        # Returning nothing ends the reading; an exception would make some of FFmpeg's readers try again.
        if self._left or self._patience.over:
            return b""
        del self._bytes[:size]
        self._index = max(self._index - size, 0)
        return block

    def _wait(self, size: int) -> None:
        """Wait until so many bytes have come, or no more will."""
        while len(self._bytes) < size and not self._last and not self._left:
            self._pause()

    def _behind_tags(self) -> str:
        """Pass over the ID3 tags at the beginning, and tell which of ``CONTAINERS`` stands behind them."""
        self._wait(MAGIC_BYTES)
        while tag := id3_bytes(bytes(self._bytes[:MAGIC_BYTES])):
            while tag and (passed := min(tag, len(self._bytes))):
                del self._bytes[:passed]
                tag -= passed
                self._wait(min(tag, BLOCK_BYTES))
            self._wait(MAGIC_BYTES)
        return recognised(bytes(self._bytes[:MAGIC_BYTES])) or self._name

    def _index_bytes(self) -> int:
        """The number of bytes of an MP4 up to the end of its index; 0 where its sound stands first."""

        def read(at: int) -> bytes:
            self._wait(at + 8)
            return bytes(self._bytes[at : at + 8])

        return index_end(read)

    def _main(self) -> None:
        with self._turn:
            while not self._running:
                self._turn.wait()
        indexed = False
        try:
            self._name = self._behind_tags()
            self._patience = Patience(READERS[self._name])
            if self._name == "MP4":
                self._index = self._index_bytes()
                indexed = self._index > 0
            if not self._left:
                self._decode()
        except Unfit as error:
            self._fault = ContainerError(str(error))
        except ContainerError as error:
            self._fault = error
        except EOFError:
            self._fault = ContainerError("it ends before any audio")
        except MemoryError:
            self._fault = ContainerError(TOO_LARGE)
        except Exception as error:  # An error of PyAV or FFmpeg.
            hint = f"; {self._name} is heard as it comes only if its index stands first, or in fragments"
            late = (self._name == "MP4" and not indexed) or self._name == "CAF"
            self._fault = ContainerError(f"it is damaged: {reason(error)}" + hint * late)
        finally:
            if self._patience.over:
                self._fault = ContainerError(TOO_SLOW)
            elif self._fault is not None and self._patience.elsewhere:
                self._fault = ContainerError(ELSEWHERE)
            with self._turn:
                self._done, self._running = True, False
                self._turn.notify_all()

    def _decode(self) -> None:
        options = reading(self._name)
        for piece in samples_of(self, READERS[self._name], self._wanted, self.notes, live=True, **options):
            if self._left:
                return
            self._put(piece)

    def _put(self, samples: Samples) -> None:
        self._patience.renew()
        if samples.size:
            self._made.append(samples)
            self._made_size += samples.size
            if self._made_size >= PIECE_SECONDS * self._wanted.rate and not self._left:
                self._pause()
