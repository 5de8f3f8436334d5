"""When a listener hears audio that arrives in pieces: how much waits to be played, and how often it ran out."""

from dataclasses import dataclass

LEAD_SECONDS = 0.1
"""Seconds of silence before the first piece, and before the next one wherever all was played out: later pieces may be
late by so much (the jitter)."""
MAX_LEAD_SECONDS = 1.5
"""Seconds. An under-run doubles the silence up to this: text that is written more slowly than a voice reads makes late
audio."""


@dataclass(slots=True)
class PlaybackClock:
    """The player's clock, without a player. Times are seconds of one monotonic clock.

    Attributes:
        lead: seconds of silence before the next piece that begins after silence.
        under_runs: how often a piece came after all before it was played out. What comes after :meth:`pause` is no
            under-run: nobody had promised it yet.
        silent_seconds: how long the listener heard nothing because of them.
    """

    lead: float = LEAD_SECONDS
    under_runs: int = 0
    silent_seconds: float = 0.0
    _end: float | None = None
    """The time at which all that came is played out; None before the first piece."""
    _paused: bool = False

    def add(self, seconds: float, now: float) -> float:
        """Count a piece of ``seconds`` that came now; returns the seconds of silence that are played before it."""
        gap = 0.0
        if self._end is None:
            self._end, gap = now, self.lead
        elif now > self._end:
            if not self._paused:
                self.lead = max(self.lead, min(2 * self.lead, MAX_LEAD_SECONDS))
                self.under_runs += 1
                self.silent_seconds += now - self._end + self.lead
            self._end, gap = now, self.lead
        self._paused = False
        self._end += gap + seconds
        return gap

    def pause(self) -> None:
        """Say that everything promised so far has come: the next piece may be late."""
        self._paused = True

    def buffered(self, now: float) -> float:
        """Seconds that wait to be played, the silence before them included."""
        return max(0.0, self._end - now) if self._end is not None else 0.0
