"""The loudspeaker, through PortAudio: 16-bit pieces, played in order as they come.

sounddevice is imported when a loudspeaker is opened, as for the microphone.
"""

import asyncio
import queue
import threading
from types import TracebackType
from typing import Any, Self

from clients.microphone import SoundError, portaudio

MAX_WAITING = 200
"""Pieces that may wait to be played; ``write`` waits beyond."""


class Loudspeaker:
    """An open loudspeaker: ``async with Loudspeaker(rate) as loudspeaker: await loudspeaker.write(pcm)``.

    Leaving the block waits until everything is played; where an error or a cancellation leaves it, it stops at once.
    """

    def __init__(self, sample_rate: int, channels: int = 1, device: int | str | None = None) -> None:
        """Pieces are 16-bit little endian, channels interleaved.

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
            raise SoundError(f"no loudspeaker{'' if device is None else f' {device!r}'}: {error}") from None
        self._pieces: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._play, name="hearsay-loudspeaker", daemon=True)
        self._stopped = False

    async def write(self, piece: bytes) -> None:
        """Play ``piece`` after what waits; returns when it waits itself."""
        await asyncio.to_thread(self._pieces.put, piece)

    async def __aenter__(self) -> Self:
        self._stream.start()
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = kind is not None
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._pieces.put(None)
        self._thread.join()
        # stop() plays what PortAudio holds, close() alone would not.
        if not self._stopped:
            self._stream.stop()
        self._stream.close()

    def _play(self) -> None:
        while (piece := self._pieces.get()) is not None:
            if not self._stopped:
                self._stream.write(piece)
