"""The words that finals of the model should know how to spell (engines/lexicon.py)."""

from collections.abc import Mapping

LEAST = 2
"""Occurrences of a word in text and transcripts; rarer ones are misspelt, foreign, or both."""


def lexicon(counts: Mapping[str, int]) -> list[str]:
    """The words of `counts` that occur often enough, sorted."""
    return sorted(word for word, count in counts.items() if count >= LEAST and word.replace("'", "").isalpha())
