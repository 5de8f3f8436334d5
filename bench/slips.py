"""Slips of speech: words skipped or said twice, told apart from an ear's mistakes by asking two ears.

An ear that mishears drops words that were said. What counts here is only what both ears miss, or hear twice, at the
same place: two words in a row, or a single long one. The same count on recordings of a person says how often this
method accuses speech that is right.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.wer import alignment, normalize

LONG_WORD: Final = 6
"""Letters from which both ears' missing a single word counts."""
SPLIT_WORD: Final = 5
"""Letters from which a misheard word may come out as three."""
NEAR: Final = 1
"""Words by which the ears may disagree about where something was inserted."""

Pairs = Sequence[tuple[int | None, int | None]]


@dataclass(frozen=True, slots=True)
class Slips:
    """Words of the reference that are missing, and places (a word's number) before which words were added."""

    skipped: tuple[int, ...]
    added: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.skipped or self.added)

    def told(self, reference: str) -> str:
        """For people: "skipped: red door; added before: opened"."""
        words = normalize(reference)
        parts = list[str]()
        if self.skipped:
            parts.append("skipped: " + " ".join(words[i] for i in self.skipped))
        if self.added:
            parts.append("added before: " + ", ".join([*words, "the end"][i] for i in self.added))
        return "; ".join(parts)


def slips(reference: str, one: str, other: str) -> Slips:
    """What both ears' texts lack of ``reference``, or have more than it."""
    words = normalize(reference)
    ears = [normalize(one), normalize(other)]
    pairs = [alignment(words, ear) for ear in ears]
    lost = [{i for i, j in pair if i is not None and j is None} for pair in pairs]
    missing = lost[0] & lost[1]
    skipped = [i for i in sorted(missing) if {i - 1, i + 1} & missing or len(words[i]) >= LONG_WORD]
    first, second = (_added(words, ear, pair) for ear, pair in zip(ears, pairs, strict=True))
    added = sorted(i for i in first if any(abs(i - k) <= NEAR for k in second))
    return Slips(tuple(skipped), tuple(added))


def _added(words: Sequence[str], heard: Sequence[str], pairs: Pairs) -> set[int]:
    """Places where an ear has two words more, or one that equals its neighbour (a word said twice).

    Two more beside a misheard long word are that word in pieces ("Fatima", "for team a") and do not count.
    """
    places = set[int]()
    start = 0
    while start < len(pairs):
        if pairs[start][0] is not None:
            start += 1
            continue
        end = start
        while end < len(pairs) and pairs[end][0] is None:
            end += 1
        run = [j for _, j in pairs[start:end] if j is not None]
        around = [*pairs[max(start - 1, 0) : start], *pairs[end : end + 1]]
        pieces = any(
            i is not None and j is not None and words[i] != heard[j] and len(words[i]) >= SPLIT_WORD for i, j in around
        )
        twice = any(heard[k] == heard[n] for k in run for n in (k - 1, k + 1) if 0 <= n < len(heard))
        if twice or len(run) >= (3 if pieces else 2):
            places.add(sum(i is not None for i, _ in pairs[:start]))
        start = end
    return places
