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
NEAR: Final = 1
"""Words by which the ears may disagree about where something was inserted."""


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
    first, second = (_added(ear, pair) for ear, pair in zip(ears, pairs, strict=True))
    added = sorted(i for i in first if any(abs(i - k) <= NEAR for k in second))
    return Slips(tuple(skipped), tuple(added))


def _added(heard: Sequence[str], pairs: Sequence[tuple[int | None, int | None]]) -> set[int]:
    """Places where an ear has two words more, or one that equals its neighbour (a word said twice)."""
    places, run, at = set[int](), list[int](), 0
    for i, j in [*pairs, (len(pairs), None)]:
        if i is None and j is not None:
            run.append(j)
            continue
        twice = any(heard[k] == heard[n] for k in run for n in (k - 1, k + 1) if 0 <= n < len(heard))
        if len(run) >= 2 or (run and twice):
            places.add(at)
        run = []
        if i is not None:
            at = i + 1
    return places
