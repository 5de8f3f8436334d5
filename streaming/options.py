"""What a session may choose: one value, checked once, before any audio arrives."""

from dataclasses import dataclass

from engines.sessions import OptionError

MAX_CONTEXT_WORDS = 200
"""Keyterm words a session may bring. Longer lists leak into the text (QwenLM/Qwen3-ASR#106)."""
MAX_CONTEXT_CHARACTERS = 4096
"""The same of their characters: what is much longer than the prompt may be is not even counted in tokens."""

MAX_PREROLL = 0.5
"""Seconds."""
THRESHOLDS = (0.1, 0.95)
"""Least and most."""


class TooLong(OptionError):
    """More keyterms than the prompt may hold."""


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Options of one listening session.

    Attributes:
        language: ISO 639-1 code to force, or None to let the model tell.
        keyterms: words and names put into the system turn.
        interim: emit revisable transcripts while a segment is open.
        endpointing: silence in seconds that closes an utterance, or None for never (segments then close at 24 s only).
        eager: silence in seconds, shorter than ``endpointing``, after which ``Paused`` is emitted, or None.
        utterance_end: seconds without a word after which ``UtteranceEnd`` is emitted, or None.
        threshold: probability of voice at which speech begins, 0.1…0.95; it pauses 0.15 below.
        preroll: seconds of audio before the onset that belong to an utterance, 0…0.5:
            plosives and breaths come before voice activity.
        mel_maximum: greatest log10 mel energy of the whole clip, where it is known beforehand
            (``AsrModel.mel_maximum``): a model with the official floor uses it instead of the running maximum.
    """

    language: str | None = None
    keyterms: tuple[str, ...] = ()
    interim: bool = True
    endpointing: float | None = 0.6
    eager: float | None = None
    utterance_end: float | None = None
    threshold: float = 0.5
    preroll: float = 0.3
    mel_maximum: float | None = None

    def __post_init__(self) -> None:
        for name, least, most, unit in (
            ("endpointing", 0.01, 60.0, " s"),
            ("eager", 0.01, 60.0, " s"),
            ("utterance_end", 0.1, 10.0, " s"),
            ("threshold", *THRESHOLDS, ""),
            ("preroll", 0.0, MAX_PREROLL, " s"),
        ):
            value: float | None = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise OptionError(name, f"{value:g}{unit} lies outside {least:g}…{most:g}{unit}")
        context = " ".join(" ".join(term.split()) for term in self.keyterms)
        for size, most, unit in (
            (len(context.split()), MAX_CONTEXT_WORDS, "words"),
            (len(context), MAX_CONTEXT_CHARACTERS, "characters"),
        ):
            if size > most:
                raise TooLong("keyterms", f"{size} {unit}, the limit is {most}")
