"""The places where sound goes: the loudspeaker (:class:`Aloud`) or a file (:class:`File`). Both take 16-bit mono
PCM."""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self

import numpy as np

from commands.console import MISUSED, Failure

if TYPE_CHECKING:
    from audio.encoder import Encoder

FORMATS = {".wav": "wav", ".flac": "flac", ".ogg": "opus", ".opus": "opus", ".mp3": "mp3"}
"""The suffixes of files, each with the name that ``audio.encoder`` has for such a file."""


class Sink(Protocol):
    """A place where sound goes. It is an asynchronous context manager, which stops at once where an error leaves it."""

    @property
    def name(self) -> str | None:
        """The name of the file, if it is one."""
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
        """Say that what comes next may be late."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Aloud:
    """The loudspeaker, as a sink."""

    name: str | None = None

    def __init__(self, wished_rate: int, device: int | str | None) -> None:
        """Open the loudspeaker.

        Raises:
            Failure: there is none.
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
        """Play the samples after those that wait."""
        await self._loudspeaker.write(pcm)

    def pause(self) -> None:
        """Say that what comes next may be late."""
        self._loudspeaker.pause()

    async def __aenter__(self) -> Self:
        await self._loudspeaker.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._loudspeaker.__aexit__(kind, error, trace)


class File:
    """A sound file. It is closed in every case, so that it is valid; without a sample there is no file."""

    buffered = 60.0
    """Seconds, as if so much waited: larger groups of frames cost less, and nobody waits for a file."""
    under_runs = 0

    def __init__(self, path: Path, sample_rate: int) -> None:
        """The format follows from the suffix (:data:`FORMATS`)."""
        self.name: str | None = str(path)
        self._path, self._rate = path, sample_rate
        self._file: BinaryIO | None = None
        self._encoder: Encoder | None = None
        self._lock = threading.Lock()
        """Held while the file is written: a write that was given up may still run when the file is closed."""
        self._closed = self._failed = False

    async def write(self, pcm: bytes) -> None:
        """Append the samples."""
        await asyncio.to_thread(self._write, pcm)

    def pause(self) -> None:
        """Do nothing, since a file does not wait."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._guarded(self._end)

    def _write(self, pcm: bytes) -> None:
        with self._lock:
            if not self._closed:
                self._guarded(partial(self._append, pcm))

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._failed = True
            told = "cannot be written" if self._file is None else "cannot be written to its end (is the disk full?)"
            raise Failure(f"{self._path} {told}: {error.strerror or error}") from None

    def _append(self, pcm: bytes) -> None:
        from audio import encoder

        if self._file is None:
            self._file = self._path.open("wb")
            self._encoder = encoder.file(FORMATS[self._path.suffix.lower()], self._rate)
        assert self._encoder is not None
        self._file.write(self._encoder.feed(np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)))

    def _end(self) -> None:
        """Write the rest of the file. A WAV header is told the length, which was not known when it was written."""
        from audio.encoder import wav_header

        assert self._file is not None and self._encoder is not None
        try:
            if self._failed:
                return
            for piece in self._encoder.finish():
                self._file.write(piece)
            self._file.flush()
            if FORMATS[self._path.suffix.lower()] == "wav":
                header = wav_header("linear16", self._rate)
                size = self._file.tell() - len(header)
                self._file.seek(0)
                self._file.write(wav_header("linear16", self._rate, size))
                self._file.flush()
        finally:
            self._encoder.close()
            with suppress(OSError):  # The disk is full, which was told before.
                self._file.close()


def check_output(path: Path) -> None:
    """Check, before anything is loaded, that a sound file can be written.

    Raises:
        Failure: it cannot.
    """
    if path.suffix.lower() not in FORMATS:
        raise Failure(f"{path}: the suffix says the format: {', '.join(FORMATS)}", MISUSED)
    if not path.parent.is_dir():
        raise Failure(f"{path} cannot be written: there is no directory {path.parent}")
    if path.is_dir():
        raise Failure(f"{path} cannot be written: it is a directory")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Failure(f"{path} cannot be written: there is no right to")
