"""What a listener says: plain values, one dataclass an event.

All times are seconds on the session's own clock: sample count at the model's rate divided by that rate, 0 at the first
sample ever fed. A protocol file turns these into its wire shape; nothing here knows a socket or a tensor.

Flow of one utterance::

    SpeechStarted → Transcript(is_final=False)* → Transcript(is_final=True)* → UtteranceEnd

Where ``ListenOptions.eager`` is set, ``Paused`` and ``Resumed`` come between, in pairs but for the last ``Paused``.

A ``Transcript`` with ``is_final=False`` replaces the previous one of the same ``start``. Texts of ``is_final`` ones,
joined by one space, are the session's text. ``speech_final`` marks the one that an endpoint closed.
"""

from dataclasses import dataclass
from typing import Final

MARKS: Final = ".,?!;:…。，？！；：、"
"""What may stand behind a word and is no part of it."""


def bare(word: str) -> str:
    """``word`` without the mark behind it."""
    return word.rstrip(MARKS) or word


@dataclass(frozen=True, slots=True)
class Word:
    """One spoken word."""

    text: str
    start: float
    end: float
    confidence: float
    """Mean probability of the word's tokens, 0…1."""
    approximate: bool = False
    """True where the model offers no alignment and the times are the segment's, shared out over its words."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Voice activity began."""

    at: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of a stretch of audio, revisable unless ``is_final``."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...]
    stable_words: int
    """How many leading words are committed: append-only while the segment is open."""
    language: str | None
    """ISO 639-1, None where the model heard no language."""
    is_final: bool = False
    speech_final: bool = False
    from_finalize: bool = False
    confidence: float = 0.0
    retracted_words: int = 0
    """Finals only: committed words of the open segment that this final text takes back."""

    def end_of(self, words: int) -> int:
        """Where the first ``words`` words end in the text, before the mark behind them, which may yet change: not every
        language has spaces between them."""
        end = 0
        for word in self.words[:words]:
            found = self.text.find(word.text, end)
            end = end if found < 0 else found + len(bare(word.text))
        return end


@dataclass(frozen=True, slots=True)
class UtteranceEnd:
    """No word for ``utterance_end`` seconds after the last one."""

    last_word_end: float


@dataclass(frozen=True, slots=True)
class Paused:
    """The utterance has been silent for ``ListenOptions.eager``, and may be over: its final, if it is."""

    transcript: Transcript
    silence: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """It was not: the utterance goes on after a ``Paused`` with this transcript."""

    transcript: Transcript


Event = SpeechStarted | Transcript | UtteranceEnd | Paused | Resumed
