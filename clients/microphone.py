"""The microphone, through PortAudio: 16-bit mono pieces as they are recorded.

sounddevice is imported when a microphone is opened, never before: everything else works on a machine without PortAudio.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

PIECE = 0.05
"""Seconds of audio in a piece: short enough to be heard at once, long enough to cost nothing."""

MAX_WAITING = 200
"""Pieces that may wait for their reader (10 s). Beyond, the oldest is dropped and counted."""

WISHED_RATE = 16000
"""Hertz: the rate of the models. A device that cannot record at it is recorded at its own, and the daemon resamples."""


class SoundError(RuntimeError):
    """There is no usable sound system or device; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that records, or one that plays."""

    index: int
    name: str
    channels: int
    sample_rate: int
    is_default: bool


def portaudio() -> Any:
    """The sounddevice module.

    Raises:
        SoundError: PortAudio is missing, with the name of the system package that brings it.
    """
    try:
        import sounddevice
    except (OSError, ImportError) as error:
        raise SoundError(f"no sound: {error}. {_remedy()}") from None
    return sounddevice


def devices(direction: Literal["input", "output"] = "input") -> list[Device]:
    """Every device that can record (``input``) or play (``output``).

    Raises:
        SoundError: PortAudio is missing.
    """
    sound = portaudio()
    default = sound.default.device[0 if direction == "input" else 1]
    channels = f"max_{direction}_channels"
    return [
        Device(index, str(entry["name"]), entry[channels], round(entry["default_samplerate"]), index == default)
        for index, entry in enumerate(sound.query_devices())
        if entry[channels] > 0
    ]


class Microphone:
    """An open microphone: ``async with Microphone() as microphone: async for piece in microphone: …``.

    Attributes:
        sample_rate: of the pieces, Hz: 16000 where the device can, else its own.
        dropped: pieces lost because nobody read them in time, or because the sound system lost them.
    """

    def __init__(self, device: int | str | None = None) -> None:
        """``device``: number or part of the name as ``hearsay doctor`` lists them; the system's default without.

        Raises:
            SoundError: no PortAudio, or no such device.
        """
        self._sound = portaudio()
        self._device = device
        self._stream: Any = None
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING)
        self.dropped = 0
        try:
            own = round(self._sound.query_devices(device, "input")["default_samplerate"])
        except (ValueError, self._sound.PortAudioError) as error:
            raise missing("microphone", device, error) from None
        try:
            self._sound.check_input_settings(device=device, channels=1, dtype="int16", samplerate=WISHED_RATE)
            self.sample_rate = WISHED_RATE
        except (ValueError, self._sound.PortAudioError):
            self.sample_rate = own

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def recorded(data: Any, frames: int, time: Any, status: Any) -> None:
            # This runs in PortAudio's thread, which must not wait: it hands the piece over and leaves.
            loop.call_soon_threadsafe(self._take, bytes(data), bool(status))

        try:
            self._stream = self._sound.RawInputStream(
                samplerate=self.sample_rate,
                blocksize=round(self.sample_rate * PIECE),
                device=self._device,
                channels=1,
                dtype="int16",
                callback=recorded,
            )
            self._stream.start()
        except self._sound.PortAudioError as error:
            raise SoundError(f"the microphone does not open: {error}") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await asyncio.to_thread(stream.close)  # ``close`` waits for the callback in progress.

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._pieces.get()

    def _take(self, piece: bytes, lost: bool) -> None:
        self.dropped += lost
        if self._pieces.full():
            self._pieces.get_nowait()
            self.dropped += 1
        self._pieces.put_nowait(piece)


def missing(what: str, device: int | str | None, error: Exception) -> SoundError:
    """The error for a device that is not there. PortAudio's own words for no device at all are "Error querying device
    -1"."""
    none = device is None and "device -1" in str(error)
    told = f"no {what} was found" if none else f"no {what}{'' if device is None else f' {device!r}'}: {error}"
    if what == "microphone":  # Whoever wants a loudspeaker is told of -o, by the command.
        told += "; hearsay doctor lists them; of a recording hearsay demo --file FILE shows live captions"
        told += ", hearsay transcribe FILE the text"
    return SoundError(told)


def _remedy() -> str:
    if sys.platform == "darwin":
        return "Install PortAudio: brew install portaudio"
    if sys.platform == "win32":
        return "Reinstall sounddevice: its Windows wheel brings PortAudio"
    return "Install PortAudio: apt install libportaudio2 (Debian, Ubuntu), dnf install portaudio (Fedora)"
