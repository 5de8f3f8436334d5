"""Word error rate by jiwer, on words in lower case without punctuation; `rate` takes numbers as they come."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import jiwer

from codec.text.stream import spoken_text
from engines.manifest import TextRules

NO_WORD: Final = "-"
"""Stands for a word of which normalisation leaves nothing, so that places keep their numbers."""


def normalize(text: str) -> list[str]:
    """The words that are compared: lower case, apostrophes kept, everything else that is no letter or digit dropped."""
    return re.sub(r"[^a-z0-9' ]+", " ", text.lower().replace("’", "'")).split()


def read(text: str) -> list[str]:
    """The same words, numbers, signs and abbreviations as they are said: some write "23" where others write it out."""
    return normalize(spoken_text(text.lower() if text.isupper() else text, TextRules(), english=True))


def distance(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """The fewest substitutions, insertions and deletions of words that lead from one to the other."""
    found = _compared(reference, hypothesis)
    return found.substitutions + found.insertions + found.deletions


def character_distance(reference: str, hypothesis: str) -> int:
    """The edit distance in characters, spaces included."""
    found = jiwer.process_characters([reference], [hypothesis])
    return found.substitutions + found.insertions + found.deletions


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
    pairs = list[tuple[int | None, int | None]]()
    for chunk in _compared(reference, hypothesis).alignments[0]:
        left, right = (
            range(chunk.ref_start_idx, chunk.ref_end_idx),
            range(chunk.hyp_start_idx, chunk.hyp_end_idx),
        )
        match chunk.type:
            case "delete":
                pairs += [(i, None) for i in left]
            case "insert":
                pairs += [(None, j) for j in right]
            case _:
                pairs += zip(left, right, strict=True)
    return pairs


def _compared(reference: Sequence[str], hypothesis: Sequence[str]) -> jiwer.WordOutput:
    one, other = ([word or NO_WORD for word in words] for words in (reference, hypothesis))
    return jiwer.process_words([" ".join(one)], [" ".join(other)])
