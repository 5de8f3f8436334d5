"""The utterances that a batch can be made of, and the pieces that are taken from them.

An utterance lies in the pool as (start, length); its cuts are samples at word boundaries, so that a row can hold a part
of it with the matching part of its text: truncated as a live stream is, or a span from its middle.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from training.asr.splice import Recording, Splicer


@dataclass(slots=True)
class Utterance:
    """start, length in samples of the pool; cuts: (sample, words before it), ascending."""

    start: int
    length: int
    text: str
    real: bool
    cuts: list[tuple[int, int]]
    speaker: str = ""  # where it is known who speaks


class Piece(NamedTuple):
    """What is taken from the pool for a stretch of a row. chunks: (start, length), one after the other; ends: nothing
    may follow in this row."""

    chunks: list[tuple[int, int]]
    words: list[str]
    ends: bool


class Utterances:
    """A growing set, by source."""

    def __init__(
        self, rng: random.Random, splicer: Splicer | None = None, splice_share: float = 0.0, span_share: float = 0.0
    ) -> None:
        """splicer: what puts words of one reader together, in `splice_share` of the pieces of a source that has
        readers; without it none are. span_share: of real utterances, how many give a span of theirs."""
        self._rng, self._splicer, self._splice_share, self._span_share = rng, splicer, splice_share, span_share
        self._all: list[Utterance] = []
        self._by_start: dict[int, Utterance] = {}
        self._groups: dict[str, list[int]] = {}
        self._readers: dict[str, list[str]] = {}  # source -> its voices with words enough

    def __contains__(self, source: str) -> bool:
        """Whether there are any of this source."""
        return bool(self._groups.get(source))

    def add(self, source: str, utterances: Sequence[Utterance]) -> None:
        """Add utterances of one source."""
        group = self._groups.setdefault(source, [])
        for u in utterances:
            group.append(len(self._all))
            self._all.append(u)
            if u.real:
                self._by_start[u.start] = u

    def align(self, cuts: dict[int, list[tuple[int, int]]]) -> None:
        """Word boundaries of real utterances, by their start in the pool."""
        for start, found in cuts.items():
            self._by_start[start].cuts = found
        if self._splicer is None:
            return
        self._splicer.clear()
        for source, group in self._groups.items():
            for u in (self._all[i] for i in group):
                if u.real and u.speaker:
                    self._splicer.add(f"{source} {u.speaker}", Recording(u.start, u.text.split(), u.cuts))
        self._readers = {}
        for voice in self._splicer.voices():
            self._readers.setdefault(voice.split(" ", 1)[0], []).append(voice)

    def draw(self, source: str) -> Utterance:
        """One of `source`, each as likely as the others."""
        group = self._groups[source]
        return self._all[group[self._rng.randrange(len(group))]]

    def piece(self, source: str) -> Piece:
        """An utterance of `source`: whole, truncated, a span of it; or words of one of its readers, spliced."""
        rng = self._rng
        readers = self._readers.get(source)
        if readers and self._splicer is not None and rng.random() < self._splice_share:
            spliced = self._splicer.piece(rng.choice(readers), rng)
            if spliced is not None:
                return Piece(*spliced, False)
        u = self.draw(source)
        words = u.text.split()
        if u.cuts and u.real:
            draw = rng.random()
            if draw < 0.1 and len(words) > 2:
                at, count = rng.choice(u.cuts)
                return Piece([(u.start, min(at + rng.randint(0, 800), u.length))], words[:count], True)
            if draw < 0.1 + self._span_share and len(words) > 4:
                edges = [(0, 0), *u.cuts, (u.length, len(words))]
                i = rng.randrange(len(edges) - 1)
                j = rng.randrange(i + 1, len(edges))
                if edges[j][1] - edges[i][1] >= 2:
                    low, high = edges[i], edges[j]
                    return Piece([(u.start + low[0], high[0] - low[0])], words[low[1] : high[1]], False)
        elif u.cuts and rng.random() < 0.2:
            at, count = rng.choice(u.cuts)
            length = min(max(at + rng.randint(-600, 900), 3000), u.length)
            return Piece([(u.start, length)], words[:count], True)
        return Piece([(u.start, u.length)], words, False)
