"""What a speaker says: plain values, one dataclass an event.

All times are seconds of audio since the session's first sample, after ``speed`` and at the rate the session chose:
the audio's own clock, not the wall's. A protocol file turns these into its wire shape; nothing here knows a socket or
a tensor.

Flow of a session::

    (PieceStarted → AudioChunk* → PieceMark)* → Flushed …      one Flushed for every flush()
    Cleared                                                    one for every clear(); no older audio comes after it
    Finished                                                   after finish(), once and last

A *piece* is what the model speaks in one go: a sentence, or a part of a very long one.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Reason = Literal["end", "budget", "silence", "repetition", "cap"]
"""Why a piece ended: the model's own end, or the guard that ended it (codec/guards.py)."""


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """Samples that follow those of the previous chunk without a gap."""

    samples: npt.NDArray[np.float32]
    """float32 mono, −1…1, at the session's sample rate."""
    at: float
    """Time of the first sample."""


@dataclass(frozen=True, slots=True)
class PieceStarted:
    """The next chunk begins a piece."""

    index: int
    at: float


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """One written word, or an expression such as "5 km", as it was spoken."""

    text: str
    start_char: int
    end_char: int
    """Where it stood in the text said since the session began: characters, the end exclusive."""
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class PieceMark:
    """A piece is complete: which text was spoken when."""

    index: int
    text: str
    """As it was spoken: normalised."""
    start_char: int
    end_char: int
    """Where it stood in the text said since the session began: characters, the end exclusive."""
    start: float
    end: float
    reason: Reason
    words: tuple[SpokenWord, ...] = ()
    """Its words in order, where the session asked for them (``SpeakOptions.word_times``)."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """All audio of the text said before the ``sequence``-th flush (0, 1, …) has been given out."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Cleared:
    """The text said before the ``sequence``-th clear (0, 1, …) is forgotten; none of its audio follows."""

    sequence: int


@dataclass(frozen=True, slots=True)
class SpeechWarning:
    """Something the listener may hear, or miss: a guard ended a piece, or text had nothing in it that can be spoken, or
    letters that were left out."""

    code: Literal["piece_ended_by_guard", "nothing_to_speak", "letters_left_out"]
    description: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing follows."""


Event = AudioChunk | PieceStarted | PieceMark | Flushed | Cleared | SpeechWarning | Finished
