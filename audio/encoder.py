"""From samples to what goes over the wire: raw encodings and files, made while the samples come.

libsndfile encodes (it brings LAME, Opus and FLAC); FFmpeg AAC.
Blocking, for worker threads; not thread-safe.
"""

import contextlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soundfile

from audio.pcm import bounded

Floats = npt.NDArray[np.float32]

RAW: Final = {"linear16": "PCM_16", "float32": "FLOAT", "mulaw": "ULAW", "alaw": "ALAW"}
"""Raw encodings, little endian, and libsndfile's names for them."""

MEDIA_TYPES: Final = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg; codecs=opus",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
"""What files there are, and what HTTP calls them."""

_UNKNOWN: Final = 0xFFFFFFFF
"""The size in a WAV header whose end is not known yet: what readers of streams expect."""
_PAGE_MS: Final = 100.0
"""Audio of one Ogg page; libsndfile would gather a second before anything goes out."""
_SET_OGG_PAGE_LATENCY_MS: Final = 0x1302
_SPOOL_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 1 << 16
_AAC_BITS: Final = 64_000
_MPEG2: Final = (8_000, 160_000)
_OPUS: Final = (6_000, 256_000)
"""Bit rates between which libsndfile's levels of compression lie: mp3 below 32 kHz, opus."""
_WAV: Final = {"linear16": (1, 2), "float32": (3, 4), "alaw": (6, 1), "mulaw": (7, 1)}
"""Tag in a WAV header, and bytes of a sample."""


class Encoder(ABC):
    """Samples in, bytes out. :meth:`close` is a must."""

    @abstractmethod
    def feed(self, samples: Floats) -> bytes:
        """What ``samples`` (float32 mono; see :func:`audio.pcm.bounded`) make ready, perhaps nothing."""

    @abstractmethod
    def finish(self) -> Iterator[bytes]:
        """The rest; nothing may be fed after it."""

    def close(self) -> None:
        """Let everything go. Idempotent."""


def raw(encoding: str, rate: int) -> Encoder:
    """Samples without a header; ``encoding`` is one of ``RAW``. Nothing is held back."""
    return _Streamed(rate, "RAW", RAW[encoding])


def wav(encoding: str, rate: int) -> Encoder:
    """A WAV whose length is not known; ``encoding`` is one of ``RAW``."""
    return _Streamed(rate, "RAW", RAW[encoding], header=_wav_header(encoding, rate))


def file(name: str, rate: int, bit_rate: int | None = None) -> Encoder:
    """A file in the format ``name`` of ``MEDIA_TYPES``.

    Args:
        bit_rate: bits a second of mp3 (32 000 to 160 000, at 16 kHz and above), opus (6 000 to 256 000) and aac; the
            others have none.
    """
    match name:
        case "pcm":
            return raw("linear16", rate)
        case "wav":
            return wav("linear16", rate)
        case "mp3":
            # Constant rate: a variable one needs a table of contents at the beginning, known only at the end.
            level = 0.4 if bit_rate is None else _level(bit_rate, *((32_000, 320_000) if rate >= 32_000 else _MPEG2))
            return _Streamed(rate, "MP3", "MPEG_LAYER_III", bitrate_mode="CONSTANT", compression_level=level)
        case "opus":
            given: dict[str, Any] = {} if bit_rate is None else {"compression_level": _level(bit_rate, *_OPUS)}
            return _Streamed(rate, "OGG", "OPUS", **given)
        case "flac":
            return _Flac(rate)
        case _:
            return _Aac(rate, bit_rate or _AAC_BITS)


def _level(bit_rate: int, least: int, most: int) -> float:
    """libsndfile asks for a level of compression, from 0 for the highest bit rate to (just below) 1 for the lowest."""
    return min(max((most - bit_rate) / (most - least), 0.0), 0.999)


def _wav_header(encoding: str, rate: int) -> bytes:
    tag, size = _WAV[encoding]
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, tag, 1, rate, size * rate, size, 8 * size)
    return struct.pack("<4sI4s", b"RIFF", _UNKNOWN, b"WAVE") + form + struct.pack("<4sI", b"data", _UNKNOWN)


class _Drain:
    """A file that can only grow, drained as it does. What a writer goes back to correct has been sent already."""

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


class _Streamed(Encoder):
    """libsndfile, every byte as soon as it is written."""

    def __init__(self, rate: int, container: str, subtype: str, *, header: bytes = b"", **options: Any) -> None:
        self._drain, self._header = _Drain(), header
        self._file: Any = _opened(self._drain, rate, container, subtype, **options)

    def feed(self, samples: Floats) -> bytes:
        """See :class:`Encoder`."""
        self._file.write(bounded(samples))
        header, self._header = self._header, b""
        return header + self._drain.take()

    def finish(self) -> Iterator[bytes]:
        """See :class:`Encoder`."""
        self._file.close()
        yield self._drain.take()

    def close(self) -> None:
        """See :class:`Encoder`."""
        self._file.close()


class _Flac(Encoder):
    """libsndfile into a temporary file: for a header that tells the length, which many readers insist on."""

    def __init__(self, rate: int) -> None:
        self._spool = SpooledTemporaryFile(_SPOOL_BYTES)
        self._file: Any = _opened(self._spool, rate, "FLAC", "PCM_16")

    def feed(self, samples: Floats) -> bytes:
        """See :class:`Encoder`."""
        self._file.write(bounded(samples))
        return b""

    def finish(self) -> Iterator[bytes]:
        """See :class:`Encoder`."""
        self._file.close()
        self._spool.seek(0)
        while piece := self._spool.read(_PIECE_BYTES):
            yield piece

    def close(self) -> None:
        """See :class:`Encoder`."""
        self._file.close()
        self._spool.close()


class _Aac(Encoder):
    """FFmpeg's AAC in ADTS frames."""

    def __init__(self, rate: int, bit_rate: int) -> None:
        import av

        module: Any = av
        self._frame: Any = module.AudioFrame
        self._drain, self._rate, self._at = _Drain(), rate, 0
        self._container: Any = module.open(self._drain, "w", format="adts")
        self._stream: Any = self._container.add_stream("aac", rate=rate, layout="mono")
        self._stream.bit_rate = bit_rate

    def feed(self, samples: Floats) -> bytes:
        """See :class:`Encoder`."""
        frame = self._frame.from_ndarray(bounded(samples)[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = self._rate, self._at
        self._at += len(samples)
        self._container.mux(self._stream.encode(frame))
        return self._drain.take()

    def finish(self) -> Iterator[bytes]:
        """See :class:`Encoder`."""
        self._container.mux(self._stream.encode(None))
        self._container.close()
        yield self._drain.take()

    def close(self) -> None:
        """See :class:`Encoder`."""
        self._container.close()


def _opened(target: Any, rate: int, container: str, subtype: str, **options: Any) -> Any:
    sound: Any = soundfile
    opened = sound.SoundFile(target, "w", rate, 1, subtype, format=container, **options)
    if container == "OGG":
        # The binding has no method for it; without its internals pages are a second long.
        with contextlib.suppress(AttributeError):
            latency = sound._ffi.new("double *", _PAGE_MS)
            sound._snd.sf_command(opened._file, _SET_OGG_PAGE_LATENCY_MS, latency, sound._ffi.sizeof("double"))
    return opened
