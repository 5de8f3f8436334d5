"""Fragments of a session's text → what the model reads of them, one after another."""

from codec.sounds.lexicon import Lexicon
from codec.sounds.reader import Reader


class Speller:
    """Turns one session's words into sounds. It remembers the words since the last mark or the end of a piece, on which
    the sounds of some words depend."""

    def __init__(self, reader: Reader, marks: str, lexicon: Lexicon | None = None) -> None:
        """``marks``: the punctuation that the model knows. ``lexicon``: the user's own pronunciations."""
        self._reader, self._marks = reader, marks
        self._own = lexicon.sounds if lexicon is not None else None
        self._before: list[str] = []

    def spell(self, text: str, *, marked: bool) -> str:
        """A fragment's marks as they are, a space before each of its words, the words as sounds.

        Args:
            text: marks that belong to the word before, then words (codec/text/stream.py).
            marked: a mark follows the last word at once; it comes with the next fragment.
        """
        body = text.lstrip(self._marks)
        said = text[: len(text) - len(body)]
        if said:
            self._before = []
        words = body.split()
        for place, word in enumerate(words):
            sounds = self._reader.read(word, self._before, marked=marked and place == len(words) - 1, own=self._own)
            if sounds:
                said += f" {sounds}"
                self._before = [*self._before, word][-2:]
        return said

    def end(self) -> None:
        """The piece has ended: the next word begins another."""
        self._before = []
