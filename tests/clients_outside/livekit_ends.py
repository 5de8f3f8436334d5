"""A microphone and a loudspeaker for an AgentSession of livekit's, which has no room here."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from livekit import rtc
from livekit.agents.voice import io


class Microphone(io.AudioInput):
    """Audio as it is said: what :meth:`say` takes, at the pace of speech, and silence in between."""

    def __init__(self, rate: int) -> None:
        super().__init__(label="microphone")
        self._rate, self._size = rate, rate // 20 * 2
        self._waiting = bytearray()
        self._next = time.monotonic()
        self.quiet_since = 0.0
        """``time.monotonic()`` when the last of what was said has gone out."""

    def say(self, pcm: bytes) -> None:
        """Say this next."""
        self._waiting += pcm

    @property
    def speaking(self) -> bool:
        """Whether there is more to be said."""
        return bool(self._waiting)

    async def __anext__(self) -> rtc.AudioFrame:
        self._next = max(self._next + 0.05, time.monotonic() - 0.2)
        await asyncio.sleep(max(0.0, self._next - time.monotonic()))
        piece = bytes(self._waiting[: self._size])
        if piece:
            del self._waiting[: self._size]
            self.quiet_since = time.monotonic()
        piece = piece.ljust(self._size, b"\0")
        return rtc.AudioFrame(piece, self._rate, 1, len(piece) // 2)


class Loudspeaker(io.AudioOutput):
    """Plays at the pace of sound into nothing, and knows when it began and when it was silenced."""

    def __init__(self, rate: int) -> None:
        capabilities = io.AudioOutputCapabilities(pause=False)
        super().__init__(label="loudspeaker", capabilities=capabilities, sample_rate=rate)
        self.began: list[float] = []
        self.silenced: list[float] = []
        self._seconds = 0.0
        self._playing: asyncio.Task[None] | None = None

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        """Take sound."""
        await super().capture_frame(frame)
        if not self._seconds:
            self.began.append(time.monotonic())
            self.on_playback_started(created_at=time.time())
        self._seconds += frame.duration

    def flush(self) -> None:
        """All sound of this segment is here: it is over when it has been played."""
        super().flush()
        if self._seconds:
            self._playing = asyncio.create_task(self._play(self.began[-1] + self._seconds - time.monotonic()))

    def clear_buffer(self) -> None:
        """Be silent now."""
        if self._seconds:
            self.silenced.append(time.monotonic())
            if self._playing is not None:
                self._playing.cancel()
            self._finish(interrupted=True)

    async def _play(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
        self._finish(interrupted=False)

    def _finish(self, *, interrupted: bool) -> None:
        played = min(time.monotonic() - self.began[-1], self._seconds)
        self._seconds, self._playing = 0.0, None
        self.on_playback_finished(playback_position=played, interrupted=interrupted)


async def until(what: str, holds: Any, seconds: float = 40, told: Sequence[Any] = ()) -> None:
    """Wait until ``holds()``.

    Raises:
        AssertionError: it takes longer than ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} never came; {list(told)}"
        await asyncio.sleep(0.02)
