"""The prefix of a segment: the rows of its sequence of the KV cache that stay, head and closed windows.

Contract: the head is in the cache already, once a session. Each window is evaluated in a call of its own, so wherever
another hearing stood in its place, or the context had to be taken back, the same calls put the same bits there again.
Windows are kept for that only where either may happen. Blocking; one thread at a time.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engines.batching import Owner, Urgency
from engines.gguf import Rows
from streaming.bias import KeytermBias
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Head:
    """The prompt before the audio: its rows [n, width], evaluated once a session, and the context in it."""

    rows: Floats
    keyterms: tuple[str, ...]
    bias: KeytermBias


class Prefix:
    """Head and closed windows of one segment, and whatever is evaluated behind them."""

    def __init__(self, model: "AsrModel", sequence: int, head: Head, owner: Owner, work: Work) -> None:
        self._model, self._sequence = model, sequence
        self._owner, self._work = owner, work
        self.head = head
        self.rows = len(head.rows)
        """Rows that stay: the position of what comes after them."""
        self._closed: list[Floats] = []
        """Embeddings of the closed windows, kept only where they may have to be put into the cache again."""
        self._displaced = False
        """Whether another hearing's rows stand where those of the closed windows belong."""

    def append(self, embeddings: Floats, urgency: Urgency) -> None:
        """Put a closed window's embeddings [rows, width] into the cache, which must hold those before it."""
        self.evaluate(embeddings, self.rows, len(embeddings), urgency)
        if self.head.keyterms or self._model.doubts:
            self._closed.append(embeddings)
        self.rows += len(embeddings)
        self._work.window_rows += len(embeddings)

    def displace(self) -> None:
        """Another hearing takes the place of the closed windows, behind the same head."""
        self._displaced = bool(self._closed)

    def restore(self, urgency: Urgency) -> None:
        """Have the closed windows in the cache, whoever stood there since."""
        if self._displaced:
            self._replay(urgency)

    @contextmanager
    def without_context(self, urgency: Urgency) -> Generator[None]:
        """The context is taken out of the cache, and put back afterwards."""
        head = self.head
        self.head = Head(self._model.embed(self._model.prompt.head(())), (), KeytermBias(()))
        self._replay(urgency)
        yield  # what fails here ends the session
        self.head = head
        self._replay(urgency)

    def evaluate(self, rows: Floats, start: int, logits_from: int, urgency: Urgency) -> Floats:
        """Evaluate ``rows`` [n, width] from position ``start`` on: logits [n - logits_from, vocabulary]."""
        began = time.perf_counter()
        logits = self._model.evaluate(Rows(self._sequence, start, rows, logits_from), self._owner, urgency)
        self._work.prefill_seconds += time.perf_counter() - began
        return logits

    def _replay(self, urgency: Urgency) -> None:
        """Fill the cache with the head and the closed windows again, in the partition they came in: the same bits."""
        self._displaced = False
        self.evaluate(self.head.rows, 0, len(self.head.rows), urgency)
        self.rows = len(self.head.rows)
        for embeddings in self._closed:
            self.evaluate(embeddings, self.rows, len(embeddings), urgency)
            self.rows += len(embeddings)
