"""FFmpeg, by PyAV, with bounds on what a small file makes it allocate and compute.

A table of an MP4 can tell of a hundred million samples in a kilobyte, and FFmpeg makes an entry of 24 bytes for each.
FFmpeg's own bound on one allocation, 2 GiB, is therefore lowered once for the process, and files of many tracks, each
of which has tables of its own, are refused. Pictures are not decoded: a black one of a few kilobytes takes 70 MiB.
FFmpeg compares each tag of a file to all before it: it is shown none where that can be, few elsewhere.
"""

import ctypes
import logging
import os
import re
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

log: Final = logging.getLogger("hearsay.ffmpeg")

MOST_MIB: Final = 32
"""Mebibytes that one allocation may take, as the table of nine hours of AAC does."""
MOST_TRACKS: Final = 12
"""Tracks that a file may have: the films of telephones have up to ten."""
TOO_LARGE: Final = f"its tables or its packets take more than {MOST_MIB} MiB, or it has more than {MOST_TRACKS} tracks"
MOST_SECONDS: Final = 5.0
"""Seconds that one thread may compute between one piece of audio and the next: a real file needs milliseconds, also on
a slow machine."""
TOO_SLOW: Final = (
    f"it has too many tags, too large pictures, or finding audio in it takes more than {MOST_SECONDS:g} s of computing"
)
MIN_SOURCE_RATE: Final = 4_000
"""Hertz. Below this rate there is no speech, and a small file becomes hours of audio."""
MAX_SOURCE_RATE: Final = 768_000
"""Hertz. No recorder writes a higher rate; headers that say so are broken, and a resampler for them takes minutes to
design."""
_MOST_TAGS: Final = 20_000
"""Tags that a file may have, counted by the byte that begins one. FFmpeg compares each to all before it without a
pause. Pictures of 5 MB hold as many of these bytes by chance."""
_MOST_BYTES: Final = 1 << 17
"""Bytes of AAC without any audio that are read: tags may stand in the middle of it."""
_ID3_BYTES: Final = 10
"""The length of the header of an ID3 tag, which tells how long the tag is (ID3v2.4, 3.1)."""
_UNUSED: Final = re.compile(rb"\x12(?=\x54\xC3\x67)|\x10(?=\x43\xA7\x70)|\x1C(?=\x53\xBB\x6B)|\x19(?=\x41\xA4\x69)")
"""The beginnings of the tags, chapters, cues and attachments of a Matroska file. FFmpeg sorts what is in them one by
one without a pause, and nobody needs it; where the first byte is another one, FFmpeg passes over them."""
_ELSEWHERE: Final = re.compile(rb"dref\0{7}[\x01-\x0F].{4}(?:url |urn |alis|rsrc)\0{4}", re.DOTALL)
"""The place in an MP4's index that names the file in which a track's sound lies. A 1 at the end of the match would mean
this file."""
ELSEWHERE: Final = "its sound lies in another file, which is not opened"
DAMAGED_PACKETS: Final = 100
"""A stream that begins with so many packets that cannot be decoded (2 s of AAC) ends: it is noise, not damage."""
_MOST_SHAPES: Final = 100
"""How often the format may change within a file. A frame of twelve bytes can change it, and each new resampler takes a
millisecond."""


class Unfit(ValueError):
    """The audio cannot be heard, though FFmpeg could go on; the message says why. ``track``: because a track was asked
    for that it does not have."""

    def __init__(self, why: str, *, track: bool = False) -> None:
        super().__init__(why)
        self.track: Final = track


def open_container(source: Any, reader: str, **arguments: Any) -> Any:
    """PyAV's container of ``source``, read by FFmpeg's reader of the name ``reader``.

    Args:
        arguments: of ``av.open``; the options ``max_streams`` and ``codec_whitelist`` stay as they are here.

    Raises:
        av.error.FFmpegError: it is none; as ``av.error.MemoryError`` it is ``TOO_LARGE``.
    """
    import av

    bounded_allocations()
    if int(av.__version__.partition(".")[0]) < 19:
        # Titles in another encoding than UTF-8 are an error there by default, and later versions do not know the word.
        arguments["metadata_errors"] = "ignore"
    options = {**arguments.pop("options", {}), "max_streams": str(MOST_TRACKS), "codec_whitelist": _audio_decoders()}
    opener: Any = av.open
    return opener(source, "r", format=reader, options=options, **arguments)


def reason(error: Exception) -> str:
    """FFmpeg's reason for an error, in words for people."""
    import av.error

    if isinstance(error, av.error.PatchWelcomeError):
        return "it goes on in another format than it began with"
    return getattr(error, "strerror", None) or str(error)


def check_rate(rate: int) -> None:
    """
    Raises:
        Unfit: no recording has this rate (Hz).
    """
    if not MIN_SOURCE_RATE <= rate <= MAX_SOURCE_RATE:
        raise Unfit(f"its sample rate of {rate} Hz lies outside {MIN_SOURCE_RATE}…{MAX_SOURCE_RATE} Hz")


class Shapes:
    """The format, channels and rate of a stream's frames. They may change where recordings were joined."""

    def __init__(self) -> None:
        self._last: tuple[str, str, int] | None = None
        self._count = 0

    def changed(self, frame: Any) -> bool:
        """Whether ``frame`` has another format, number of channels or rate than the one before it, or is the first.

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
    """How much one thread has read and computed for ``reader`` of FFmpeg's since the last piece of audio."""

    def __init__(self, reader: str) -> None:
        self._reader = reader
        self.ahead = 3 if reader == "matroska" else 0
        """The number of bytes behind a block that must be known before the block is given to FFmpeg: a mark may begin
        in the block and end there."""
        self.over = False
        """Whether the bounds were passed: then nothing more is read."""
        self.elsewhere = False
        """Whether a track of an MP4 names another file."""
        self.renew()

    def renew(self) -> None:
        """Begin to count anew, since a piece of audio has come or another thread goes on reading."""
        self._since = time.thread_time()
        self._bytes = self._tags = 0

    def shown(self, data: bytes, following: bytes) -> bytes:
        """The bytes that FFmpeg is given in place of ``data``. ``following`` are the ``ahead`` bytes behind it."""
        self._bytes += len(data)
        self._tags += data.count(b"=") if self._reader in ("ogg", "flac") else 0
        late = time.thread_time() - self._since > MOST_SECONDS
        if late or self._tags > _MOST_TAGS or (self._reader == "aac" and self._bytes > _MOST_BYTES):
            self.over = True
        if self._reader == "mov" and _ELSEWHERE.search(data):
            self.elsewhere = True
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
    """A file as FFmpeg sees it: from ``start`` on, ``most`` bytes at a time, and only as long as :attr:`patience`
    lasts."""

    def __init__(self, file: Any, reader: str, start: int, most: int = 1 << 20) -> None:
        self.patience = Patience(reader)
        self._file, self._start, self._most = file, start, most
        file.seek(start)

    def read(self, size: int) -> bytes:
        """Called by FFmpeg. It returns nothing where patience is over; an exception would make some readers try
        again."""
        data: bytes = self._file.read(min(size, self._most))
        following: bytes = self._file.read(self.patience.ahead)
        self._file.seek(-len(following), os.SEEK_CUR)
        data = self.patience.shown(data, following)
        return b"" if self.patience.over else data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place, as in a file."""
        return self._file.seek(offset + (self._start if whence == os.SEEK_SET else 0), whence) - self._start

    def tell(self) -> int:
        """The place that is read next."""
        return self._file.tell() - self._start


CALLED_BACK: Final = frozenset(each.__code__ for each in (Patient.read, Patient.seek, Patient.tell))
"""The code that FFmpeg calls back. An exception that is no ``Exception``, as KeyboardInterrupt, is lost there."""


def id3_bytes(head: bytes) -> int:
    """The length of the ID3 tag whose header ``head`` begins with; 0 where there is none."""
    if len(head) < _ID3_BYTES or not head.startswith(b"ID3"):
        return 0
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 0x7F
    return _ID3_BYTES + size + (_ID3_BYTES if head[5] & 0x10 else 0)


def _renamed(first: "re.Match[bytes]") -> bytes:
    return bytes([first[0][0] ^ 1])


@cache
def bounded_allocations() -> bool:
    """Set FFmpeg's bound on one allocation; returns whether that was possible. Where it was not, the log says so once.

    FFmpeg's library is found through PyAV's or, on Windows, by its name beside it: PyAV has no function for it. A build
    of PyAV that hides it stays without, and a file's tables may then take 2 GiB.
    """
    import av.error

    module = Path(str(av.error.__file__))
    for library in (module, *(module.parent.parent / "av.libs").glob("avutil-*.dll")):
        limit: Any = getattr(ctypes.CDLL(str(library)), "av_max_alloc", None)
        if limit is not None:
            limit.argtypes, limit.restype = [ctypes.c_size_t], None
            limit(MOST_MIB << 20)
            return True
    log.warning(
        "this build of PyAV hides av_max_alloc: a small broken file may take 2 GiB of memory (docs/security.md)"
    )
    return False


@cache
def _audio_decoders() -> str:
    """The names of FFmpeg's audio decoders, as its options take a list."""
    import av

    names: list[str] = []
    for name in sorted(av.codecs_available):
        try:
            if av.Codec(name, "r").type == "audio":
                names.append(name)
        except ValueError:  # The codec has an encoder only.
            pass
    return ",".join(names)
