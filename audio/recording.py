"""Recordings: files of any kind that ``audio.container`` knows, to the samples that a live stream of their bytes gives.

What a file is shows in its first bytes, and nothing else is tried: FFmpeg also reads dozens of formats that nobody
sends but who looks for their faults. A file is read forwards, as a stream is; only where that gives no sound, because
an index stands at its end, it is read with steps back. Blocking; for worker threads.
"""

import os
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np

from audio.container import BLOCK_BYTES, CONTAINERS, INDEX_BYTES, MAGIC_BYTES, READERS, index_end, reading, recognised
from audio.ffmpeg import ELSEWHERE, TOO_LARGE, TOO_SLOW, Patient, Unfit, check_rate, id3_bytes, open_container, reason
from audio.pcm import MAX_CHANNELS, PcmDecoder, Samples, Shape
from audio.sound import MOST_DATA_BYTES, Notes, Wanted, samples_of
from audio.wav_header import begins_chunk

BLOCK_SECONDS: Final = 1.0
"""Seconds of audio in one piece."""
_MOST_ID3: Final = 100
"""ID3 tags that may stand before the sound. Joined files have two; each costs a read."""
_LENGTHLESS: Final = ("mp3", "aac")
"""Kinds of files that do not tell their length. FFmpeg would guess it from the bit rate at their beginning."""
_FILLED: Final = 2 * 1152
"""Samples of MP3 and AAC that an encoder may have added, and that a decoder leaves out: two frames."""
_PARSED: Final = frozenset({"mp3", "aac", "flac"})
"""Kinds whose reader gives out whatever it has read. Such a file is read in the blocks of a stream, so that the samples
are the same."""
_FILE_BYTES: Final = 1 << 15
"""Bytes that FFmpeg reads at once of files of the other kinds."""

_CHUNKS: Final[dict[str, tuple[int, int, int, Literal["little", "big"], int]]] = {
    "WAV": (12, 4, 4, "little", 2), "W64": (40, 16, 8, "little", 8), "CAF": (8, 4, 8, "big", 1),
}  # fmt: skip
"""Of kinds of chunks: the place of the first, the bytes of a chunk's name and of its length, the order of those, and
what chunks are aligned to."""
_MOST_CHUNKS: Final = 100
"""Chunks that are passed over before the audio or behind it; each costs a read."""
_TAGS: Final = (b"ID3", b"id3 ", b"TAG", b"LIST")
"""What also stands behind the audio of a WAV, and is often cut off or no proper chunk."""

Source = Path | BinaryIO
"""A file: its path, or an open file that can seek."""


class RecordingError(ValueError):
    """A file cannot be heard; the message says why, without the file's name. ``field``: what of a request it is about,
    ``file`` or ``track``."""

    def __init__(self, why: str, field: str = "file") -> None:
        super().__init__(why)
        self.field: Final = field


@dataclass(frozen=True, slots=True)
class Recording:
    """What a file says of itself.

    Attributes:
        sample_rate, channels: of its first track of sound; 1…``MAX_CHANNELS`` channels.
        seconds: its length where the container tells, else 0.
    """

    source: Source
    sample_rate: int
    channels: int
    seconds: float

    @property
    def name(self) -> str:
        """The file's name without its folder, empty where it has none."""
        return self.source.name if isinstance(self.source, Path) else ""


def open_recording(source: Source, most_seconds: float = float("inf")) -> Recording:
    """Look at a file.

    Raises:
        RecordingError: it does not exist, is no audio, or is longer than ``most_seconds``.
    """
    import av

    with _file(source) as (file, name, start):
        patient = Patient(file, READERS[name], start)
        with (
            _told("it is no audio that FFmpeg knows", patient),
            open_container(patient, READERS[name]) as container,
        ):
            patient.patience.check()
            if not container.streams.audio:
                raise Unfit("it holds no audio")
            stream: Any = container.streams.audio[0]
            # FFmpeg guesses a stream from next to nothing; what it could not find out is None, 0 or not there.
            rate = int(getattr(stream, "sample_rate", 0) or 0)
            channels = int(getattr(stream, "channels", 0) or 0)
            check_rate(rate)
            if not 0 < channels <= MAX_CHANNELS:
                raise Unfit(f"it has {channels} channels, the limit is {MAX_CHANNELS}")
            more = ""
            if container.format.name in _LENGTHLESS:
                seconds = 0.0
                for packet in container.demux(stream):
                    seconds += float((packet.duration or 0) * packet.time_base)
                    patient.patience.renew()
                    if seconds - _FILLED / rate > most_seconds:  # Of days of audio no more is counted.
                        more = " or more"
                        break
                seconds -= _FILLED / rate
            else:
                seconds = (container.duration or 0) / av.time_base
                if stream.duration is not None and stream.time_base is not None:
                    seconds = float(stream.duration * stream.time_base)
    if seconds > most_seconds:
        raise RecordingError(
            f"the audio, {seconds:.1f} s{more}, is longer than {most_seconds:g} s (max_session_seconds)"
        )
    return Recording(source, rate, channels, max(seconds, 0.0))


def samples(
    source: Source, wanted: Wanted | int, most_seconds: float = float("inf"), notes: Notes | None = None
) -> Generator[Samples]:
    """The audio of a file, float32 mono [n], about a second a piece. Closing it ends the reading.

    Args:
        wanted: the sample rate, or that with further wishes.
        most_seconds: how long the audio may be.
        notes: collects what is wrong with the file without making it unusable.

    Raises:
        RecordingError: as ``open_recording``; the file is damaged; it is longer than ``most_seconds``.
    """
    wanted = Wanted(wanted) if isinstance(wanted, int) else wanted
    notes = Notes() if notes is None else notes
    open_recording(source, most_seconds)  # The length is checked before hours of audio are heard in vain.
    yield from _bounded(_decoded(source, wanted, notes), wanted.rate, most_seconds)


def beginning(source: Source, rate: int, seconds: float) -> Samples:
    """The first ``seconds`` of a file, and at most one more, float32 mono at ``rate``.

    Raises:
        RecordingError: it is no audio, or damaged.
    """
    parts, taken = [np.zeros(0, np.float32)], 0
    with closing(samples(source, rate)) as blocks:
        for block in blocks:
            parts.append(block)
            taken += len(block)
            if taken > seconds * rate:
                break
    return np.concatenate(parts)


def raw_samples(
    source: BinaryIO, shape: Shape, rate: int, most_seconds: float, channel: int | None
) -> Generator[Samples]:
    """The audio of a file of raw samples, as :func:`read_recording` gives it; an incomplete sample at the end is
    dropped.

    Raises:
        RecordingError: it is longer than ``most_seconds``.
        FormatError: ``shape`` lies outside its limits.
    """
    source.seek(0)
    decoder = PcmDecoder(*shape, rate, channel)
    size = decoder.frame_bytes * shape.sample_rate

    def pieces() -> Generator[Samples]:
        while data := source.read(size):
            yield decoder.decode(data)
        yield decoder.flush()

    yield from _bounded(pieces(), rate, most_seconds)


def _bounded(pieces: Generator[Samples], rate: int, most_seconds: float) -> Generator[Samples]:
    """``pieces`` joined to larger ones, of which there are at most ``most_seconds``."""
    held, size, whole = list[Samples](), 0, 0
    for piece in pieces:
        held.append(piece)
        size, whole = size + piece.size, whole + piece.size
        if whole > most_seconds * rate:
            raise RecordingError(f"the audio is longer than {most_seconds:g} s (max_session_seconds)")
        if size >= BLOCK_SECONDS * rate:
            yield np.concatenate(held)
            held, size = [], 0
    if held:
        yield np.concatenate(held)


def _decoded(source: Source, wanted: Wanted, notes: Notes) -> Generator[Samples]:
    """The sound as a stream of these bytes gives it; where that gives nothing, the file is read with steps back."""
    with _file(source) as (file, name, start):
        reader, heard = READERS[name], 0

        def read(at: int) -> bytes:
            file.seek(start + at)
            return file.read(24)

        if reader != "mov" or index_end(read):
            patient, begun = Patient(file, reader, start, BLOCK_BYTES if reader in _PARSED else _FILE_BYTES), False
            try:
                with _told("it is damaged", patient):
                    for piece in samples_of(_Forwards(patient), reader, wanted, notes, **reading(name)):
                        begun = True
                        heard += piece.size
                        yield piece
                        patient.patience.renew()
                    patient.patience.check()
                _check_end(read, name, file.seek(0, os.SEEK_END) - start, heard / wanted.rate, notes)
                return
            except RecordingError:
                if begun or patient.patience.over:
                    raise
        patient = Patient(file, reader, start)
        with _told("it is damaged", patient):
            for piece in samples_of(patient, reader, wanted, notes, buffer_size=INDEX_BYTES):
                yield piece
                patient.patience.renew()
            patient.patience.check()


def _check_end(read: Callable[[int], bytes], name: str, size: int, seconds: float, notes: Notes) -> None:
    """Note where a file of ``size`` bytes, of which ``seconds`` were heard, ends before or behind the place that its
    header tells. FFmpeg does not tell that of files that are read forwards."""
    if name == "MP3":
        notes.ends(_mp3_seconds(read) - seconds)
    data = _data(read, name)
    if data is None:
        return
    begin, end = data
    if size <= begin:
        notes.broken = True
    elif size < end:
        notes.ends(seconds * (end - size) / (size - begin))
    elif name == "WAV":
        notes.beyond = _no_chunks(read, end + end % 2, size)


def _data(read: Callable[[int], bytes], name: str) -> tuple[int, int] | None:
    """The places at which the audio begins and, as the header tells, ends; None where it does not tell."""
    if name == "AU":
        head = read(0)
        begin, size = int.from_bytes(head[4:8], "big"), int.from_bytes(head[8:12], "big")
        return (begin, begin + size) if 0 < size < MOST_DATA_BYTES else None
    if name not in _CHUNKS:
        return None
    at, named, counted, order, aligned = _CHUNKS[name]
    for _ in range(_MOST_CHUNKS):
        head, begin = read(at), at + named + counted
        size = int.from_bytes(head[named : named + counted], order) - (named + counted) * (name == "W64")
        if head.startswith(b"data"):
            return (begin, begin + size) if 0 < size < MOST_DATA_BYTES else None
        at = begin + size + -size % aligned
        if len(head) < named + counted or not 0 <= size < MOST_DATA_BYTES:
            break
    return None


def _mp3_seconds(read: Callable[[int], bytes]) -> float:
    """The length that an MP3 tells in its first frame, as Xing's and LAME's encoders write it; 0 where it does not."""
    head = (read(0) + read(24) + read(48)).ljust(72, b"\0")
    version, mono, rate = head[1] >> 3 & 3, head[3] >> 6 == 3, head[2] >> 2 & 3
    at = (21 if mono else 36) if version == 3 else (13 if mono else 21)
    if head[at : at + 4] not in (b"Xing", b"Info") or not head[at + 7] & 1 or rate == 3:
        return 0.0
    frames = int.from_bytes(head[at + 8 : at + 12], "big")
    size, halved = (1152, 0) if version == 3 else (576, 1 if version == 2 else 2)
    return frames * size / ((44_100, 48_000, 32_000)[rate] >> halved)


def _no_chunks(read: Callable[[int], bytes], at: int, size: int) -> int:
    """The number of bytes from ``at`` to the end of a WAV that are no chunks. A few are padding."""
    for _ in range(_MOST_CHUNKS):
        head = read(at)
        if size - at < 8 or head.startswith(_TAGS):
            return 0
        following = at + 8 + int.from_bytes(head[4:8], "little")
        if not begins_chunk(head) or following > size:
            return size - at
        at = following + following % 2
    return 0


class _Forwards:
    """A file that FFmpeg can only read forwards."""

    def __init__(self, file: Patient) -> None:
        self.read = file.read


@contextmanager
def _file(source: Source) -> Generator[tuple[BinaryIO, str, int]]:
    """The open file, the one of ``CONTAINERS`` that it is, and the bytes of the ID3 tags before it.

    Raises:
        RecordingError: it does not exist, or is none of them.
    """
    if isinstance(source, Path) and not source.is_file():
        kind = "it is no regular file" if source.exists() else "there is no such file"
        raise RecordingError("it is a directory" if source.is_dir() else kind)
    opening: AbstractContextManager[BinaryIO] = source.open("rb") if isinstance(source, Path) else nullcontext(source)
    with opening as file:
        start, name = 0, None
        for _ in range(_MOST_ID3):
            file.seek(start)
            first = file.read(MAGIC_BYTES)
            name = recognised(first) or name
            tag = id3_bytes(first)
            if not tag:
                break
            start += tag
        if name is None:
            raise RecordingError(f"it is no audio that is known here: {', '.join(CONTAINERS)}")
        yield file, name, start


@contextmanager
def _told(wrong: str, patient: Patient) -> Generator[None]:
    """Raise FFmpeg's errors as ``RecordingError``; ``wrong`` begins the sentence."""
    import av.error

    try:
        yield
    except Unfit as fault:
        why = ELSEWHERE if patient.patience.elsewhere else str(fault)
        raise RecordingError(why, "track" if fault.track else "file") from None
    except (av.error.MemoryError, MemoryError):
        raise RecordingError(TOO_LARGE) from None
    except (av.error.FFmpegError, EOFError) as fault:
        raise RecordingError(TOO_SLOW if patient.patience.over else f"{wrong}: {reason(fault)}") from None
