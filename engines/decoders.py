"""The decoders of one model, as one: a context computes one call at a time, so a lane of several threads has several.

Each is a :class:`engines.gguf.Decoder` with a cache of its own, and all use the weights of the first. A session's
sequence stays in the decoder where it was taken. With one decoder this is that decoder in a lane.
"""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engines.gguf import LEAST_BYTES, Decoder, Rows
from engines.lane import Steps, alone, call
from engines.scheduling import Place, Priority

Floats = npt.NDArray[np.float32]


class Decoders:
    """``count`` decoders that have ``sequences`` sequences together, of which a session takes one."""

    def __init__(
        self, path: Path, *, count: int, sequences: int, rows: int, threads: int, card: bool, flat: bool
    ) -> None:
        """``flat`` is the places'. The other arguments and the errors are those of ``Decoder``."""
        self._decoders: list[Decoder] = []
        with ExitStack() as opened:  # of a load that fails nothing stays
            for _ in range(count):
                # A new sequence is one of the decoder that has the fewest taken: none ever holds more than its share.
                decoder = Decoder(
                    path,
                    sequences=-(-sequences // count),
                    rows=rows,
                    threads=threads,
                    card=card,
                    least_bytes=LEAST_BYTES // count,
                    beside=self._decoders[0] if self._decoders else None,
                )
                opened.callback(decoder.close)
                self._decoders.append(decoder)
            self._opened = opened.pop_all()
        least = Priority.INTERIM if card else Priority.EARLY
        self.places = [Place(flat=flat, least=least) for _ in range(count)]
        self._lock, self._taken = threading.Lock(), [0] * count
        """How many sequences of each are taken or about to be."""
        self.rows, self.width = self._decoders[0].rows, self._decoders[0].width

    def close(self) -> None:
        """Free the decoders. Idempotent. The lane must have ended."""
        self._opened.close()

    @property
    def taken(self) -> int:
        """How many sequences are in use."""
        return sum(decoder.taken for decoder in self._decoders)

    def _count(self, which: int, more: int) -> None:
        with self._lock:
            self._taken[which] += more

    def embed(self, tokens: Sequence[int]) -> Floats:
        """Give the rows of text tokens: float32 [n, width]. Thread-safe."""
        return self._decoders[0].embed(tokens)

    def acquire(self) -> Steps[int]:
        """Take an empty sequence, of the decoder that has the fewest taken."""
        count = len(self._decoders)
        with self._lock:
            which = min(range(count), key=self._taken.__getitem__)
            self._taken[which] += 1
        try:
            return (yield from alone(self._decoders[which].acquire, self.places[which])) * count + which
        except BaseException:
            self._count(which, -1)
            raise

    def release(self, sequence: int) -> Steps[None]:
        """Give a sequence back."""
        number, which = divmod(sequence, len(self._decoders))
        yield from alone(lambda: self._decoders[which].release(number), self.places[which])
        self._count(which, -1)

    def evaluate(self, rows: Rows) -> Steps[Floats]:
        """Give the logits of ``rows``, float32 [n - logits_from, vocabulary]. Single rows of many sessions share a
        call."""
        number, which = divmod(rows.sequence, len(self._decoders))
        key = "step" if len(rows.rows) == 1 else None
        mine = replace(rows, sequence=number)
        return (yield from call(self._decoders[which].evaluate, mine, key=key, place=self.places[which]))
