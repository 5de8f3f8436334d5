"""Finding a decoder that goes round in circles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_PERIOD: Final = 12
MIN_TURNS: Final = 4
MIN_TOKENS: Final = 8
"""A loop is at least four turns and eight tokens: "no no no no" is speech, not a loop."""


@dataclass(frozen=True, slots=True)
class Period:
    """A block of ``length`` tokens, repeated to the end, whose first turn starts at ``start``."""

    start: int
    length: int


def loop_period(tokens: Sequence[int]) -> Period | None:
    """The shortest block that the end of ``tokens`` repeats often enough to be a loop, or None."""
    for length in range(1, MAX_PERIOD + 1):
        turns = max(MIN_TURNS, -(-MIN_TOKENS // length))
        span = length * turns
        if span > len(tokens):
            continue
        tail = tokens[-span:]
        if all(tail[i] == tail[i + length] for i in range(span - length)):
            start = len(tokens) - span
            while start > 0 and tokens[start - 1] == tokens[start - 1 + length]:
                start -= 1
            return Period(start, length)
    return None
