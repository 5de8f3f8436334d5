"""Slips of speech: words skipped or said twice, told apart from an ear's mistakes by asking two ears.

An ear that mishears drops words that were said. What counts here is only what both ears miss, or hear twice, at the
same place: two words in a row, or one of at least four letters. The same count on recordings of a person says how
often this method accuses speech that is right. docs/evaluation.md says how much it finds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from bench.wer import alignment, read

LONG_WORD: Final = 4
"""How many letters a single word has at least for it to count that both models miss it."""
SPLIT_WORD: Final = 5
"""How many letters a word has at least that may be misheard as three words."""
NEAR: Final = 1
"""Words by which the ears may disagree about where something is missing or was added."""

Pairs = Sequence[tuple[int | None, int | None]]


@dataclass(frozen=True, slots=True)
class Slips:
    """The differences from a reference: the numbers of its words that are missing, and of those before which words were
    added."""

    skipped: tuple[int, ...]
    added: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.skipped or self.added)

    def told(self, reference: str) -> str:
        """For people: "skipped: red door; added before: opened"."""
        words = read(reference)
        parts = list[str]()
        if self.skipped:
            parts.append("skipped: " + " ".join(words[i] for i in self.skipped))
        if self.added:
            parts.append("added before: " + ", ".join([*words, "the end"][i] for i in self.added))
        return "; ".join(parts)


def slips(reference: str, one: str, other: str) -> Slips:
    """What both ears' texts lack of ``reference``, or have more than it; numbers as they are said."""
    words = read(reference)
    (lost, added), (others_lost, others_added) = (_compared(words, read(text)) for text in (one, other))
    skipped = _skipped(words, _near(lost, others_lost))
    if not _skipped(words, _near(others_lost, lost)):
        skipped = ()
    return Slips(skipped, tuple(sorted(_near(added, others_added))))


def _compared(words: Sequence[str], heard: Sequence[str]) -> tuple[set[int], set[int]]:
    """Places of ``words`` that an ear misses, and those before which it has more."""
    expected, found = _joined(words, heard), _joined(heard, words)
    starts = [0, *accumulate(len(parts) for parts in expected)]
    said, ear = (["".join(parts) for parts in side] for side in (expected, found))
    pairs = alignment(said, ear)
    lost = {k for i, j in pairs if i is not None and j is None for k in range(starts[i], starts[i + 1])}
    return lost, {starts[i] for i in _added(said, ear, pairs)}


def _joined(words: Sequence[str], others: Sequence[str]) -> list[tuple[str, ...]]:
    """``words``, two in a row together where ``others`` has them as one ("back yard", "backyard")."""
    known, joined, place = set(others), list[tuple[str, ...]](), 0
    while place < len(words):
        pair = tuple(words[place : place + 2])
        size = 2 if len(pair) == 2 and "".join(pair) in known else 1
        joined.append(pair[:size])
        place += size
    return joined


def _near(places: set[int], others: set[int]) -> set[int]:
    """The members of ``places`` that have one of ``others`` near."""
    return {i for i in places if any(abs(i - k) <= NEAR for k in others)}


def _skipped(words: Sequence[str], missing: set[int]) -> tuple[int, ...]:
    """The missing words that cannot just have been slurred, as they are long or stand in a row."""
    return tuple(i for i in sorted(missing) if {i - 1, i + 1} & missing or len(words[i]) >= LONG_WORD)


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
