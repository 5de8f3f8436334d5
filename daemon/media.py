"""A file's audio as float32 mono at the model's rate, block by block. Blocking; for worker threads.

WAV, FLAC, Ogg (Vorbis, Opus) and MP3 are read by libsndfile, everything else by PyAV where the extra ``media`` is
installed. Whatever the file holds is heard as 16-bit samples through the decoder of live streams, so a file and a
linear16 stream of it meet the same numbers.
"""

from collections.abc import Generator, Iterator
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from streaming.pcm import MAX_CHANNELS, MAX_RATE, MIN_RATE, PcmDecoder, Samples

BLOCK_SECONDS: Final = 8.0

Frames = npt.NDArray[np.int16]
"""Samples [n, channels]."""


class MediaError(ValueError):
    """The file's audio cannot be read; the message says why."""


def samples(file: BinaryIO, rate: int, max_seconds: float) -> Generator[Samples]:
    """The audio of ``file``, float32 [n] at ``rate``, in blocks of some seconds. Closing it ends the reading.

    Raises:
        MediaError: no audio in it, or in no known format, or broken, or longer than ``max_seconds``.
    """
    heard = 0
    for block in _decoded(file, rate):
        heard += block.size
        if heard > max_seconds * rate:
            raise MediaError(f"the audio is longer than {max_seconds:g} s (max_session_seconds)")
        yield block


def _decoded(file: BinaryIO, rate: int) -> Iterator[Samples]:
    try:
        sound = soundfile.SoundFile(file)
    except soundfile.LibsndfileError:
        file.seek(0)
        yield from _with_av(file, rate)
        return
    with sound:
        mixer = _Mixer(sound.samplerate, sound.channels, rate)
        # libsndfile does not scale float files to integers: ±1 would become ±1 of 32768.
        is_float = sound.subtype in ("FLOAT", "DOUBLE")
        size = max(1, round(BLOCK_SECONDS * sound.samplerate))
        try:
            while True:
                block: Any = sound.read(size, dtype="float32" if is_float else "int16", always_2d=True)
                if not len(block):
                    break
                yield mixer.mix(_to_int16(block) if is_float else block)
        except soundfile.LibsndfileError as error:
            raise MediaError(f"the audio is broken: {error}") from None
    yield mixer.end()


def _with_av(file: BinaryIO, rate: int) -> Iterator[Samples]:
    try:
        import av
        import av.error
    except ModuleNotFoundError:
        hint = "other formats need the extra: pip install 'hearsay[media]'"
        raise MediaError(f"this is not WAV, FLAC, Ogg or MP3; {hint}") from None
    try:
        with av.open(file, mode="r", metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise MediaError("there is no audio in it")
            stream = container.streams.audio[0]
            source = min(max(stream.sample_rate, MIN_RATE), MAX_RATE)
            channels = stream.channels if stream.channels <= 2 else 1
            mixer = _Mixer(source, channels, rate)
            packed = av.AudioResampler(format="s16", layout="mono" if channels == 1 else "stereo", rate=source)
            for frame in container.decode(audio=0):
                for part in packed.resample(frame):
                    yield mixer.mix(_frames(part, channels))
            for part in packed.resample(None):
                yield mixer.mix(_frames(part, channels))
            yield mixer.end()
    except av.error.FFmpegError as error:
        raise MediaError(f"no known audio format, or broken: {error.strerror}") from None


class _Mixer:
    """Frames at the file's rate → float32 mono at the model's."""

    def __init__(self, file_rate: int, channels: int, rate: int) -> None:
        if channels > MAX_CHANNELS:
            raise MediaError(f"the file has {channels} channels, the limit is {MAX_CHANNELS}")
        near = min(max(file_rate, MIN_RATE), MAX_RATE)
        self._channels = channels
        self._decoder = PcmDecoder("linear16", near, channels, rate)
        # The wire's decoder stops at 48 kHz, studios do not.
        self._first = None if near == file_rate else soxr.ResampleStream(file_rate, near, channels, dtype="int16")

    def mix(self, frames: Frames) -> Samples:
        if self._first is not None:
            frames = self._first.resample_chunk(frames)
        return self._decoder.decode(np.ascontiguousarray(frames, dtype="<i2").tobytes())

    def end(self) -> Samples:
        rest = np.zeros(0, np.float32)
        if self._first is not None:
            last = self._first.resample_chunk(np.zeros((0, self._channels), np.int16), last=True)
            rest = self._decoder.decode(np.ascontiguousarray(last, dtype="<i2").tobytes())
        return np.concatenate((rest, self._decoder.flush()))


def _frames(part: Any, channels: int) -> Frames:
    frames: Frames = part.to_ndarray().reshape(-1, channels)
    return frames


def _to_int16(block: Any) -> Frames:
    finite = np.where(np.isfinite(block), block, np.float32(0))
    return np.clip(np.rint(finite * 32768), -32768, 32767).astype(np.int16)
