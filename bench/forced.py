"""``hearsay serve`` whose hearing model says so many tokens a second of audio, whatever its weights say.

Random weights say nothing and never end a text: of a model that has them (``make bench-official``) every text would
grow to its limit, and its sessions would be late however fast it is. Here all model calls are made as ever, with the
rows and in the order that they have; only which logit is the greatest is set, so that a text grows with its audio and
ends.

usage: python -m bench.forced TOKENS serve --asr-model DIR …      (hearsay bench sessions --force-tokens does it)
"""

import runpy
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, cast

import numpy as np
import numpy.typing as npt

from engines.gguf import Rows
from engines.lane import Steps
from streaming import model, segment
from streaming.engine import Engine
from streaming.segment import Segment

Floats = npt.NDArray[np.float32]

FAR: Final = 20.0
"""By how much the forced logit is above the others."""
LONGEST: Final = 4096
"""Tokens that are drawn; a text that were longer would begin anew with the first."""


@lru_cache
def said(engine: Engine) -> Sequence[int]:
    """The tokens of every text. Each begins a word, so that any may follow any other."""
    words = np.flatnonzero(engine.prompt.after_word(None))
    words = words[~np.isin(words, list(engine.prompt.stop))]
    return np.random.default_rng(0).choice(words, LONGEST).tolist()


class _Saying:
    """An engine that is told where the text begins in the cache and how long it gets."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.begin: int | None = None
        """The position of the text's first row; None where no text is read."""
        self.length = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def evaluate(self, rows: Rows) -> Steps[Floats]:
        """As ``Engine.evaluate``, with the greatest logit at the forced token."""
        logits = yield from self._engine.evaluate(rows)
        if self.begin is not None:
            first, text = rows.start + rows.logits_from - self.begin + 1, said(self._engine)
            for number, row in enumerate(logits, first):
                row[text[number % LONGEST] if number < self.length else self._engine.prompt.end] = row.max() + FAR
        return logits


class Forced(Segment):
    """A segment whose texts have ``tokens`` a second of its audio, at least one."""

    tokens: ClassVar[float] = 3.4
    """Of ordinary speech: two and a half words a second."""

    def __init__(self, engine: Engine, *arguments: Any, **named: Any) -> None:
        self._saying = _Saying(engine)
        super().__init__(cast(Any, self._saying), *arguments, **named)

    def advance(self) -> Steps[None]:
        self._saying.begin = None
        yield from super().advance()

    def _read(self, audio: Floats, text: Sequence[int], known: int) -> Steps[tuple[Floats, int]]:
        suffix = self._engine.prompt.suffix(self._language)
        self._saying.begin = self._rows + len(audio) + len(suffix)
        self._saying.length = max(1, int(self.length / self._engine.sample_rate * self.tokens))
        return (yield from super()._read(audio, text, known))


def force(tokens: float) -> None:
    """Let every session of this process say so many tokens a second."""
    Forced.tokens = tokens
    for module in (segment, model):
        module.Segment = Forced  # pyright: ignore[reportAttributeAccessIssue]


if __name__ == "__main__":
    force(float(sys.argv.pop(1)))
    sys.argv[0] = "hearsay"
    runpy.run_module("commands.main", run_name="__main__")  # by its name, as bench/served.py starts every daemon
