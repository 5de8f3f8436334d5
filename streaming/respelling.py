"""Other spellings of a final's doubtful words: what the lexicon has that sounds about the same.

A small decoder spells what it hears, and a word that it has seldom read comes out as no word at all ("egoistrical") or
as one that it knows better. No other token on the way leads to the right one: the word has to be proposed. So a word
that the lexicon lacks, or one of whose tokens was unlikely, is replaced by words written much like it, parted in two,
or joined with the next one; of all these the few that fit what the phone head heard there stay, and finals weigh them
beside the texts that they found themselves (streaming/jury.py).

The numbers were chosen on the clips that the shipped model's training held out, none of the test split;
docs/streaming.md says what they give.

Contract: pure functions of texts and of what was heard.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.lexicon import Lexicon
from streaming.alignment import align
from streaming.doubt import PER_PHONE, PHONES, Draft
from streaming.likelihood import log_likelihoods
from streaming.prompt import Prompt
from streaming.pronunciation import Pronunciation

Floats = npt.NDArray[np.float32]

UNKNOWN: Final = 2.0
"""What a word that the lexicon lacks takes from a text's score."""
DOUBTED: Final = -1.2
"""Log-probability of a word's unlikeliest token below which a word of the lexicon is doubted too."""
ALIKE: Final = 40
"""Words written most like one that the lexicon lacks."""
ALIKE_DOUBTED: Final = 20
"""Words written most like one that it has."""
HEARD: Final = 5
"""Of those and of the words parted and joined, how many may be what was heard."""
_SHORT: Final = frozenset(("a", "i", "o"))
"""Words of one letter that a word may be parted into."""


@dataclass(frozen=True, slots=True)
class Place:
    """Words ``first … last`` of a text, counted, and other texts for them."""

    first: int
    last: int
    others: tuple[str, ...]


class Speller:
    """Knows the words of a model's lexicon, and those that a session brings."""

    def __init__(self, pronunciation: Pronunciation, lexicon: Lexicon, prompt: Prompt, terms: Collection[str]) -> None:
        """``terms``: keyterms, which nobody is asked to spell otherwise."""
        self._pronunciation, self._lexicon, self._prompt = pronunciation, lexicon, prompt
        self._own = frozenset(word for term in terms for word in term.lower().split())

    def unknown(self, tokens: Sequence[int]) -> int:
        """How many words of a text are in no list."""
        return sum(not self._knows(word) for word in self._prompt.text(tokens).split())

    def respelt(self, draft: Draft, start: int, phones: Floats) -> list[tuple[int, ...]]:
        """Tokens of texts that differ from ``draft`` in the spelling of one place.

        Args:
            draft: with its choices; its text begins at token ``start``.
            phones: float32 [frames, classes + 1], what the phone head heard; the last class is blank.
        """
        words = self._prompt.words(draft.tokens[start:], None)
        places = self._places([w for w, _, _ in words], [self._doubted(draft, start, a, b) for _, a, b in words])
        if not places:
            return []
        said = [self._pronunciation.of([word]) for word, _, _ in words]
        blank = phones.shape[1] - 1
        path = align(phones, [phone for word in said for phone in word], blank)
        if path is None:
            return []
        ends = np.cumsum([0, *map(len, said)]).tolist()
        texts: list[tuple[int, ...]] = []
        for place in places:
            before, after = max(place.first - 1, 0), min(place.last + 1, len(words) - 1)
            # From the end of the phone before the word before to the beginning of the one after the word after.
            low = int(path.last[ends[before] - 1]) + 1 if ends[before] else 0
            high = int(path.first[ends[after + 1]]) if ends[after + 1] < ends[-1] else len(phones)
            left = [phone for word in said[before : place.first] for phone in word]
            right = [phone for word in said[place.last + 1 : after + 1] for phone in word]
            spoken = [[*left, *self._pronunciation.of(other.split()), *right] for other in place.others]
            if low >= high:
                continue
            heard = PHONES * log_likelihoods(phones[low:high], spoken, blank)
            heard += PER_PHONE * np.array([len(each) for each in spoken])
            head, tail = draft.tokens[: start + words[place.first][1]], draft.tokens[start + words[place.last][2] :]
            best: list[int] = np.argsort(-heard, kind="stable")[:HEARD].tolist()
            for i in best:
                if np.isfinite(heard[i]):
                    texts.append((*head, *self._prompt.spelt(place.others[i]), *tail))
        return texts

    def _knows(self, word: str) -> bool:
        plain = word.lower()
        return plain in self._lexicon or plain in self._own or not plain.replace("'", "").isalpha()

    def _doubted(self, draft: Draft, start: int, first: int, last: int) -> bool:
        return min(choice.log for choice in draft.choices[start + first : start + last]) < DOUBTED

    def _places(self, words: Sequence[str], doubted: Sequence[bool]) -> list[Place]:
        """The doubtful words, each with what else it may be; and pairs of which one is doubtful, as one word."""
        places: list[Place] = []
        open_to = [not self._knows(word) or doubt for word, doubt in zip(words, doubted, strict=True)]
        for i, word in enumerate(words):
            plain = word.lower()
            if open_to[i] and plain not in self._own:
                known = self._knows(word)
                others = self._lexicon.alike(plain, ALIKE_DOUBTED if known else ALIKE)
                others += [] if known else self._parted(plain)
                places.append(Place(i, i, tuple(other for other in others if other != plain)))
            if i + 1 < len(words) and (open_to[i] or open_to[i + 1]):
                joined = plain + words[i + 1].lower()
                if joined in self._lexicon:
                    places.append(Place(i, i + 1, (joined,)))
        return places

    def _parted(self, word: str) -> list[str]:
        """Two words of the lexicon that are ``word`` together."""
        pairs = ((word[:i], word[i:]) for i in range(1, len(word)))
        return [f"{a} {b}" for a, b in pairs if all(w in self._lexicon and (len(w) > 1 or w in _SHORT) for w in (a, b))]
