"""What a session made the machine do: counters that tests and benches read.

They prove the bounded-work promises: no finished chunk or closed window is encoded twice within a segment, and a tick
evaluates only the tail, the prompt's suffix and text. Windows that are put back into the cache after a decoding without
context are not counted again.
"""

from dataclasses import dataclass

from engines.sessions import Counts


@dataclass(slots=True)
class Work(Counts):
    """Counts since the session began, and seconds spent in each phase (waiting for the lane included)."""

    mel_frames: int = 0
    stem_chunks: int = 0
    """Finished chunks through the convolution stem, each counted once."""
    stem_repeats: int = 0
    """Chunks of an open window computed again because the running mel maximum rose (official floor only)."""
    stem_tails: int = 0
    """Unfinished last chunks: the part that every tick recomputes."""
    windows: int = 0
    """Closed windows through the body and into the KV cache, each counted once."""
    body_tails: int = 0
    """Open windows through the body."""
    head_rows: int = 0
    window_rows: int = 0
    tail_rows: int = 0
    """Audio rows of open windows evaluated by the decoder."""
    text_rows: int = 0
    """Suffix, committed and draft rows evaluated together with a tail."""
    steps: int = 0
    """Tokens decoded one at a time."""
    rescoring_rows: int = 0
    """Rows of alternatives of finals (streaming/rescoring.py)."""
    ticks: int = 0
    ticks_skipped: int = 0
    finals: int = 0
    finals_discarded: int = 0
    """Speculative finals thrown away because speech went on."""
    withdrawn: int = 0
    """Pieces of work given up: interims whose final was due, finals in advance where speech went on."""
    context_redecoded: int = 0
    mel_seconds: float = 0.0
    stem_seconds: float = 0.0
    body_seconds: float = 0.0
    prefill_seconds: float = 0.0
    step_seconds: float = 0.0
    rescoring_seconds: float = 0.0
