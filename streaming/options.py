"""What a session may choose, in one value that is checked once, before any audio arrives."""

from dataclasses import dataclass

from engines.sessions import OptionError
from streaming.speakers import Person
from streaming.turn import DEFAULT, Turn

MAX_CONTEXT_WORDS = 200
"""How many words the keyterms of a session may have together. Longer lists leak into the text
(QwenLM/Qwen3-ASR#106)."""
MAX_CONTEXT_CHARACTERS = 4096
"""How many characters they may have together, some twenty a word. A longer text is refused before it is tokenised,
which would take long."""

MAX_PREROLL = 0.5
"""How many seconds of audio before its onset an utterance may have: plosives and breaths are shorter, and what lies
before them is silence."""
THRESHOLDS = (0.1, 0.95)
"""The least and the greatest threshold. They are a choice: beyond them Silero VAD takes noise for speech, or clear
speech for silence."""


class TooLong(OptionError):
    """The keyterms are longer than the prompt may be."""


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Options of one listening session.

    Attributes:
        language: the ISO 639-1 code of the language to force, or None to let the model tell.
        keyterms: words and names that the session expects (``streaming.keyterms``).
        interim: whether transcripts come while a segment is open, which may yet be revised.
        endpointing: what ends an utterance: how sure it must be that a turn has ended (``streaming.turn``; by default
            after 0.28 s of silence where that is sure and after 0.6 s where not); or so many seconds of silence,
            0.01…60; or None for nothing: segments then end at 24 s.
        utterance_end: after how many seconds without a word ``UtteranceEnd`` comes, 0.1…10; or None.
        threshold: the probability of voice at which speech begins, 0.1…0.95; it pauses at 0.15 less.
        preroll: how many seconds of audio before the onset belong to an utterance, 0…0.5. Plosives and breaths come
            before voice activity.
        speakers: whether the words of finals tell who says them (``streaming.speakers``).
        known: who of them have names, if they are heard (``streaming.people``).
        mel_maximum: the greatest log10 mel energy of the whole clip where that is known beforehand
            (``AsrModel.mel_maximum``). A model with the official floor uses it instead of the running maximum.

    Raises:
        OptionError: a value lies outside its bounds; the error names the option.
        TooLong: the keyterms are too long.
    """

    language: str | None = None
    keyterms: tuple[str, ...] = ()
    interim: bool = True
    endpointing: Turn | float | None = DEFAULT
    utterance_end: float | None = None
    threshold: float = 0.5
    preroll: float = 0.3
    speakers: bool = False
    known: tuple[Person, ...] = ()
    mel_maximum: float | None = None

    def __post_init__(self) -> None:
        for name, least, most, unit in (
            ("endpointing", 0.01, 60.0, " s"),
            ("utterance_end", 0.1, 10.0, " s"),
            ("threshold", *THRESHOLDS, ""),
            ("preroll", 0.0, MAX_PREROLL, " s"),
        ):
            value: Turn | float | None = getattr(self, name)
            if value is not None and not isinstance(value, Turn) and not least <= value <= most:
                raise OptionError(name, f"{value:g}{unit} lies outside {least:g}…{most:g}{unit}")
        context = " ".join(" ".join(term.split()) for term in self.keyterms)
        for size, most, unit in (
            (len(context.split()), MAX_CONTEXT_WORDS, "words"),
            (len(context), MAX_CONTEXT_CHARACTERS, "characters"),
        ):
            if size > most:
                raise TooLong("keyterms", f"{size} {unit}, the limit is {most}")
