"""Encoding samples for the wire while they come: as raw audio, or as files by FFmpeg (PyAV).

Blocking, for worker threads; not thread-safe.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from fractions import Fraction
from tempfile import SpooledTemporaryFile
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audio.pcm import bounded, linear16

Floats = npt.NDArray[np.float32]

RAW: Final = ("linear16", "float32", "mulaw", "alaw")
"""The encodings of raw audio that can be asked for, all little endian."""

MEDIA_TYPES: Final = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg; codecs=opus",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
"""The kinds of files that can be made, each with its media type in HTTP."""

_UNKNOWN: Final = 0xFFFFFFFF
"""The size in a WAV header whose file's length is not known yet; readers of streams expect this number."""
_SPOOL_BYTES: Final = 1 << 20
"""How many bytes of a FLAC file are kept in memory; a larger one is written to the temporary directory."""
_PIECE_BYTES: Final = 1 << 16
"""Bytes of a finished FLAC file that are read at once."""
_BIT_RATES: Final = {"mp3": 96_000, "opus": 64_000, "aac": 64_000}
"""Bits a second where none are asked for: one channel of speech sounds no better with more."""
_MUXERS: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    # MP3 has a constant rate and no table of contents, because such a table is known only at the end.
    "mp3": ("mp3", "libmp3lame", {"write_xing": "0", "id3v2_version": "0"}),
    # A page of Ogg holds 100 ms (the option is in microseconds): by itself FFmpeg gathers a second before anything goes
    # out.
    "opus": ("ogg", "libopus", {"page_duration": "100000"}),
    "aac": ("adts", "aac", {}),
    "flac": ("flac", "flac", {}),
}
"""How FFmpeg makes each file: its name of the format, of the codec, and options."""
_WAV: Final = {"linear16": (1, 2), "float32": (3, 4), "alaw": (6, 1), "mulaw": (7, 1)}
"""The tag of each encoding in a WAV header (RFC 2361), and the bytes of a sample."""


class Encoder(ABC):
    """An encoder: it takes samples and gives bytes. :meth:`close` must be called."""

    @abstractmethod
    def feed(self, samples: Floats) -> bytes:
        """Take ``samples`` (float32 mono; see :func:`audio.pcm.bounded`) and return the bytes that are ready, perhaps
        none.

        Raises:
            OSError: the temporary directory takes no more of the file.
        """

    @abstractmethod
    def finish(self) -> Iterator[bytes]:
        """The rest of the bytes. Nothing may be fed after it. Raises as :meth:`feed`."""

    def close(self) -> None:
        """Release what the encoder holds. May be called again."""


def raw(encoding: str, rate: int) -> Encoder:
    """An encoder of samples without a header; ``encoding`` is one of ``RAW``. It holds nothing back."""
    return _Raw(encoding, rate)


def wav(encoding: str, rate: int) -> Encoder:
    """An encoder of a WAV file whose length is not known; ``encoding`` is one of ``RAW``."""
    return _Raw(encoding, rate, header=wav_header(encoding, rate))


def file(name: str, rate: int, bit_rate: int | None = None) -> Encoder:
    """An encoder of a file of the kind ``name``, one of ``MEDIA_TYPES``.

    Args:
        bit_rate: bits a second of mp3 (32 000 to 160 000, at 16 kHz and above), opus (6 000 to 256 000) and aac; the
            others have none.
    """
    match name:
        case "pcm":
            return raw("linear16", rate)
        case "wav":
            return wav("linear16", rate)
        case "flac":
            return _Flac(rate)
        case _:
            return _Muxed(_Drain(), name, rate, bit_rate or _BIT_RATES[name])


def _companded(codec: str, rate: int) -> Callable[[Floats], bytes]:
    """A function that makes G.711 of samples, one byte each."""
    import av

    context: Any = av.CodecContext.create(codec, "w")
    context.sample_rate, context.layout, context.format = rate, "mono", "s16"

    def encode(samples: Floats) -> bytes:
        frame: Any = av.AudioFrame.from_ndarray(np.frombuffer(linear16(samples), "<i2")[None], "s16", "mono")
        frame.sample_rate = rate
        return b"".join(bytes(packet) for packet in context.encode(frame))

    return encode


def wav_header(encoding: str, rate: int, length: int | None = None) -> bytes:
    """The header that stands before ``length`` bytes of raw audio in one channel; None where the length is not
    known."""
    tag, size = _WAV[encoding]
    whole = _UNKNOWN if length is None else length
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, tag, 1, rate, size * rate, size, 8 * size)
    data = struct.pack("<4sI", b"data", whole)
    rest = _UNKNOWN if length is None else 4 + len(form) + len(data) + length
    return struct.pack("<4sI4s", b"RIFF", rest, b"WAVE") + form + data


class _Drain:
    """A file that can only grow, from which bytes are taken as they are written. A writer that goes back to correct a
    place writes in vain: those bytes have been sent."""

    def __init__(self) -> None:
        self._at = self._end = 0
        self._ready = bytearray()

    def write(self, data: bytes) -> int:
        if self._at == self._end:
            self._ready += data
        self._at += len(data)
        self._end = max(self._end, self._at)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._end)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        del size
        return b""

    def take(self) -> bytes:
        data = bytes(self._ready)
        self._ready.clear()
        return data


class _Raw(Encoder):
    """Raw audio, perhaps behind a header. Every byte is given as soon as its sample is there."""

    def __init__(self, encoding: str, rate: int, *, header: bytes = b"") -> None:
        self._header = header
        match encoding:
            case "linear16":
                self._encode = linear16
            case "float32":
                self._encode = _float32
            case _:
                self._encode = _companded(f"pcm_{encoding}", rate)

    def feed(self, samples: Floats) -> bytes:
        """See :class:`Encoder`."""
        header, self._header = self._header, b""
        return header + (self._encode(samples) if samples.size else b"")

    def finish(self) -> Iterator[bytes]:
        """See :class:`Encoder`."""
        yield from ()


class _Muxed(Encoder):
    """A file made by one of FFmpeg's codecs. Every byte is given as soon as FFmpeg writes it to ``target``."""

    def __init__(self, target: Any, name: str, rate: int, bit_rate: int | None = None) -> None:
        import av

        container, codec, options = _MUXERS[name]
        module: Any = av
        self._frame: Any = module.AudioFrame
        self._target, self._rate, self._at = target, rate, 0
        self._container: Any = module.open(target, "w", format=container, options=options)
        # Without this option libopus takes twice the bits that were asked for where the sound is noise.
        bounds = {"vbr": "constrained"} if codec == "libopus" else {}
        self._stream: Any = self._container.add_stream(codec, rate=rate, options=bounds, layout="mono")
        if bit_rate is not None:
            self._stream.bit_rate = bit_rate

    def feed(self, samples: Floats) -> bytes:
        """See :class:`Encoder`."""
        frame = self._frame.from_ndarray(bounded(samples)[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = self._rate, self._at, Fraction(1, self._rate)
        self._at += len(samples)
        self._container.mux(self._stream.encode(frame))
        return self._target.take() if isinstance(self._target, _Drain) else b""

    def finish(self) -> Iterator[bytes]:
        """See :class:`Encoder`."""
        self._container.mux(self._stream.encode(None))
        self._container.close()
        if isinstance(self._target, _Drain):
            yield self._target.take()

    def close(self) -> None:
        """See :class:`Encoder`."""
        self._container.close()


class _Flac(Encoder):
    """A FLAC file. It is made on disk first, because many readers insist on a header that tells the length."""

    def __init__(self, rate: int) -> None:
        self._spool = SpooledTemporaryFile(_SPOOL_BYTES)
        self._muxed = _Muxed(self._spool, "flac", rate)

    def feed(self, samples: Floats) -> bytes:
        """See :class:`Encoder`."""
        return self._muxed.feed(samples)

    def finish(self) -> Iterator[bytes]:
        """See :class:`Encoder`."""
        yield from self._muxed.finish()
        self._spool.seek(0)
        while piece := self._spool.read(_PIECE_BYTES):
            yield piece

    def close(self) -> None:
        """See :class:`Encoder`."""
        self._muxed.close()
        self._spool.close()


def _float32(samples: Floats) -> bytes:
    return bounded(samples).astype("<f4").tobytes()
