"""New sentences in the voices of recorded readers: words cut from one reader's recordings, in the order of a text that
the reader never read.

Why: eight hours of a corpus hold some forty readers and a few thousand sentences; a decoder that knows the sentences
stops listening to the readers. A sentence put together from their words has to be heard.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from training.shards import RATE

_SHORTEST, _LONGEST = RATE // 16, RATE * 3 // 2  # samples of a word that is taken; else its alignment is doubted
_FEWEST, _MOST = 3, 14  # words of a spliced piece
_CANDIDATES = 16  # places tried for each word: the one that goes on longest with the text is taken


class Recording(NamedTuple):
    """One aligned utterance. start: sample of the pool; cuts: (sample, words before it), ascending."""

    start: int
    words: Sequence[str]
    cuts: Sequence[tuple[int, int]]


class Splicer:
    """Words of readers by voice, and texts to be said with them."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self._sentences = sentences
        self._cuts: list[dict[int, int]] = []  # of every recording: words before a cut -> sample of the pool
        self._words: list[Sequence[str]] = []
        self._places: dict[
            str, dict[str, list[tuple[int, int]]]
        ] = {}  # voice -> word -> (recording, index of the word)

    def clear(self) -> None:
        """Forget all recordings, before a new alignment."""
        self._cuts, self._words, self._places = [], [], {}

    def add(self, voice: str, recording: Recording) -> None:
        """Index the words of a recording that have a cut on both sides."""
        at = {n: recording.start + sample for sample, n in recording.cuts}
        number = len(self._words)
        self._cuts.append(at)
        self._words.append(recording.words)
        places = self._places.setdefault(voice, {})
        for i, word in enumerate(recording.words):
            if i in at and i + 1 in at and _SHORTEST <= at[i + 1] - at[i] <= _LONGEST:
                places.setdefault(word, []).append((number, i))

    def voices(self, fewest: int = 150) -> list[str]:
        """Voices with at least so many different words."""
        return [voice for voice, places in self._places.items() if len(places) >= fewest]

    def piece(self, voice: str, rng: random.Random, tries: int = 30) -> tuple[list[tuple[int, int]], list[str]] | None:
        """([(start, length) in the pool], words), part of a random sentence that `voice` has all words of; None where
        none was found in `tries` sentences."""
        places = self._places[voice]
        for _ in range(tries):
            words = self._sentences[rng.randrange(len(self._sentences))].split()
            run = self._run(words, places, rng)
            if run is not None:
                return self._chunks(run, places, rng), run
        return None

    @staticmethod
    def _run(words: list[str], places: dict[str, list[tuple[int, int]]], rng: random.Random) -> list[str] | None:
        """The longest stretch of `words` that all have places, or a part of it that is not too long."""
        best: list[str] = []
        stretch: list[str] = []
        for word in words:
            if word in places:
                stretch.append(word)
                if len(stretch) > len(best):
                    best = list(stretch)
            else:
                stretch = []
        if len(best) < _FEWEST:
            return None
        first = rng.randrange(max(len(best) - _MOST, 0) + 1)
        return best[first : first + _MOST]

    def _chunks(
        self, words: list[str], places: dict[str, list[tuple[int, int]]], rng: random.Random
    ) -> list[tuple[int, int]]:
        out: list[tuple[int, int]] = []
        at = 0
        while at < len(words):
            found = places[words[at]]
            tried = [found[rng.randrange(len(found))] for _ in range(min(_CANDIDATES, len(found)))]
            reach, number, index = max((self._reach(words, at, *place), *place) for place in tried)
            cuts = self._cuts[number]
            out.append((cuts[index], cuts[index + reach] - cuts[index]))
            at += reach
        return out

    def _reach(self, words: list[str], at: int, number: int, index: int) -> int:
        """How many words from `at` on the recording says in one go."""
        said, cuts = self._words[number], self._cuts[number]
        n = 1
        while (
            at + n < len(words)
            and index + n < len(said)
            and said[index + n] == words[at + n]
            and index + n + 1 in cuts
            and cuts[index + n + 1] - cuts[index + n] <= _LONGEST
        ):
            n += 1
        return n
