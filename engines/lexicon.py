"""The words that a small model should know how to spell: which ones there are, and which are written much like another.

A decoder of five million weights writes words that do not exist where it has not learnt how one is spelt
("egoistrical"). A list of words costs little beside the weights that would be needed: two bytes each, packed. It stands
in the file of the pronunciations (streaming/pronunciation.py), sorted, every word as the number of letters it has in
common with the one before it and the letters after those, the whole compressed with LZMA::

    "at" "atom" "bat"  →  b"\\0at\\n\\2om\\n\\0bat\\n"

Contract: values only. Neighbours depend on the words alone; equally near ones come in the order of the list.
"""

import lzma
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

LETTERS: Final = 64
"""Most letters of a word."""
_BYTES: Final = 1 << 23
"""Most bytes of an unpacked list: about a million words."""
_MEMORY: Final = 1 << 25
"""Bytes that unpacking may take."""
_FEWER: Final = 600
"""Words with about the same letters in any order; the edit distance is told of those only."""
_VOWELS: Final = frozenset(b"aeiouy")
_VOWEL: Final = 0.6
"""Cost of a vowel for another, of one too many or too few; English spells them in many ways. Other letters cost 1."""


class Lexicon:
    """A set of words in lower case. Thread-safe."""

    def __init__(self, words: Sequence[str]) -> None:
        """``words``: sorted, each once, letters of one byte in UTF-8.

        Raises:
            ValueError: they are not; the message names the first word that is wrong.
        """
        for i, word in enumerate(words):
            if not 0 < len(word.encode()) == len(word) <= LETTERS or "\n" in word:
                raise ValueError(f"{word!r} is no word of 1 to {LETTERS} ASCII letters")
            if i and word <= words[i - 1]:
                raise ValueError(f"{word!r} stands after {words[i - 1]!r}")
        self.words = tuple(words)
        self._known = frozenset(words)
        self._letters = np.zeros((len(words), max(map(len, words), default=1)), np.uint8)
        for row, word in zip(self._letters, words, strict=True):
            row[: len(word)] = np.frombuffer(word.encode(), np.uint8)
        self._lengths = np.count_nonzero(self._letters, axis=1)
        self._kinds = np.unique(self._letters[self._letters > 0])
        counts = [np.count_nonzero(self._letters == kind, axis=1) for kind in self._kinds]
        self._counts = np.array(counts, np.int16).reshape(len(self._kinds), len(words))

    def __contains__(self, word: str) -> bool:
        return word in self._known

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def unpack(cls, packed: bytes) -> "Lexicon":
        """The words of :meth:`pack`.

        Raises:
            ValueError: it is no such list.
        """
        try:
            unpacker = lzma.LZMADecompressor(memlimit=_MEMORY)
            data = unpacker.decompress(packed, _BYTES)
        except lzma.LZMAError as error:
            raise ValueError(f"no LZMA data ({error})") from None
        if not unpacker.eof:
            raise ValueError(f"cut short, or of more than {_BYTES} bytes")
        words, before = list[str](), b""
        for line in data.split(b"\n")[:-1]:
            if not line or line[0] > len(before):
                raise ValueError(f"word {len(words)} has more letters in common with the one before than that has")
            before = before[: line[0]] + line[1:]
            words.append(before.decode("ascii", "strict") if before.isascii() else "\n")
        if data and not data.endswith(b"\n"):
            raise ValueError("the last word has no end")
        return cls(words)

    def pack(self) -> bytes:
        """As :meth:`unpack` reads it."""
        lines, before = list[bytes](), ""
        for word in self.words:
            common = next((i for i, (a, b) in enumerate(zip(word, before, strict=False)) if a != b), len(before))
            # A line ends with byte 10, which can be no number of letters.
            common = 9 if common == 10 else common
            lines.append(bytes([common]) + word[common:].encode() + b"\n")
            before = word
        return lzma.compress(b"".join(lines), preset=6 | lzma.PRESET_EXTREME)

    def alike(self, word: str, count: int) -> list[str]:
        """The ``count`` words written most like ``word``, nearest first; itself among them if it is one."""
        letters = np.frombuffer(word.lower().encode("ascii", "ignore"), np.uint8)[:LETTERS]
        if not len(letters) or not self.words or count < 1:
            return []
        own = np.array([np.count_nonzero(letters == kind) for kind in self._kinds], np.int16)
        other = np.abs(self._counts - own[:, None]).sum(axis=0)
        few = min(_FEWER, len(self.words))
        near = np.sort(np.argpartition(other, few - 1)[:few])
        distances = self._distances(letters, near)
        return [self.words[near[i]] for i in np.argsort(distances, kind="stable")[:count]]

    def _distances(self, letters: npt.NDArray[np.uint8], which: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """Edit distances between ``letters`` and the words ``which``."""
        lengths = self._lengths[which]
        words = self._letters[which, : lengths.max()]
        vowel = np.isin(words, list(_VOWELS))
        one = np.where(vowel, _VOWEL, 1.0)  # to put a letter of theirs in
        # before[j]: distance of the letters so far to the first j of each word.
        before = [np.zeros(len(which))]
        for j in range(words.shape[1]):
            before.append(before[-1] + one[:, j])
        for letter in letters.tolist():
            mine = _VOWEL if letter in _VOWELS else 1.0
            now = [before[0] + mine]
            for j in range(words.shape[1]):
                change = np.where(vowel[:, j], mine, 1.0) * (words[:, j] != letter)
                now.append(np.minimum(np.minimum(before[j] + change, before[j + 1] + mine), now[j] + one[:, j]))
            before = now
        return np.array(before)[lengths, np.arange(len(which))]
