"""How much work sessions made, in counters that tests, benches and metrics read.

They show that the work is bounded: no full chunk or closed window is encoded twice within a segment, and an interim
evaluates only the tail, the prompt's suffix and text. Windows that return to the cache after a decoding without
keyterms are not counted again.
"""

from dataclasses import dataclass

from engines.sessions import Counts


@dataclass(slots=True)
class Work(Counts):
    """Counts since the session began, and the seconds by the clock that each phase took, waiting for the lane
    included."""

    mel_frames: int = 0
    stem_chunks: int = 0
    """How many full chunks went through the convolution stem, each counted once."""
    stem_repeats: int = 0
    """How many full chunks of an open window went through it again, since the running mel maximum rose (official floor
    only)."""
    stem_tails: int = 0
    """How many unfinished last chunks went through it: every hypothesis encodes its own."""
    windows: int = 0
    """How many closed windows went through the body, each counted once."""
    body_tails: int = 0
    """How often an open window went through the body."""
    head_rows: int = 0
    """How many rows of prompts before the audio the decoder evaluated."""
    window_rows: int = 0
    """How many rows of closed windows it evaluated."""
    tail_rows: int = 0
    """How many audio rows of open windows it evaluated."""
    text_rows: int = 0
    """How many rows of suffix, committed text and draft it evaluated together with a tail."""
    steps: int = 0
    """How many tokens were decoded one at a time."""
    rescoring_rows: int = 0
    """How many rows of alternatives of finals the decoder evaluated (streaming/rescoring.py)."""
    ticks: int = 0
    """How many interims were made."""
    ticks_skipped: int = 0
    """How many interims were left out since the work was late."""
    finals: int = 0
    """How many finals were decoded, those in advance included."""
    finals_discarded: int = 0
    """How many finals in advance were dropped because speech went on."""
    withdrawn: int = 0
    """How many interims and finals in advance were given up on their way, as no longer needed."""
    context_redecoded: int = 0
    """How many finals recited the keyterms and were decoded again without them."""
    mel_seconds: float = 0.0
    stem_seconds: float = 0.0
    body_seconds: float = 0.0
    prefill_seconds: float = 0.0
    step_seconds: float = 0.0
    rescoring_seconds: float = 0.0
