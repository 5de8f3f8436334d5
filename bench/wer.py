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


def alignment(reference: Sequence[str], hypothesis: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Pairs of places of one cheapest way from one to the other; None on the left is an insertion, on the right a
    deletion."""
    costs = [list(range(len(hypothesis) + 1))]
    for i, word in enumerate(reference, 1):
        above = costs[-1]
        row = [i]
        for j, other in enumerate(hypothesis, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != other)))
        costs.append(row)
    i, j, pairs = len(reference), len(hypothesis), list[tuple[int | None, int | None]]()
    while i or j:
        here = costs[i][j]
        if i and j and here == costs[i - 1][j - 1] + (reference[i - 1] != hypothesis[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and here == costs[i - 1][j] + 1:
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    return pairs[::-1]
