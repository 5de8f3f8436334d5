"""Pronunciations by espeak-ng: what the encoder is asked to hear beside the words.

English spelling is a second thing to learn beside its sound. A CTC loss over phones, three frames to an encoder row,
teaches the encoder the sound alone, from few hours; finals ask the same head how texts sound (pronunciation.py).
"""

import re
from collections.abc import Iterable
from pathlib import Path

from training.asr.espeak import Espeak

FRAMES_PER_ROW = 3
"""CTC frames an encoder row is unfolded into: 37 to 39 a second, for up to 25 phones a second of fast speech."""
_SEPARATOR = ord("_") << 8
_STRESS = re.compile(r"[',%=;:|!#*-]+$|^[',%=|]+")
_ALONE = {"a": "@", "the": "D@", "to": "t@"}  # as words between others, not as names of letters


class Phones:
    """Word -> phone ids, for as many words as asked; the set of phones is that of `vocabulary`.

    Args:
        root: where espeak-ng lies, as for `Espeak`.
        vocabulary: words whose phones make up the classes; phones of other words that are not among them are left out.
    """

    def __init__(self, root: Path, vocabulary: Iterable[str]) -> None:
        self._root = root
        self._espeak: Espeak | None = None
        symbols = {w: self._symbols(w) for w in sorted(set(vocabulary))}
        self.names = sorted({s for found in symbols.values() for s in found})
        self._ids = {s: i for i, s in enumerate(self.names)}
        self._known = {w: self._encode(found) for w, found in symbols.items()}
        self._espeak = None  # a forked process opens its own

    def __len__(self) -> int:
        return len(self.names)

    def of(self, words: Iterable[str]) -> list[int]:
        """Phone ids of words in the transcripts' alphabet."""
        out: list[int] = []
        for word in words:
            known = self._known.get(word)
            if known is None:
                known = self._known[word] = self._encode(self._symbols(word))
            out += known
        return out

    def _encode(self, symbols: list[str]) -> list[int]:
        return [self._ids[s] for s in symbols if s in self._ids]

    def _symbols(self, word: str) -> list[str]:
        if word in _ALONE:
            return list(_ALONE[word])
        if self._espeak is None:
            self._espeak = Espeak(self._root)
            self._espeak.choose("en-us")
        plain = (_STRESS.sub("", s) for s in self._espeak.phonemes(word, _SEPARATOR).replace(" ", "_").split("_"))
        return [s for s in plain if s]
