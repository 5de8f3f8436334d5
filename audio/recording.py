"""Recordings as a stream of 16-bit PCM, the way a client would put them on the wire.

A file is heard as linear16, whatever it holds: so a file and a live session of the same samples meet the same numbers
and give the same words. What a file is shows in its first bytes, and nothing else is tried: both libraries also read
dozens of formats that nobody sends but who looks for their faults. libsndfile reads WAV and Opus in Ogg; what it does
not know of them or would leave out, and all others, go through PyAV: libsndfile gives up at a hole in a FLAC, 241 bytes
of Vorbis make its decoder overrun the stack, and the tags of an MP3 keep it computing for hours. Blocking; for worker
threads.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from audio.container import CONTAINERS, MAGIC_BYTES, READERS, recognised
from audio.ffmpeg import (
    TOO_LARGE,
    TOO_SLOW,
    Patience,
    Patient,
    Shapes,
    Unfit,
    check_rate,
    decoded,
    id3_bytes,
    layout_of,
    opened,
    reason,
)
from audio.ogg import begins_with, chained
from audio.pcm import MAX_CHANNELS, MAX_RATE, MIN_RATE, PcmDecoder, Samples, Shape, bounded
from audio.wav_header import MAX_HEADER, NotRaw, WavHeader

BLOCK_SECONDS: Final = 1.0
_MOST_ID3: Final = 100
"""Of ID3 before the sound; joined files have two."""
_PAGE_BYTES: Final = 512
"""The first page of Opus in Ogg is smaller."""
_LENGTHLESS: Final = ("mp3", "aac")
"""What FFmpeg would guess the length of, from the bit rate of its beginning."""
_FILLED: Final = 2 * 1152
"""Samples of them that an encoder may have added, and a decoder leaves out."""
READ_SAMPLES: Final = 1 << 24
"""Most samples, all channels together, decoded at once: a tiny file can hold hours of silence at any rate."""
READ_SECONDS: Final = 60.0
"""Audio decoded at once. Most files then come in one piece, as other programs read them: libsndfile's last samples of a
damaged Opus stream depend on where the reads were cut."""

Source = Path | BinaryIO
"""A file by name, or opened and seekable."""


class RecordingError(ValueError):
    """A file cannot be heard; the message says why, without the file's name."""


@dataclass(frozen=True, slots=True)
class Recording:
    """An audio file.

    Attributes:
        sample_rate, channels: of ``blocks``; within what the wire takes.
        seconds: its length where the container tells, else 0.
        source_rate: of the file itself.
        by_av: PyAV reads it, else libsndfile.
    """

    source: Source
    sample_rate: int
    channels: int
    seconds: float
    source_rate: int
    by_av: bool

    @property
    def name(self) -> str:
        """The file's name without its folder, empty where it has none."""
        return self.source.name if isinstance(self.source, Path) else ""

    def blocks(self) -> Iterator[bytes]:
        """The samples: 16-bit little endian, channels interleaved, about a second a piece.

        Raises:
            RecordingError: the file is damaged.
        """
        if self.by_av:
            return _av_blocks(self.source, self.sample_rate, self.channels)
        blocks = _sound_blocks(self.source)
        return blocks if self.source_rate == self.sample_rate else _resampled(blocks, self)


def open_recording(source: Source) -> Recording:
    """Look at a file.

    Raises:
        RecordingError: it does not exist, or is no audio.
    """
    if isinstance(source, Path) and not source.is_file():
        kind = "it is no regular file" if source.exists() else "there is no such file"
        raise RecordingError("it is a directory" if source.is_dir() else kind)
    name, start = _recognised(source)
    if name == "Ogg":
        with _bytes_of(source) as file:
            file.seek(start)
            by_libsndfile = begins_with(b"OpusHead", file.read(_PAGE_BYTES)) and not chained(file, start)
    else:
        by_libsndfile = name == "WAV"
    if not by_libsndfile:
        return _open_av(source)
    try:
        with soundfile.SoundFile(_sound_source(source)) as info:
            rate, channels, frames = info.samplerate, info.channels, info.frames
    except (soundfile.LibsndfileError, RuntimeError, OSError):
        return _open_av(source)
    if frames == 0 and _cut_off(source):
        return _open_av(source)
    return _recording(source, rate, channels, frames, False)


def _recording(source: Source, rate: int, channels: int, frames: float, by_av: bool) -> Recording:
    try:
        check_rate(rate)
    except Unfit as error:
        raise RecordingError(str(error)) from None
    if not 0 < channels <= MAX_CHANNELS:
        raise RecordingError(f"it has {channels} channels, the limit is {MAX_CHANNELS}")
    near = min(max(rate, MIN_RATE), MAX_RATE)
    return Recording(source, near, channels, max(frames / rate, 0.0), near if by_av else rate, by_av)


def samples(
    source: Source, rate: int, most_seconds: float = float("inf"), channel: int | None = None
) -> Generator[Samples]:
    """The audio of a file, float32 mono [n] at ``rate``, about a second a piece. Closing it ends the reading.

    Args:
        channel: take this one alone; None: their mean.

    Raises:
        RecordingError: as ``open_recording``; the file is damaged; it is longer than ``most_seconds``.
    """
    recording = open_recording(source)
    if recording.seconds > most_seconds:  # said before hours of it were heard in vain
        told = f"the audio, {recording.seconds:.1f} s,"
        raise RecordingError(f"{told} is longer than {most_seconds:g} s (max_session_seconds)")
    yield from _heard(
        recording.blocks(), Shape("linear16", recording.sample_rate, recording.channels), rate, most_seconds, channel
    )


def raw_samples(
    source: BinaryIO, shape: Shape, rate: int, most_seconds: float, channel: int | None
) -> Generator[Samples]:
    """The same of a file of raw audio; an incomplete sample at its end is dropped.

    Raises:
        RecordingError: it is longer than ``most_seconds``.
        FormatError: ``shape`` lies outside its limits.
    """
    source.seek(0)
    size = PcmDecoder(*shape).frame_bytes * shape.sample_rate
    yield from _heard(iter(lambda: source.read(size), b""), shape, rate, most_seconds, channel)


def _heard(
    blocks: Iterator[bytes], shape: Shape, rate: int, most_seconds: float, channel: int | None
) -> Generator[Samples]:
    """``blocks`` hold whole frames, the last one perhaps not."""
    decoder = PcmDecoder(*shape, rate, channel)
    heard = 0
    for block in blocks:
        mono = decoder.decode(block)
        heard += mono.size
        if heard > most_seconds * rate:
            raise RecordingError(f"the audio is longer than {most_seconds:g} s (max_session_seconds)")
        yield mono
    yield decoder.flush()


def _recognised(source: Source) -> tuple[str, int]:
    """Which of ``CONTAINERS`` it is, and the bytes of the ID3 tags before it.

    Raises:
        RecordingError: none.
    """
    start, name = 0, None
    for _ in range(_MOST_ID3):
        first = _read(source, start, MAGIC_BYTES)
        name = recognised(b"RIFF" + first[4:] if first.startswith(b"RF64") else first) or name
        tag = id3_bytes(first)
        if not tag:
            break
        start += tag
    if name is None:
        raise RecordingError(f"it is no audio that is known here: {', '.join(CONTAINERS)}")
    return name, start


def _cut_off(source: Source) -> bool:
    """Whether a WAV's writer never came to tell how much it holds, and something stands there."""
    first = _read(source, 0, MAX_HEADER)
    try:
        header = WavHeader.read(first)
    except NotRaw:
        return False
    return header is not None and header.size is None and len(first) > header.start


def _bytes_of(source: Source) -> AbstractContextManager[BinaryIO]:
    return source.open("rb") if isinstance(source, Path) else nullcontext(source)


def _read(source: Source, start: int, size: int) -> bytes:
    with _bytes_of(source) as file:
        file.seek(start)
        return file.read(size)


def _rewound(source: Source) -> Any:
    """What the decoders open: a name, or the file from its beginning."""
    if isinstance(source, Path):
        return str(source)
    source.seek(0)
    return source


def _sound_source(source: Source) -> Any:
    """The same for soundfile, which encodes names strictly: not every name of a file is text."""
    named = _rewound(source)
    return os.fsencode(named) if isinstance(named, str) and os.name == "posix" else named


def _sound_blocks(source: Source) -> Iterator[bytes]:
    try:
        with soundfile.SoundFile(_sound_source(source)) as file:
            # libsndfile does not scale float files to integers: ±1 would become ±1 of 32768.
            is_float = file.subtype in ("FLOAT", "DOUBLE")
            size = max(1, round(file.samplerate * BLOCK_SECONDS))
            most = max(1, min(round(file.samplerate * READ_SECONDS), READ_SAMPLES // file.channels))
            while True:
                read: Any = file.read(most, dtype="float32" if is_float else "int16", always_2d=True)
                if not len(read):
                    return
                frames = _to_int16(read) if is_float else read.astype(np.dtype("<i2"), copy=False)
                for start in range(0, len(frames), size):
                    yield frames[start : start + size].tobytes()
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise RecordingError(f"it is damaged: {error}") from None


def _to_int16(block: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    return np.clip(np.rint(bounded(block) * 32768), -32768, 32767).astype(np.dtype("<i2"))


def _resampled(blocks: Iterator[bytes], recording: Recording) -> Iterator[bytes]:
    """Rates that the wire does not take (96 kHz masters, 6 kHz loops) are brought to the nearest one it does."""
    stream = soxr.ResampleStream(
        recording.source_rate, recording.sample_rate, recording.channels, dtype="int16", quality="HQ"
    )
    for block in blocks:
        frames = np.frombuffer(block, np.dtype("<i2")).reshape(-1, recording.channels)
        yield stream.resample_chunk(frames).tobytes()
    yield stream.resample_chunk(np.zeros((0, recording.channels), np.int16), last=True).tobytes()


def _open_av(source: Source) -> Recording:
    import av

    with _av(source, "it is no audio that libsndfile or FFmpeg knows") as (container, patience):
        stream = container.streams.audio[0]
        # FFmpeg guesses a stream from next to nothing; what it could not find out is None, 0 or not there.
        rate = int(getattr(stream, "sample_rate", 0) or 0)
        channels = int(getattr(stream, "channels", 0) or 0)
        if container.format.name in _LENGTHLESS:
            seconds = 0.0
            for packet in container.demux(stream):
                seconds += float((packet.duration or 0) * packet.time_base)
                patience.renew()
            seconds = max(seconds - _FILLED / rate, 0.0) if rate else 0.0
        elif stream.duration is not None and stream.time_base is not None:
            seconds = float(stream.duration * stream.time_base)
        else:
            seconds = (container.duration or 0) / av.time_base
    return _recording(source, rate, channels, seconds * rate, True)


def _av_blocks(source: Source, rate: int, channels: int) -> Iterator[bytes]:
    import av

    with _av(source, "it is damaged") as (container, patience):
        layout = layout_of(container.streams.audio[0], channels)
        shapes = Shapes()
        resampler: Any = None
        for frame in decoded(container, container.streams.audio[0], lambda: None):
            if shapes.changed(frame):
                if resampler is not None:
                    yield from (_bytes(out, channels) for out in resampler.resample(None))
                resampler = av.AudioResampler(format="s16", layout=layout, rate=rate)
            yield from (_bytes(out, channels) for out in resampler.resample(frame))
            patience.renew()
        patience.check()
        if resampler is None:
            raise RecordingError("no audio could be decoded")
        yield from (_bytes(out, channels) for out in resampler.resample(None))


@contextmanager
def _av(source: Source, wrong: str) -> Generator[tuple[Any, Patience]]:
    """FFmpeg's container of ``source``, which holds audio, and how long it may take to find some.

    Raises:
        RecordingError: it is none, for which ``wrong`` begins the reason; of FFmpeg's errors inside the block, too.
    """
    import av.error

    name, start = _recognised(source)
    with _bytes_of(source) as file:
        patient = Patient(file, READERS[name], start)
        patience = patient.patience
        try:
            with opened(patient, READERS[name], metadata_errors="ignore") as container:
                patience.check()
                if not container.streams.audio:
                    raise RecordingError("it holds no audio")
                yield container, patience
        except av.error.MemoryError:
            raise RecordingError(TOO_LARGE) from None
        except av.error.FFmpegError as fault:
            raise RecordingError(TOO_SLOW if patience.over else f"{wrong}: {reason(fault)}") from None
        except Unfit as fault:
            raise RecordingError(str(fault)) from None


def _bytes(frame: Any, channels: int) -> bytes:
    # The plane may be padded beyond the samples.
    return bytes(frame.planes[0])[: frame.samples * channels * 2]
