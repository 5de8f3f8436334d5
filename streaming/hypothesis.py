"""A hypothesis: what the model heard in a clip, whole and token by token.

Contract: values only; made by streaming/recognizer.py, compared by streaming/hearings.py, timed by
streaming/transcripts.py.
"""

from dataclasses import dataclass
from typing import Final

from streaming.prompt import Answer


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What the model heard. ``tokens`` are the whole answer, language included where it was not forced."""

    tokens: tuple[int, ...]
    probabilities: tuple[float, ...]
    answer: Answer
    score: float | None = None
    """Of a final that was chosen among several texts: how good it is beside those of other hearings."""

    @property
    def body_probabilities(self) -> tuple[float, ...]:
        """Probabilities of the text tokens."""
        return self.probabilities[len(self.probabilities) - len(self.answer.body) :]


EMPTY: Final = Hypothesis((), (), Answer(None, (), ""))
