"""How many of a final's words were committed well before it, and how many committed words a final took back."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from streaming.events import bare

EARLY_SECONDS: Final = 0.5
"""Seconds before its final from which a committed word counts as early."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Words of finals, how many of them were committed early; committed words, and how many were taken back."""

    words: int = 0
    early: int = 0
    committed: int = 0
    retracted: int = 0

    def __add__(self, other: "Committed") -> "Committed":
        return Committed(
            self.words + other.words,
            self.early + other.early,
            self.committed + other.committed,
            self.retracted + other.retracted,
        )

    @property
    def early_share(self) -> float:
        """The share of the finals' words that were committed early."""
        return self.early / max(self.words, 1)

    @property
    def retracted_share(self) -> float:
        """The share of the committed words that were taken back."""
        return self.retracted / max(self.committed, 1)


class Commits:
    """Counts along one session. Its times are those of whichever clock the caller reads: that of the audio tells what
    the rule does, that of the wall what a client sees."""

    def __init__(self) -> None:
        self.found = Committed()
        self._open: list[tuple[str, float]] = []
        """The words that were committed since the last final, each with its time."""

    def told(self, texts: Sequence[str], now: float, *, final: bool) -> None:
        """Count a transcript that came at ``now``. ``texts`` are its committed words, which are all of a final's: one
        counts as early where a word that was committed early enough stands in its place."""
        words = [bare(text) for text in texts]
        if not final:
            self._open += [(word, now) for word in words[len(self._open) :]]
            return
        matcher = SequenceMatcher(None, [word for word, _ in self._open], words, autojunk=False)
        kept = [self._open[block.a + i][1] for block in matcher.get_matching_blocks() for i in range(block.size)]
        early = sum(now - then >= EARLY_SECONDS for then in kept)
        self.found += Committed(len(words), early, len(self._open), len(self._open) - len(kept))
        self._open.clear()
