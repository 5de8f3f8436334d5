"""Where sound goes: the loudspeaker (:class:`Aloud`) or a file (:class:`File`), in one shape: 16-bit mono PCM in."""

import asyncio
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from commands.console import MISUSED, Failure

FORMATS = {
    ".wav": ("WAV", "PCM_16"), ".flac": ("FLAC", "PCM_16"), ".ogg": ("OGG", "VORBIS"), ".opus": ("OGG", "OPUS"),
    ".mp3": ("MP3", "MPEG_LAYER_III"),
}  # fmt: skip
"""What a file's suffix makes of it."""


class Sink(Protocol):
    """Where sound goes; an asynchronous context manager that stops at once where an error leaves it."""

    @property
    def name(self) -> str | None:
        """Of the file, if it is one."""
        ...

    @property
    def buffered(self) -> float:
        """Seconds that wait to be heard."""
        ...

    @property
    def under_runs(self) -> int:
        """How often a listener had to wait."""
        ...

    async def write(self, pcm: bytes) -> None:
        """Take 16-bit samples."""
        ...

    def pause(self) -> None:
        """What comes next may be late."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Aloud:
    """The loudspeaker, as a sink."""

    name: str | None = None

    def __init__(self, wished_rate: int, device: int | str | None) -> None:
        """
        Raises:
            Failure: no loudspeaker.
        """
        from clients.microphone import SoundError
        from clients.playback import Loudspeaker, playable_rate

        try:
            self.sample_rate = playable_rate(wished_rate, device)
            self._loudspeaker = Loudspeaker(self.sample_rate, device=device)
        except SoundError as error:
            raise Failure(f"{error} (-o FILE.wav writes a file instead)") from None

    @property
    def buffered(self) -> float:
        """Seconds that wait to be played."""
        return self._loudspeaker.buffered

    @property
    def under_runs(self) -> int:
        """How often a piece came too late."""
        return self._loudspeaker.clock.under_runs

    async def write(self, pcm: bytes) -> None:
        """Play it after what waits."""
        await self._loudspeaker.write(pcm)

    def pause(self) -> None:
        """What comes next may be late."""
        self._loudspeaker.pause()

    async def __aenter__(self) -> Self:
        await self._loudspeaker.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._loudspeaker.__aexit__(kind, error, trace)


class File:
    """A sound file, as a sink. Closed in every case, so that it is valid; without a sample there is no file."""

    buffered = 60.0
    """Nobody waits: larger groups of frames cost less."""
    under_runs = 0

    def __init__(self, path: Path, sample_rate: int) -> None:
        """The format follows from the suffix (:data:`FORMATS`)."""
        self.name: str | None = str(path)
        self._path, self._rate = path, sample_rate
        self._file: Any = None
        self._lock = threading.Lock()
        """A write that was given up may still run when the file is closed."""
        self._closed = False

    async def write(self, pcm: bytes) -> None:
        """Append it."""
        await asyncio.to_thread(self._write, pcm)

    def pause(self) -> None:
        """Nothing: a file does not wait."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()

    def _write(self, pcm: bytes) -> None:
        with self._lock:
            if not self._closed:
                self._append(pcm)

    def _append(self, pcm: bytes) -> None:
        import soundfile

        if self._file is None:
            kind, subtype = FORMATS[self._path.suffix.lower()]
            # soundfile encodes names strictly, and not every name of a file is text.
            name: Any = os.fsencode(self._path) if os.name == "posix" else str(self._path)
            try:
                self._file = soundfile.SoundFile(
                    name, "w", samplerate=self._rate, channels=1, format=kind, subtype=subtype
                )
            except (OSError, soundfile.LibsndfileError) as error:
                raise Failure(f"{self._path} cannot be written: {error}") from None
        try:
            self._file.buffer_write(pcm, dtype="int16")
        except soundfile.LibsndfileError as error:
            raise Failure(f"{self._path} cannot be written to its end (is the disk full?): {error}") from None


def check_output(path: Path) -> None:
    """
    Raises:
        Failure: no sound file can be written there; said before anything is loaded.
    """
    if path.suffix.lower() not in FORMATS:
        raise Failure(f"{path}: the suffix says the format: {', '.join(FORMATS)}", MISUSED)
    if not path.parent.is_dir():
        raise Failure(f"{path} cannot be written: there is no directory {path.parent}")
    if path.is_dir():
        raise Failure(f"{path} cannot be written: it is a directory")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Failure(f"{path} cannot be written: there is no right to")
