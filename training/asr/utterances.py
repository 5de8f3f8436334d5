"""The utterances that a batch can be made of, and the pieces that are taken from them.

An utterance lies in the pool as (start, length); its cuts are samples at word boundaries, so that a row can hold a part
of it with the matching part of its text: truncated as a live stream is, or a span from its middle.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class Utterance:
    """start, length in samples of the pool; cuts: (sample, words before it), ascending."""

    start: int
    length: int
    text: str
    real: bool
    cuts: list[tuple[int, int]]


class Piece(NamedTuple):
    """What is taken from the pool for a stretch of a row. start, length: in samples; ends: nothing may follow in this
    row."""

    start: int
    length: int
    words: list[str]
    ends: bool


class Utterances:
    """A growing set, by source."""

    def __init__(self, rng: random.Random, span_share: float = 0.0) -> None:
        """span_share: of real utterances, how many give a span of theirs."""
        self._rng, self._span_share = rng, span_share
        self._groups: dict[str, list[Utterance]] = {}

    def __contains__(self, source: str) -> bool:
        """Whether there are any of this source."""
        return bool(self._groups.get(source))

    def add(self, source: str, utterances: Sequence[Utterance]) -> None:
        """Add utterances of one source."""
        group = self._groups.setdefault(source, [])
        group += utterances

    def draw(self, source: str) -> Utterance:
        """One of `source`, each as likely as the others."""
        return self._rng.choice(self._groups[source])

    def piece(self, source: str) -> Piece:
        """An utterance of `source`: whole, truncated, or a span of it."""
        rng = self._rng
        u = self.draw(source)
        words = u.text.split()
        if u.cuts and u.real:
            draw = rng.random()
            if draw < 0.1 and len(words) > 2:
                at, count = rng.choice(u.cuts)
                return Piece(u.start, min(at + rng.randint(0, 800), u.length), words[:count], True)
            if draw < 0.1 + self._span_share and len(words) > 4:
                edges = [(0, 0), *u.cuts, (u.length, len(words))]
                i = rng.randrange(len(edges) - 1)
                j = rng.randrange(i + 1, len(edges))
                if edges[j][1] - edges[i][1] >= 2:
                    low, high = edges[i], edges[j]
                    return Piece(u.start + low[0], high[0] - low[0], words[low[1] : high[1]], False)
        elif u.cuts and rng.random() < 0.2:
            at, count = rng.choice(u.cuts)
            length = min(max(at + rng.randint(-600, 900), 3000), u.length)
            return Piece(u.start, length, words[:count], True)
        return Piece(u.start, u.length, words, False)
