"""What a session made the machine do: counters that tests, benches and metrics read."""

from dataclasses import dataclass

from engines.sessions import Counts


@dataclass(slots=True)
class Work(Counts):
    """Counts since the session began, and the seconds spent in each phase; waiting for the lane counts too."""

    pieces: int = 0
    frames: int = 0
    text_tokens: int = 0
    prefill_rows: int = 0
    codec_calls: int = 0
    codec_frames: int = 0
    stalls: int = 0
    """How often the talker stood because text was late."""
    frames_dropped: int = 0
    """How many frames were made and never given out, because of a clear or a guard."""
    clears: int = 0
    budget_stops: int = 0
    silence_stops: int = 0
    repetition_stops: int = 0
    cap_stops: int = 0
    prefill_seconds: float = 0.0
    frame_seconds: float = 0.0
    codec_seconds: float = 0.0
