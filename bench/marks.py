"""Casing and punctuation: F1 of sentence ends, commas and capitals, on words aligned with a cased text.

A mark counts where the word before it is aligned with the word before the same kind of mark; a word that was misheard
may carry it too, a word that is missing or too much may not.
"""

from collections.abc import Iterable
from typing import Final

from bench.wer import alignment, normalize

KINDS: Final = ("sentence ends", "commas", "capitals")

_CLOSING: Final = "\"'”’)]»"


def is_cased(text: str) -> bool:
    """Whether a transcript has capitals and ends like a sentence."""
    return text not in (text.lower(), text.upper()) and text.rstrip(_CLOSING + " ").endswith((".", "?", "!"))


def marked(text: str) -> tuple[list[str], dict[str, set[int]]]:
    """The words that are compared, and for each kind the places of those that carry it."""
    words, places = list[str](), {kind: set[int]() for kind in KINDS}
    for token in text.split():
        found = normalize(token)
        bare = token.rstrip(_CLOSING)
        if found and next((c for c in token if c.isalnum()), "").isupper():
            places["capitals"].add(len(words))
        words += found
        if words and bare.endswith((".", "?", "!", "…")):
            places["sentence ends"].add(len(words) - 1)
        elif words and bare.endswith(","):
            places["commas"].add(len(words) - 1)
    return words, places


def f1(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """F1 of each kind over (reference, heard) texts; 1 where neither has any."""
    right, wanted, given = ({kind: 0 for kind in KINDS} for _ in range(3))
    for reference, heard in pairs:
        words, expected = marked(reference)
        others, written = marked(heard)
        both = [(i, j) for i, j in alignment(words, others) if i is not None and j is not None]
        for kind in KINDS:
            right[kind] += sum(i in expected[kind] and j in written[kind] for i, j in both)
            wanted[kind] += len(expected[kind])
            given[kind] += len(written[kind])
    return {
        kind: 2 * right[kind] / (wanted[kind] + given[kind]) if wanted[kind] + given[kind] else 1.0 for kind in KINDS
    }
