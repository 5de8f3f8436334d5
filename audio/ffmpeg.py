"""FFmpeg, by PyAV, with bounds on what a small file makes it allocate and compute.

A table of an MP4 can tell of a hundred million samples in a kilobyte, and FFmpeg makes an entry of 24 bytes for each.
FFmpeg's own bound on one allocation, 2 GiB, is therefore lowered once for the process, and files of many tracks, each
of which has tables of its own, are refused. Pictures are not decoded: a black one of a few kilobytes takes 70 MiB.
FFmpeg compares each tag of a file to all before it: it is shown none where that can be, few elsewhere.
"""

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

MOST_MIB: Final = 32
"""Of one allocation. The table of nine hours of AAC is as large."""
_MOST_TRACKS: Final = 12
"""A telephone's film has up to ten."""
TOO_LARGE: Final = f"its tables or its packets take more than {MOST_MIB} MiB, or it has more than {_MOST_TRACKS} tracks"
MOST_SECONDS: Final = 5.0
"""Of one thread's computing, from one piece of audio to the next."""
TOO_SLOW: Final = (
    f"it has too many tags, too large pictures, or finding audio in it takes more than {MOST_SECONDS:g} s of computing"
)
MIN_SOURCE_RATE: Final = 4_000
"""Hz. Below there is no speech, and a small file becomes hours of audio."""
MAX_SOURCE_RATE: Final = 768_000
"""Hz. Beyond what any recorder writes stand broken headers, and resamplers that take minutes to design."""
_MOST_TAGS: Final = 20_000
"""Each is compared to all before it, in one go. Pictures have as many of the bytes that are counted in 5 MB."""
_MOST_BYTES: Final = 1 << 17
"""Of AAC, without audio: tags may stand in its middle."""
_ID3_BYTES: Final = 10
"""That tell how long the tag is."""
_UNUSED: Final = re.compile(rb"\x12(?=\x54\xC3\x67)|\x10(?=\x43\xA7\x70)|\x1C(?=\x53\xBB\x6B)|\x19(?=\x41\xA4\x69)")
"""Where tags, chapters, cues and attachments of a Matroska file begin. FFmpeg sorts what is in them one by one, in one
go, and nobody needs it; with another first byte it passes over them."""
DAMAGED_PACKETS: Final = 100
"""So many packets in a row that cannot be decoded end a stream."""
_MOST_SHAPES: Final = 100
"""Of one file: a frame of twelve bytes can have another rate than the last, and a resampler takes a millisecond."""


class Unfit(ValueError):
    """Audio that is not heard, though FFmpeg could go on; the message says why."""


def opened(source: Any, reader: str, **arguments: Any) -> Any:
    """PyAV's container of ``source``, to be read by this reader of FFmpeg's.

    Args:
        arguments: of ``av.open``; the options ``max_streams`` and ``codec_whitelist`` stay as they are here.

    Raises:
        av.error.FFmpegError: it is none; as ``av.error.MemoryError`` it is ``TOO_LARGE``.
    """
    import av

    _bound()
    options = {**arguments.pop("options", {}), "max_streams": str(_MOST_TRACKS), "codec_whitelist": _audio_decoders()}
    opener: Any = av.open
    return opener(source, "r", format=reader, options=options, **arguments)


def decoded(container: Any, stream: Any, left_out: Callable[[], None]) -> Iterator[Any]:
    """The frames of a container's stream.

    Args:
        left_out: called for each packet that cannot be decoded.

    Raises:
        av.error.FFmpegError: it is damaged. Unfit: too many packets in a row are.
    """
    import av.error

    bad = 0
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except av.error.InvalidDataError:
            left_out()
            bad += 1
            if bad >= DAMAGED_PACKETS:
                raise Unfit(f"it is damaged: {bad} packets in a row cannot be decoded") from None
            continue
        for frame in frames:
            bad = 0
            yield frame


def reason(error: Exception) -> str:
    """What FFmpeg says of it, for people."""
    import av.error

    if isinstance(error, av.error.PatchWelcomeError):
        return "it goes on in another format than it began with"
    return getattr(error, "strerror", None) or str(error)


def layout_of(sound: Any, channels: int) -> Any:
    """What a resampler is to make of a stream or frame of so many channels: no less. FFmpeg would mix them by rules of
    its own, which differ from those of files that libsndfile reads."""
    return {1: "mono", 2: "stereo"}.get(channels, sound.layout)


def check_rate(rate: int) -> None:
    """
    Raises:
        Unfit: no recording has this rate (Hz).
    """
    if not MIN_SOURCE_RATE <= rate <= MAX_SOURCE_RATE:
        raise Unfit(f"its sample rate of {rate} Hz lies outside {MIN_SOURCE_RATE}…{MAX_SOURCE_RATE} Hz")


class Shapes:
    """The format, channels and rate of a stream's frames, which chained streams may change."""

    def __init__(self) -> None:
        self._last: tuple[str, str, int] | None = None
        self._count = 0

    def changed(self, frame: Any) -> bool:
        """Whether ``frame`` has others than the one before it, or is the first.

        Raises:
            Unfit: its rate is none, or they change too often.
        """
        shape = (frame.format.name, frame.layout.name, frame.sample_rate)
        if shape == self._last:
            return False
        check_rate(frame.sample_rate)
        self._last, self._count = shape, self._count + 1
        if self._count > _MOST_SHAPES:
            raise Unfit(f"its sample rate or its channels change more than {_MOST_SHAPES} times")
        return True


class Patience:
    """What one thread has read and computed for ``reader`` of FFmpeg's since there was audio."""

    def __init__(self, reader: str) -> None:
        self._reader = reader
        self.ahead = 3 if reader == "matroska" else 0
        """Bytes after those that FFmpeg is given, which are to be known."""
        self.over = False
        """It was too much: nothing more is to be read."""
        self.renew()

    def renew(self) -> None:
        """There is audio, or another thread goes on from here."""
        self._since = time.thread_time()
        self._bytes = self._tags = 0

    def shown(self, data: bytes, following: bytes) -> bytes:
        """What FFmpeg is given in place of ``data``, which the ``ahead`` bytes of ``following`` come after."""
        self._bytes += len(data)
        self._tags += data.count(b"=") if self._reader in ("ogg", "flac") else 0
        late = time.thread_time() - self._since > MOST_SECONDS
        if late or self._tags > _MOST_TAGS or (self._reader == "aac" and self._bytes > _MOST_BYTES):
            self.over = True
        if self._reader == "matroska":
            return _UNUSED.sub(_renamed, data + following)[: len(data)]
        return data

    def check(self) -> None:
        """
        Raises:
            Unfit: it was too much.
        """
        if self.over:
            raise Unfit(TOO_SLOW)


class Patient:
    """A file as FFmpeg is to see it: from ``start`` on, and as long as :attr:`patience` lasts."""

    def __init__(self, file: Any, reader: str, start: int) -> None:
        self.patience = Patience(reader)
        self._file, self._start = file, start
        file.seek(start)

    def read(self, size: int) -> bytes:
        """For FFmpeg; an exception would make some of its readers try again."""
        data: bytes = self._file.read(size)
        following: bytes = self._file.read(self.patience.ahead)
        self._file.seek(-len(following), os.SEEK_CUR)
        data = self.patience.shown(data, following)
        return b"" if self.patience.over else data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As a file's."""
        return self._file.seek(offset + (self._start if whence == os.SEEK_SET else 0), whence) - self._start

    def tell(self) -> int:
        """As a file's."""
        return self._file.tell() - self._start


def id3_bytes(head: bytes) -> int:
    """The length of the ID3 tag that begins with ``head``, of a tag's header or more; 0: none does."""
    if len(head) < _ID3_BYTES or not head.startswith(b"ID3"):
        return 0
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 0x7F
    return _ID3_BYTES + size + (_ID3_BYTES if head[5] & 0x10 else 0)


def _renamed(first: "re.Match[bytes]") -> bytes:
    return bytes([first[0][0] ^ 1])


@cache
def _bound() -> None:
    """Set the bound on allocations. FFmpeg's library is found through PyAV's or, on Windows, by its name beside it; a
    build of PyAV that hides it stays without."""
    import av.error

    module = Path(str(av.error.__file__))
    for library in (module, *(module.parent.parent / "av.libs").glob("avutil-*.dll")):
        limit: Any = getattr(ctypes.CDLL(str(library)), "av_max_alloc", None)
        if limit is not None:
            limit.argtypes, limit.restype = [ctypes.c_size_t], None
            limit(MOST_MIB << 20)
            return


@cache
def _audio_decoders() -> str:
    """FFmpeg's names of them, as its options take a list."""
    import av

    names: list[str] = []
    for name in sorted(av.codecs_available):
        try:
            if av.Codec(name, "r").type == "audio":
                names.append(name)
        except ValueError:  # only an encoder
            pass
    return ",".join(names)
