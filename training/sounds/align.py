"""Which letters of a word stand for which of its sounds is found by counting, again and again, in all words at once.

Every letter gets a *chunk* of no, one or two sounds; a vowel and the stress before it are one sound. "machine" is ``m a
ch i n e`` → m, ə, ʃ, (nothing), ˈi, n, (nothing).
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from codec.sounds.symbols import STRESSES, VOWELS

MOST: int = 2
"""How many sounds one letter may have: an x has two."""
_VOWELS = frozenset("aeiouy")
_SYLLABIC = frozenset(("əɹ", "ᵊl", "əl", "ᵊn", "ᵊm"))
Chunks = tuple[str, ...]


def units(sounds: str) -> list[str]:
    """Give a word's sounds one by one, each stress with its vowel."""
    found: list[str] = []
    for symbol in sounds:
        if found and found[-1] in STRESSES:
            found[-1] += symbol
        else:
            found.append(symbol)
    return found


def _likely(letter: str, chunk: str) -> float:
    """Tell how likely a chunk is before any word was seen, as a logarithm. Vowels stand for vowels and consonants for
    consonants, most letters stand for one sound, and the weak vowel of "bottle" belongs to the consonant. The numbers
    only have to begin the counting; after its first round counts replace them."""
    sounds = units(chunk)
    vowels = sum(sound[-1] in VOWELS for sound in sounds)
    if not sounds:
        return -2.0 if letter in _VOWELS else -2.5
    if letter in _VOWELS:
        return (-1.0 if vowels == 1 else -6.0) - 3.0 * (len(sounds) - 1)
    if not vowels:
        return (-0.5 if letter == chunk else -1.5) - 2.0 * (len(sounds) - 1)
    return -3.0 if chunk in _SYLLABIC and letter == chunk[-1].replace("ɹ", "r") else -8.0


class Aligner:
    """Probabilities of a letter's chunks, which every round of :meth:`learn` makes better."""

    def __init__(self) -> None:
        self._log: dict[tuple[str, str], float] = {}
        self._unseen = 0.0
        """What is added to the likelihood of a chunk that was never seen with its letter."""

    def align(self, word: str, sounds: Sequence[str]) -> Chunks | None:
        """Give the likeliest chunks of the letters, or None where there are more sounds than they can have."""
        letters, count = len(word), len(sounds)
        best: list[list[float]] = [[-math.inf] * (count + 1) for _ in range(letters + 1)]
        size: list[list[int]] = [[0] * (count + 1) for _ in range(letters + 1)]
        best[0][0] = 0.0
        for i, letter in enumerate(word):
            row, after, taken = best[i], best[i + 1], size[i + 1]
            for j in range(max(0, count - MOST * (letters - i)), min(count, MOST * i) + 1):
                if row[j] == -math.inf:
                    continue
                for n in range(min(MOST, count - j) + 1):
                    chunk = "".join(sounds[j : j + n])
                    pair = letter, chunk
                    if (likely := self._log.get(pair)) is None:
                        likely = self._log[pair] = _likely(letter, chunk) + self._unseen
                    score = row[j] + likely
                    if score > after[j + n]:
                        after[j + n], taken[j + n] = score, n
        if best[letters][count] == -math.inf:
            return None
        chunks: list[str] = []
        j = count
        for i in range(letters, 0, -1):
            n = size[i][j]
            chunks.append("".join(sounds[j - n : j]))
            j -= n
        return tuple(reversed(chunks))

    def learn(self, words: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Do one round: align all words, then count."""
        counts: Counter[tuple[str, str]] = Counter()
        totals: Counter[str] = Counter()
        for word, sounds in words:
            for letter, chunk in zip(word, self.align(word, sounds) or (), strict=False):
                counts[letter, chunk] += 1
                totals[letter] += 1
        self._unseen = -5.0
        self._log = {pair: math.log(n / totals[pair[0]]) for pair, n in counts.items() if n > 1}
