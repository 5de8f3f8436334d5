"""What tells how probable the texts of a clip are without its sound (streaming/language_model.py), each read once.

All hearings of a clip share what was read: the choice among the first one's texts reads some of those that the others
come upon, and that all of them weigh in the end. Blocking; one thread at a time.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engines.batching import Owner, Urgency
from streaming.bias import KeytermBias
from streaming.doubt import Read
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel

Text = tuple[int, ...]


class Reading:
    """The texts of one clip, by their tokens, and the logarithms of their probabilities without sound."""

    def __init__(
        self, model: "AsrModel", language: str | None, owner: Owner, start: Callable[[Sequence[int]], int]
    ) -> None:
        """``language``: forced unless None. ``start``: where the text begins in an answer's tokens."""
        self._model, self._language, self._owner, self._start = model, language, owner, start
        self._known: dict[Text, float] = {}

    def forget(self) -> None:
        """Another clip, or the same one with another context."""
        self._known.clear()

    def reader(self, bias: KeytermBias, urgency: Urgency | None, work: Work) -> Read | None:
        """What reads texts, in a job of its own or, without ``urgency``, in the lane that it is called in; None where
        the model cannot. ``work`` counts what had to be read."""
        model, lane = self._model.language_model, self._model.lane
        if model is None:
            return None

        def ask(texts: Sequence[Text]) -> None:
            began, rows = time.perf_counter(), model.rows
            logs = model.log_probabilities(texts, self._start(texts[0]), self._language, bias)
            self._known.update(zip(texts, logs.tolist(), strict=True))
            work.texts_read += len(texts)
            work.read_rows += model.rows - rows
            work.read_seconds += time.perf_counter() - began

        def read(texts: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
            asked = [tuple(text) for text in texts]
            new = [text for text in dict.fromkeys(asked) if text not in self._known]
            if new:
                if urgency is None:
                    ask(new)
                else:
                    lane.call(lambda: ask(new), owner=self._owner, urgency=urgency)
            return np.array([self._known[text] for text in asked])

        return read
