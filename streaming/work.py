"""What a session made the machine do: counters that tests and benches read.

They prove the bounded-work promises: no finished chunk or closed window is encoded twice within a segment, and a tick
evaluates only the tail, the prompt's suffix and text. Windows that are put back into the cache, where a further hearing
or a decoding without context stood in their place, are not counted again.
"""

from dataclasses import dataclass

from engines.counts import Counts


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
    doubts: int = 0
    """Other tokens of a final that were followed."""
    doubt_rows: int = 0
    """Rows that took."""
    texts_read: int = 0
    """Texts of finals that the decoder read without sound (streaming/language_model.py)."""
    read_rows: int = 0
    """Rows that took."""
    conferred: int = 0
    """Finals whose texts all hearings weighed (streaming/jury.py)."""
    heard_again: int = 0
    """Finals that were unsure and heard at another speed too."""
    hearings: int = 0
    """Those further hearings. What they cost stands here and nowhere else."""
    hearing_seconds: float = 0.0
    draft_accepted: int = 0
    ticks: int = 0
    ticks_skipped: int = 0
    finals: int = 0
    finals_discarded: int = 0
    """Speculative finals thrown away because speech went on."""
    loops_broken: int = 0
    context_redecoded: int = 0
    retracted_words: int = 0
    committed_words: int = 0
    mel_seconds: float = 0.0
    stem_seconds: float = 0.0
    body_seconds: float = 0.0
    prefill_seconds: float = 0.0
    step_seconds: float = 0.0
    doubt_seconds: float = 0.0
    read_seconds: float = 0.0
    confer_seconds: float = 0.0
    """Weighing the texts of all hearings, the proposing of spellings and the reading included."""
    phone_seconds: float = 0.0
    """Comparing texts with what the phone head heard (streaming/opinions.py)."""
