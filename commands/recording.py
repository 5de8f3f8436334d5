"""Recordings as a stream of 16-bit PCM, the way a client would put them on the wire.

A file is heard as linear16, whatever it holds: so a file and a live session of the same samples meet the same numbers
and give the same words. libsndfile reads WAV, FLAC, Ogg (Vorbis, Opus), MP3 and their like; other containers go through
PyAV (the extra ``media``).
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaming.pcm import MAX_CHANNELS, MAX_RATE, MIN_RATE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BLOCK_SECONDS = 1.0


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

    path: Path
    sample_rate: int
    channels: int
    seconds: float
    source_rate: int
    by_av: bool

    def blocks(self) -> Iterator[bytes]:
        """The samples: 16-bit little endian, channels interleaved, about a second a piece.

        Raises:
            RecordingError: the file is damaged.
        """
        if self.by_av:
            return _av_blocks(self.path, self.sample_rate, self.channels)
        blocks = _sound_blocks(self.path)
        return blocks if self.source_rate == self.sample_rate else _resampled(blocks, self)


def open_recording(path: Path) -> Recording:
    """Look at a file.

    Raises:
        RecordingError: it does not exist, is no audio, or needs the extra ``media``.
    """
    if not path.is_file():
        raise RecordingError("it is a directory" if path.is_dir() else "there is no such file")
    import soundfile

    try:
        info: Any = soundfile.info(str(path))
    except (soundfile.LibsndfileError, RuntimeError, OSError) as error:
        return _open_av(path, error)
    rate = int(info.samplerate)
    if info.channels > MAX_CHANNELS:
        raise RecordingError(f"it has {info.channels} channels, the limit is {MAX_CHANNELS}")
    return Recording(
        path, min(max(rate, MIN_RATE), MAX_RATE), int(info.channels), float(info.frames) / rate, rate, False
    )


def _sound_blocks(path: Path) -> Iterator[bytes]:
    import numpy as np
    import soundfile

    try:
        with soundfile.SoundFile(str(path)) as file:
            # libsndfile does not scale float files to integers: ±1 would become ±1 of 32768.
            is_float = file.subtype in ("FLOAT", "DOUBLE")
            frames = max(1, round(file.samplerate * BLOCK_SECONDS))
            while True:
                block: Any = file.read(frames, dtype="float32" if is_float else "int16", always_2d=True)
                if not len(block):
                    return
                yield (_to_int16(block) if is_float else block.astype(np.dtype("<i2"), copy=False)).tobytes()
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise RecordingError(f"it is damaged: {error}") from None


def _to_int16(block: "npt.NDArray[np.float32]") -> "npt.NDArray[np.int16]":
    import numpy as np

    finite = np.where(np.isfinite(block), block, np.float32(0))
    return np.clip(np.rint(finite * 32768), -32768, 32767).astype(np.dtype("<i2"))


def _resampled(blocks: Iterator[bytes], recording: Recording) -> Iterator[bytes]:
    """Rates that the wire does not take (96 kHz masters, 6 kHz loops) are brought to the nearest one it does."""
    import numpy as np
    import soxr

    stream = soxr.ResampleStream(
        recording.source_rate, recording.sample_rate, recording.channels, dtype="int16", quality="HQ"
    )
    for block in blocks:
        samples = np.frombuffer(block, np.dtype("<i2")).reshape(-1, recording.channels)
        yield stream.resample_chunk(samples).tobytes()
    yield stream.resample_chunk(np.zeros((0, recording.channels), np.int16), last=True).tobytes()


def _open_av(path: Path, error: Exception) -> Recording:
    if importlib.util.find_spec("av") is None:
        raise RecordingError(
            "libsndfile does not know it as audio; containers beyond WAV, FLAC, Ogg and MP3 need the extra media: "
            "pip install 'hearsay[media]'"
        ) from error
    import av
    import av.error

    try:
        with av.open(str(path), metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise RecordingError("it holds no audio")
            stream = container.streams.audio[0]
            rate = min(max(int(stream.sample_rate), MIN_RATE), MAX_RATE)
            channels = stream.channels if stream.channels <= 2 else 1
            if stream.duration is not None and stream.time_base is not None:
                seconds = float(stream.duration * stream.time_base)
            else:
                seconds = (container.duration or 0) / av.time_base
            return Recording(path, rate, channels, max(seconds, 0.0), rate, True)
    except av.error.FFmpegError as fault:
        raise RecordingError(f"it is no audio that libsndfile or FFmpeg knows: {fault.strerror}") from None


def _av_blocks(path: Path, rate: int, channels: int) -> Iterator[bytes]:
    import av
    import av.error

    resampler = av.AudioResampler(format="s16", layout="mono" if channels == 1 else "stereo", rate=rate)
    try:
        with av.open(str(path), metadata_errors="ignore") as container:
            for frame in container.decode(audio=0):
                yield from (_bytes(out, channels) for out in resampler.resample(frame))
            yield from (_bytes(out, channels) for out in resampler.resample(None))
    except av.error.FFmpegError as error:
        raise RecordingError(f"it is damaged: {error.strerror}") from None


def _bytes(frame: Any, channels: int) -> bytes:
    # The plane may be padded beyond the samples.
    return bytes(frame.planes[0])[: frame.samples * channels * 2]
