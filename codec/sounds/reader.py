"""Words as they are spoken → their sounds, by the dictionary, by rules, and by a guess where neither knows a word.

A word is read by itself, by the words before it in its piece, and by whether a mark follows it at once; never by a word
after it. So it is read once it is complete, and what a text sounds like does not depend on how it was cut.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from codec.sounds import heteronyms
from codec.sounds.dictionary import Dictionary, Entry
from codec.sounds.endings import PREFIXES, derived, plural
from codec.sounds.guess import Guesser
from codec.sounds.letters import NAMES, SPELLED, named
from codec.sounds.neighbours import Neighbours
from codec.sounds.symbols import PRIMARY, weaker
from codec.text.folding import folded
from engines.manifest import Pronunciation

LONGEST: Final = 64
"""How many letters are read as a word; what is left of a longer one is read as the next."""
CACHED: Final = 4096
"""Words whose entries are remembered."""
_SPELLED: Final = 5
"""Up to how many capitals a word that the dictionary lacks is read by its letters."""
_VOWELS: Final = frozenset("aeiouy")
_CAPITALS: Final = re.compile(r"([A-Z]{2,})('?s)?")
_PARTS: Final = re.compile(r"[A-Z]{2,}(?=[A-Z][a-z])|[A-Z]{2,}(?![a-z])|[A-Z]?[a-z']+|[A-Z]")
"""The parts of a word with capitals inside: "ChatGPT", "JavaScript", "HTMLElement"."""
_ELISIONS: Final = {"o": "O", "d": "d", "l": "l"}
_ELIDED: Final = re.compile("([ODLodl])'([A-Za-z][a-z']+)")
"""Names such as O'Dowd and D'Arcy: what their first letter sounds like."""
_UNREAD: Final = re.compile("[^A-Za-z']+")

Guess = Callable[[str], str]
"""A word in small letters a to z → its sounds."""


class Reader:
    """Immutable but for what it remembers; thread-safe."""

    def __init__(self, dictionary: Dictionary, guess: Guess, neighbours: Neighbours) -> None:
        self._dictionary, self._neighbours = dictionary, neighbours
        self._guess = guess
        self._entry = lru_cache(CACHED)(self._entry_of)

    @classmethod
    def load(cls, parts: Pronunciation, directory: Path) -> "Reader":
        """Read the files of a model directory: a tenth of a second, 12 MB.

        Raises:
            ManifestError: one of them cannot be read.
        """
        return cls(
            Dictionary.load(directory / parts.dictionary),
            Guesser.load(directory / parts.guesses),
            Neighbours.load(directory / parts.neighbours),
        )

    def read(
        self,
        word: str,
        before: Sequence[str] = (),
        *,
        marked: bool = False,
        own: Mapping[str, str] | None = None,
    ) -> str:
        """The sounds of ``word``; several words with spaces between them where it falls into parts, "" where there is
        nothing to read.

        Args:
            word: letters, apostrophes and hyphens; what else it holds parts it.
            before: the words before it in the piece, as they are written; two are looked at.
            marked: a mark follows at once, so that a weak word is strong ("what for?").
            own: a user's words, in small letters without accents, and their sounds: they come first.
        """
        plain = folded(word)
        if own and (sounds := with_endings(plain.lower().strip("'-"), own.get)):
            return sounds
        if not word.isascii():
            if sounds := with_endings(word.lower().strip("'’-"), self._accented):
                return sounds
            word = plain
        parts = [part for part in _UNREAD.sub(" ", word).split() if part.strip("'")]
        if len(parts) > 1 and (whole := self._joined(parts)):
            return whole
        said: list[str] = []
        for place, part in enumerate(parts):
            last = place == len(parts) - 1
            if not last and "-" in word and part.lower() in PREFIXES:
                said.append(PREFIXES[part.lower()])
                continue
            said += self._pieces(part, [*before, *parts[:place]][-2:], marked and last, own)
        return " ".join(one for one in said if one)

    def _accented(self, word: str) -> str | None:
        """The sounds of a word with accents that is read otherwise than without."""
        entry = self._dictionary.find(word)
        plain = folded(word)
        if entry is None and word.endswith("é") and plain.isascii() and plain.isalpha():  # A silent e has no accent.
            sounds = self._entry(plain).sounds
            return sounds if sounds.endswith("A") else f"{weaker(self._entry(plain[:-1]).sounds)}{PRIMARY}A"
        return entry.sounds if entry else None

    def _joined(self, parts: Sequence[str]) -> str | None:
        """The sounds of parts that are a word only without their hyphens ("Wi-Fi")."""
        if all(len(part) == 1 or self._known(part.lower()) for part in parts):
            return None
        entry = self._dictionary.find("".join(parts).lower())
        return entry.sounds if entry else None

    def _pieces(self, word: str, before: Sequence[str], marked: bool, own: Mapping[str, str] | None) -> list[str]:
        """The sounds of one part, cut where it is too long to be a word."""
        if own and (sounds := with_endings(word.lower().strip("'"), own.get)):
            return [sounds]
        cut = [word[i : i + LONGEST] for i in range(0, len(word), LONGEST)]
        return [self._part(one, before, marked) for one in cut if one.strip("'")]

    # ---------------------------------------------------------------- one word of letters and apostrophes

    def _part(self, word: str, before: Sequence[str], marked: bool) -> str:
        if len(word) == 1:
            low = word.lower()
            weak = low == "i" or self._is_article(word, before)
            return self._chosen(low, self._entry(low), before, marked) if weak else NAMES[low]
        if capitals := _CAPITALS.fullmatch(word):
            return self._capitals(capitals[1], capitals[2] or "", before, marked)
        low = word.lower()
        if word != low and (entry := self._dictionary.find(word)):
            return self._chosen(word, entry, before, marked)
        if low == word or word[1:] == low[1:] or self._known(low):
            return self._chosen(low, self._entry(low), before, marked)
        if elided := _ELIDED.fullmatch(word):
            return _ELISIONS[elided[1].lower()] + self._entry(elided[2].lower()).sounds
        return " ".join(self._inner(part.strip("'")) for part in _PARTS.findall(word) if part.strip("'"))

    def _is_article(self, word: str, before: Sequence[str]) -> bool:
        """Whether "a" or "A" is no letter: a capital is one inside a piece ("plan A")."""
        return word == "a" and not (before and len(before[-1]) == 1) or word == "A" and not before

    def _inner(self, part: str) -> str:
        """A part of a word with capitals inside."""
        if part.isupper():
            return named(part)
        return self._entry(part.lower()).sounds

    def _capitals(self, stem: str, tail: str, before: Sequence[str], marked: bool) -> str:
        """A word of capitals: as a word, or by its letters. Plurals and possessives are like what they are of."""
        low = stem.lower()
        if (entry := self._dictionary.find(stem)) is not None:
            sounds = entry.sounds
        elif self._is_word(low, before):
            if tail == "'s" or not tail:
                return self._chosen(low + tail, self._entry(low + tail), before, marked)
            sounds = self._entry(low).sounds
        else:
            sounds = named(stem)
        return plural(sounds) if tail else sounds

    def _is_word(self, low: str, before: Sequence[str]) -> bool:
        """Whether capitals are shouted, not letters."""
        if low in SPELLED:
            last = before[-1] if before else ""
            return len(last) > 2 and last.isupper() and self._is_word(last.lower(), ())
        entry = self._dictionary.find(low)
        if len(low) > _SPELLED:
            return not _VOWELS.isdisjoint(low)
        return (entry is not None and entry.common) or (entry is None and self._made_of_common(low))

    def _made_of_common(self, low: str) -> bool:
        """Whether a short word is an inflected common one ("HITS")."""

        def find(stem: str) -> Entry | None:
            entry = self._dictionary.find(stem)
            return entry if entry is not None and entry.common else None

        return derived(low, find) is not None

    def _known(self, low: str) -> bool:
        return self._dictionary.find(low) is not None or derived(low, self._dictionary.find) is not None

    def _entry_of(self, low: str) -> Entry:
        """How a word in small letters is read: from the dictionary, by a rule, else guessed."""
        entry = self._dictionary.find(low)
        if entry is not None:
            return entry
        sounds = derived(low, self._dictionary.find)
        if sounds is not None:
            return Entry(sounds)
        if (bare := low.strip("'")) != low:
            return self._entry_of(bare)
        letters = low.replace("'", "")
        if _VOWELS.isdisjoint(letters):
            return Entry(named(letters))
        return Entry(self._guess(letters) or named(letters))

    def _chosen(self, word: str, entry: Entry, before: Sequence[str], marked: bool) -> str:
        """The one of an entry's pronunciations that fits the place."""
        ways = entry.others
        if not ways:
            return entry.sounds
        if marked and "." in ways:
            return ways["."]
        tag = heteronyms.tag(word, ways.keys(), before, self._neighbours)
        return ways.get(tag, entry.sounds)


def with_endings(word: str, find: Callable[[str], str | None]) -> str | None:
    """The sounds of a word that ``find`` knows, of its plural and of its possessive."""
    if sounds := find(word):
        return sounds
    for ending in ("'s", "s'", "s"):
        if word.endswith(ending) and (sounds := find(word.removesuffix(ending))):
            return plural(sounds)
    return None
