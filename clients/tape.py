"""The audio that a lost session may need again: from the end of the last final on, bounded. No clock, no connection.

Positions count bytes from the first sample of all. A daemon tells of words, never of silence: what it has heard is
reckoned, up to its last final, and from then on at the pace of live audio. Nobody records more than ``keep_seconds``
ahead of that. What was sent and made no final of for so long is silence, as far as anybody knows; where audio is sent
faster than that, it is counted as missed if the session is lost.
"""

import math
from collections import deque

PIECE_BYTES = 1 << 15
"""Bytes of audio that are handed out at once, at most."""
GRID_SECONDS = 0.032
"""The daemon looks for speech in frames of this length, from a session's first sample on. A session that begins on the
grid of the one before finds it at the same samples, and hears the same words."""


class Tape:
    """The audio of a stream, and the places in it where a Finalize stood. Audio is sent from the cursor on."""

    def __init__(self, bytes_per_second: int, frame_bytes: int, keep_seconds: float) -> None:
        """Make a tape. ``frame_bytes``: bytes of one sample of every channel; the tape begins at a whole one."""
        self._rate, self._frame, self._keep = bytes_per_second, frame_bytes, keep_seconds
        self._limit = max(frame_bytes, int(keep_seconds * bytes_per_second) // frame_bytes * frame_bytes)
        self._audio = bytearray()
        self._begin = self._cursor = 0
        self._heard = self._reckoned = 0.0
        """How far the daemon has come, in seconds of audio, and when that was reckoned."""
        self._taken: deque[tuple[int, float]] = deque()
        """The cursor and the time after each piece was taken, as far back as the tape reaches."""
        self._hasty = 0
        """Bytes that were dropped soon after they had been taken."""
        self._marks: deque[int] = deque()
        """The places of Finalizes that have no answer yet."""
        self._told = 0
        """The number of those that have been sent."""
        self._ended = self._end_told = False

    @property
    def begin(self) -> float:
        """The place at which the tape begins, in seconds."""
        return self._begin / self._rate

    @property
    def seconds(self) -> float:
        """The seconds of audio that the tape holds."""
        return len(self._audio) / self._rate

    @property
    def over(self) -> bool:
        """Whether the end was taken, so that nothing more will be sent."""
        return self._end_told

    @property
    def _end(self) -> int:
        return self._begin + len(self._audio)

    # ---------------------------------------------------------------------------------------------- recording

    def record(self, audio: bytes, now: float) -> None:
        """Add audio. The oldest audio that was heard makes room for it."""
        self._audio += audio
        self._drop(min(self._end - self._limit, int(self._heard)), now)

    def full(self, now: float) -> bool:
        """Whether as much audio waits to be heard as may be kept, so that a recorder should wait."""
        self._reckon(now)
        return self._end - self._heard >= self._limit

    def finalize(self) -> None:
        """Put a Finalize here. Two at one place are one."""
        if not self._marks or self._marks[-1] != self._end:
            self._marks.append(self._end)

    def end(self) -> None:
        """Say that nothing more will be recorded."""
        self._ended = True

    # ------------------------------------------------------------------------------------------------ sending

    def take(self, now: float) -> bytes | str | None:
        """What to send next: audio, ``Finalize``, at the end ``CloseStream``; None while there is nothing."""
        self._reckon(now)
        mark = self._marks[self._told] if self._told < len(self._marks) else None
        if mark is not None and mark <= self._cursor:
            self._told += 1
            return "Finalize"
        until = min(self._end if mark is None else mark, self._cursor + PIECE_BYTES)
        if until > self._cursor:
            piece = bytes(self._audio[self._cursor - self._begin : until - self._begin])
            self._cursor = until
            self._taken.append((until, now))
            return piece
        if self._ended and not self._end_told:
            self._end_told = True
            return "CloseStream"
        return None

    def rewind(self) -> float:
        """Go back, so that all audio and every Finalize without an answer is sent again. Returns how many seconds of
        audio are no longer kept."""
        self._cursor = self._heard = self._begin
        self._told, self._end_told = 0, False
        self._taken.clear()
        missed, self._hasty = self._hasty / self._rate, 0
        return missed

    def release(self, until: float, now: float) -> None:
        """Everything before ``until`` seconds is final. Only what was taken is forgotten."""
        self._heard, self._reckoned = min(until * self._rate, self._cursor), now
        on_grid = math.floor(until / GRID_SECONDS + 1e-3) * GRID_SECONDS
        position = round(on_grid * self._rate / self._frame) * self._frame
        if position > self._begin:
            self._hasty = 0
            self._drop(min(position, self._cursor), math.inf)

    def answered(self) -> None:
        """A Finalize was answered."""
        if self._told:
            self._told -= 1
            self._marks.popleft()

    def _reckon(self, now: float) -> None:
        passed, self._reckoned = now - self._reckoned, now
        self._heard = min(self._heard + passed * self._rate, self._cursor)

    def _drop(self, position: int, now: float) -> None:
        """Forget what lies before ``position``."""
        position -= position % self._frame
        if position <= self._begin:
            return
        while self._taken and self._taken[0][0] <= self._begin:
            self._taken.popleft()
        if self._taken and now - self._taken[0][1] < self._keep:
            self._hasty += position - self._begin
        del self._audio[: position - self._begin]
        self._begin = position
