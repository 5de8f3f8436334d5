"""The loudspeaker, through PortAudio: 16-bit pieces, played in order as they come.

sounddevice is imported when a loudspeaker is opened, as for the microphone. Silence goes before the first piece
(``clients.clock``), so that those after it may be a little late; at most ``MAX_SECONDS`` wait to be played.
"""

import asyncio
import queue
import threading
import time
from types import TracebackType
from typing import Any, Self

from .clock import PlaybackClock
from .microphone import SoundError, missing, portaudio

SLICE_SECONDS = 0.05
"""Seconds of audio handed to PortAudio at a time: a loudspeaker that is stopped falls silent within so long."""
MAX_SECONDS = 10.0
"""Seconds of audio that may wait to be played; beyond, ``write`` waits."""


def playable_rate(wished: int, device: int | str | None) -> int:
    """``wished`` Hz where the device plays that in mono, else the device's own rate.

    Raises:
        SoundError: no PortAudio, or no device that plays.
    """
    sound = portaudio()
    try:
        own = round(sound.query_devices(device, "output")["default_samplerate"])
    except (ValueError, sound.PortAudioError) as error:
        raise missing("loudspeaker", device, error) from None
    try:
        sound.check_output_settings(device=device, channels=1, dtype="int16", samplerate=wished)
        return wished
    except (ValueError, sound.PortAudioError):
        return own


class Loudspeaker:
    """An open loudspeaker: ``async with Loudspeaker(rate) as loudspeaker: await loudspeaker.write(pcm)``.

    Leaving the block waits until everything is played; where an error or a cancellation leaves it, it stops at once.
    """

    def __init__(
        self, sample_rate: int, channels: int = 1, device: int | str | None = None, *, lead: float | None = None
    ) -> None:
        """Open the loudspeaker for pieces of 16 bits, little endian, channels interleaved.

        Args:
            lead: seconds of silence before the first piece; None for the clock's own.

        Raises:
            SoundError: no PortAudio, or no device that plays this.
        """
        self._sound = portaudio()
        try:
            self._sound.check_output_settings(device=device, channels=channels, dtype="int16", samplerate=sample_rate)
            self._stream: Any = self._sound.RawOutputStream(
                samplerate=sample_rate, channels=channels, dtype="int16", device=device
            )
        except (ValueError, self._sound.PortAudioError) as error:
            raise missing("loudspeaker", device, error) from None
        self.sample_rate = sample_rate
        self.clock = PlaybackClock() if lead is None else PlaybackClock(lead)
        """The clock that knows what waits to be played, and how often a piece was late."""
        self._frame = 2 * channels
        self._slice = self._frame * round(sample_rate * SLICE_SECONDS)
        self._slices: queue.Queue[bytes | None] = queue.Queue(round(MAX_SECONDS / SLICE_SECONDS))
        self._thread = threading.Thread(target=self._play, name="hearsay-loudspeaker", daemon=True)
        self._stopped = False
        self._fault: Exception | None = None

    async def write(self, piece: bytes) -> None:
        """Play ``piece`` after what waits; returns once it has its place in the queue.

        Raises:
            SoundError: the device is gone.
        """
        if self._fault is not None:
            raise self._gone()
        silence = self.clock.add(len(piece) / (self._frame * self.sample_rate), time.monotonic())
        await asyncio.to_thread(self._put, bytes(self._frame * round(self.sample_rate * silence)) + piece)

    def pause(self) -> None:
        """Note that no more audio is promised, so that it is no under-run if the next piece is late."""
        self.clock.pause()

    @property
    def buffered(self) -> float:
        """Seconds that wait to be played."""
        return self.clock.buffered(time.monotonic())

    async def __aenter__(self) -> Self:
        try:
            self._stream.start()
        except self._sound.PortAudioError as error:
            raise SoundError(f"the loudspeaker does not open: {error}") from None
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = kind is not None
        await asyncio.to_thread(self._end)

    def _put(self, piece: bytes) -> None:
        for start in range(0, len(piece), self._slice):
            if self._stopped:
                return
            self._slices.put(piece[start : start + self._slice])

    def _end(self) -> None:
        self._slices.put(None)
        self._thread.join()
        try:
            # stop() plays what PortAudio holds, abort() drops it.
            if self._stopped or self._fault is not None:
                self._stream.abort()
            else:
                self._stream.stop()
        except self._sound.PortAudioError as error:
            self._fault = self._fault or error
        finally:
            self._stream.close()
        if self._fault is not None and not self._stopped:
            raise self._gone()

    def _gone(self) -> SoundError:
        return SoundError(f"the loudspeaker stopped: {self._fault}")

    def _play(self) -> None:
        while (piece := self._slices.get()) is not None:
            if self._stopped or self._fault is not None:
                continue
            try:
                self._stream.write(piece)
            except self._sound.PortAudioError as error:
                self._fault = error  # The next write raises it; what waits is dropped meanwhile.
