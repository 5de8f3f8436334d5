"""The events of a listener: plain values, one dataclass an event.

All times are seconds on the session's own clock, which counts samples at the model's rate and is 0 at the first sample
ever fed. Each protocol turns events into its own messages; nothing here knows a socket or a tensor.

Flow of one utterance::

    SpeechStarted → Transcript(is_final=False)* → Transcript(is_final=True)* → UtteranceEnd

Where ``Turn.eager`` is set, ``Paused`` and ``Resumed`` come in between, alternately; the last ``Paused`` may have no
``Resumed``. Where speakers are told apart, ``SpeakerMerged`` and ``SpeakerNamed`` may follow a final.

A ``Transcript`` with ``is_final=False`` replaces the previous one with the same ``start``. The texts of those with
``is_final=True``, joined by spaces, are the session's text. ``speech_final`` marks the one that an endpoint closed.
"""

from dataclasses import dataclass
from typing import Final

MARKS: Final = ".,?!;:…。，？！；：、"
"""The punctuation marks that may follow a word without being part of it."""


def bare(word: str) -> str:
    """``word`` without the marks that follow it."""
    return word.rstrip(MARKS) or word


def letter(speaker: int) -> str:
    """What people call ``speaker``: A … Z, then AA, AB …"""
    return (letter(speaker // 26 - 1) if speaker >= 26 else "") + chr(ord("A") + speaker % 26)


def speaker_called(name: str | None) -> int | None:
    """The speaker whom :func:`letter` calls ``name``; None where it is nobody's."""
    number = -1
    for one in name or "":
        number = (number + 1) * 26 + ord(one) - ord("A")
    return None if number < 0 else number


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a transcript, with the mark that follows it."""

    text: str
    start: float
    end: float
    confidence: float
    """The mean probability of the word's tokens, 0…1."""
    approximate: bool = False
    """True where nothing aligned the text, so that the words share out the time of their segment."""
    speaker: int | None = None
    """Who says it, counted from 0 in the order in which they were first heard; None in interims, and where the speakers
    are not told apart."""
    speaker_confidence: float | None = None
    """The probability, 0…1, that it is them, and no other speaker of the session and nobody new."""
    speaker_name: str | None = None
    """Their name, where they are somebody whom the session knows and that is sure by now."""

    @property
    def called(self) -> str | None:
        """What people call who says it: the name, else the letter; None where nobody is told."""
        return self.speaker_name or (None if self.speaker is None else letter(self.speaker))


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Voice activity began ``at`` this second."""

    at: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of a stretch of audio, revisable unless ``is_final``."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...]
    stable_words: int
    """How many leading words are committed: while the segment is open, later transcripts keep them."""
    language: str | None
    """The language as an ISO 639-1 code (639-3 where there is none), or None where the model found no speech."""
    is_final: bool = False
    """Whether the text stands; else the next transcript with the same ``start`` replaces it."""
    speech_final: bool = False
    """Whether the speaker's silence or the client's request closed the utterance, rather than its length."""
    from_finalize: bool = False
    """Whether this answers a request to finalize."""
    confidence: float = 0.0
    """The mean probability of the text's tokens, 0…1."""
    retracted_words: int = 0
    """How many words that were committed this final text lacks; 0 unless ``is_final``."""
    silence: float = 0.0
    """Seconds of silence that closed the utterance; 0 where none did."""
    sure: float | None = None
    """The probability, 0…1, that the turn had ended then; None where nobody judged."""

    def end_of(self, words: int) -> int:
        """The index in the text at which the first ``words`` words end, without the mark that follows them, which may
        yet change. The words are searched for, since not every language has spaces between them."""
        end = 0
        for word in self.words[:words]:
            found = self.text.find(word.text, end)
            end = end if found < 0 else found + len(bare(word.text))
        return end


@dataclass(frozen=True, slots=True)
class UtteranceEnd:
    """For ``ListenOptions.utterance_end`` seconds no word has come after the one that ended at ``last_word_end``."""

    last_word_end: float


@dataclass(frozen=True, slots=True)
class Paused:
    """The turn is over with the probability ``sure``, at least ``Turn.eager``. ``transcript`` has the text that its
    final will have if it is."""

    transcript: Transcript
    sure: float


@dataclass(frozen=True, slots=True)
class Resumed:
    """The utterance goes on after the ``Paused`` with this transcript."""

    transcript: Transcript


@dataclass(frozen=True, slots=True)
class SpeakerMerged:
    """The words of ``speaker`` were said by ``into``, as it turns out; nobody is called ``speaker`` any more."""

    speaker: int
    into: int


@dataclass(frozen=True, slots=True)
class SpeakerNamed:
    """The words of ``speaker`` that finals told without a name were said by somebody called ``name``."""

    speaker: int
    name: str


SpeakerChange = SpeakerMerged | SpeakerNamed
Event = SpeechStarted | Transcript | UtteranceEnd | Paused | Resumed | SpeakerChange
