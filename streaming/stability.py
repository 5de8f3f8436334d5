"""Which part of a growing hypothesis is final: committed / unstable.

LocalAgreement on words: a word is committed when it, and all words before it, stood in the last :data:`AGREEMENT`
hypotheses, and it lies far enough from the end of the audio that more sound is unlikely to change it. Committed words
are append-only while the segment is open: the next hypotheses are decoded after them. Only the segment's final, which
is decoded without them, may take some back.
"""

from collections.abc import Sequence
from typing import Final

AGREEMENT: Final = 2
"""Successive hypotheses that must agree (Macháček et al. 2023, LocalAgreement-2)."""

HOLD_BACK: Final = 2
"""Last words of a hypothesis that are never committed: the model is still hearing them."""

MIN_EVIDENCE: Final = 2.0
"""Seconds of segment audio before anything is committed (design: forced prefixes from little evidence never heal)."""


class Stability:
    """The committed prefix of one segment, in tokens and words."""

    def __init__(self) -> None:
        self.tokens: tuple[int, ...] = ()
        self.words: tuple[str, ...] = ()
        self._previous: list[tuple[tuple[int, ...], ...]] = []

    def update(self, words: Sequence[tuple[str, tuple[int, ...]]], seconds: float) -> None:
        """Take the words (text, tokens) of a new hypothesis that begins with the committed tokens."""
        tokens = tuple(w[1] for w in words)
        agreed = len(tokens) - HOLD_BACK
        for earlier in self._previous:
            common = 0
            while common < min(agreed, len(earlier)) and tokens[common] == earlier[common]:
                common += 1
            agreed = common
        enough = len(self._previous) >= AGREEMENT - 1 and seconds >= MIN_EVIDENCE
        if enough and agreed > len(self.words):
            self.words = tuple(w[0] for w in words[:agreed])
            self.tokens = tuple(t for word in tokens[:agreed] for t in word)
        self._previous = [*self._previous, tokens][-(AGREEMENT - 1) :]

    def retracted(self, final_words: Sequence[str]) -> int:
        """Committed words that ``final_words`` takes back: all from the first that differs."""
        common = 0
        while common < min(len(self.words), len(final_words)) and self.words[common] == final_words[common]:
            common += 1
        return len(self.words) - common
