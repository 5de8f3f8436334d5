"""A text as it will be read, without a voice: its pieces in words, and in sounds where the model reads those."""

from dataclasses import dataclass, replace
from pathlib import Path

from codec.languages import language_of
from codec.options import SpeakOptions
from codec.pauses import pause
from codec.sounds.lexicon import takes_none
from codec.sounds.reader import Reader
from codec.sounds.speller import Speller
from codec.text.pieces import Fragment, PieceEnd
from codec.text.stream import TextStream
from codec.voices import Voices
from engines.manifest import TextRules, read_tts


@dataclass(frozen=True, slots=True)
class Reading:
    """A piece. ``words``: as they are spoken, with their marks; ``sounds``: what the model is given of them, None where
    it is given the words; ``pause``: seconds from its end to the next one."""

    words: str
    sounds: str | None
    pause: float


@dataclass(frozen=True, slots=True)
class Readings:
    """All pieces of a text, and the letters and signs that were left out."""

    pieces: tuple[Reading, ...]
    unread: str


def readings(
    text: str, rules: TextRules, *, english: bool, speller: Speller | None = None, pauses: float = 1.0
) -> Readings:
    """What a session with these would read of ``text``, all of it at once.

    Args:
        rules: the model's.
        english: digits, dates and the like become words.
        speller: a fresh one, for a model that reads sounds.
        pauses: their scale, as in ``SpeakOptions``.
    """
    stream = TextStream(rules, english=english)
    pieces: list[Reading] = []
    ends: list[PieceEnd] = []
    words = sounds = ""
    for item in stream.feed(text) + stream.flush():
        if isinstance(item, Fragment):
            ends.clear()
            words += item.text
            if speller is not None:
                sounds += speller.spell(item.text, marked=item.marked)
            continue
        ends.append(item)
        if words:
            pieces.append(Reading(words.strip(), None if speller is None else sounds.strip(), 0.0))
            words = sounds = ""
            if speller is not None:
                speller.end()
        if pieces:
            pieces[-1] = replace(pieces[-1], pause=pause(ends, pauses))
    if pieces:  # Nothing follows the last one but what the author asked for.
        pieces[-1] = replace(pieces[-1], pause=pause(ends, 0.0))
    return Readings(tuple(pieces), stream.unread())


def read_by(directory: Path, text: str, options: SpeakOptions) -> Readings:
    """What the model in ``directory`` would read of ``text``; its dictionary is loaded, no weights.

    Raises:
        ManifestError: the directory holds no speaking model, or its dictionary cannot be read.
        OptionError: the model does not have the voice or the language, or takes no lexicon.
    """
    manifest = read_tts(directory)
    Voices(manifest).find(options.voice)
    english = options.normalise and language_of(manifest, options.language) == "en"
    pauses = 1.0 if options.pauses is None else options.pauses
    sounds = manifest.text.sounds
    if sounds is None and options.lexicon is not None:
        raise takes_none(manifest.name)
    speller = None if sounds is None else Speller(Reader.load(sounds, directory), manifest.text.marks, options.lexicon)
    return readings(text, manifest.text, english=english, speller=speller, pauses=pauses)
