"""Word error rate: lower case, no punctuation, numbers as they come."""

import re
from collections.abc import Iterable, Sequence


def normalize(text: str) -> list[str]:
    """The words that are compared: lower case, apostrophes kept, everything else that is no letter or digit dropped."""
    return re.sub(r"[^a-z0-9' ]+", " ", text.lower().replace("’", "'")).split()


def distance(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Fewest substitutions, insertions and deletions from one to the other (Levenshtein)."""
    row = list(range(len(hypothesis) + 1))
    for i, word in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(hypothesis, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def rate(pairs: Iterable[tuple[str, str]]) -> float:
    """Errors of all (reference, hypothesis) pairs over the words of all references; 0 for no words."""
    errors = words = 0
    for reference, hypothesis in pairs:
        expected = normalize(reference)
        errors += distance(expected, normalize(hypothesis))
        words += len(expected)
    return errors / max(words, 1)
