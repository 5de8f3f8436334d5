"""A text as it will be read, without a voice: its pieces in words, and in sounds where the model reads those."""

from dataclasses import dataclass
from pathlib import Path

from codec.languages import language_of
from codec.sounds.lexicon import Lexicon, takes_none
from codec.sounds.reader import Reader
from codec.sounds.speller import Speller
from codec.text.pieces import Fragment
from codec.text.stream import TextStream
from engines.manifest import TextRules, read_tts


@dataclass(frozen=True, slots=True)
class Reading:
    """A piece. ``words``: as they are spoken, with their marks; ``sounds``: what the model is given of them, None where
    it is given the words."""

    words: str
    sounds: str | None


@dataclass(frozen=True, slots=True)
class Readings:
    """All pieces of a text, and the letters and signs that were left out."""

    pieces: tuple[Reading, ...]
    unread: str


def readings(text: str, rules: TextRules, *, english: bool, speller: Speller | None = None) -> Readings:
    """What a session with these would read of ``text``, all of it at once.

    Args:
        rules: the model's.
        english: digits, dates and the like become words.
        speller: a fresh one, for a model that reads sounds.
    """
    stream = TextStream(rules, english=english)
    pieces: list[Reading] = []
    words = sounds = ""
    for item in stream.feed(text) + stream.flush():
        if isinstance(item, Fragment):
            words += item.text
            if speller is not None:
                sounds += speller.spell(item.text, marked=item.marked)
        elif words:
            pieces.append(Reading(words.strip(), None if speller is None else sounds.strip()))
            words = sounds = ""
            if speller is not None:
                speller.end()
    return Readings(tuple(pieces), stream.unread())


def read_by(directory: Path, text: str, *, language: str | None = None, lexicon: Lexicon | None = None) -> Readings:
    """What the model in ``directory`` would read of ``text``; its dictionary is loaded, no weights.

    Raises:
        ManifestError: the directory holds no speaking model, or its dictionary cannot be read.
        OptionError: the model does not have the language, or takes no lexicon.
    """
    manifest = read_tts(directory)
    english = language_of(manifest, language) == "en"
    sounds = manifest.text.sounds
    if sounds is None:
        if lexicon is not None:
            raise takes_none(manifest.name)
        return readings(text, manifest.text, english=english)
    speller = Speller(Reader.load(sounds, directory), manifest.text.marks, lexicon)
    return readings(text, manifest.text, english=english, speller=speller)
