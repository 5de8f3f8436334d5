"""Second thoughts of a final: where it was least sure, what it might have said instead, which text is the likeliest.

Greedy decoding never goes back, so one unlucky token bends all that follows. A final of a model whose tokens cost
little therefore returns to the tokens it was least sure of, takes the runner-up there, decodes on from it, and keeps
the text with the highest sum of log-probabilities: most of what a beam gives, in one sequence of the KV cache, by calls
of one row. From the last doubt to the first, so that the cache before a doubt is still that of the first text.

The numbers were chosen on 326 clips held out of training, none of the test split: word error rate 22.7 % → 20.3 %.
Doubting the changed text once more made it worse.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.manifest import Decoder

AFFORDABLE: Final = 50_000_000
"""Weights in a decoder's layers up to which its finals have second thoughts: a token then takes about a millisecond."""
DOUBTS: Final = 6
"""Most runner-ups that are followed in one final."""
SURE: Final = 0.6
"""A token at least this probable is not doubted."""
PER_TOKEN: Final = 0.3
"""Added to the sum for every token: sums alone favour texts that leave something out."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One token of a text, its end included: natural logarithms of its probability and of the runner-up's."""

    log: float
    runner_up: int
    runner_up_log: float


@dataclass(slots=True)
class Draft:
    """A text being decoded. ``choices`` is kept where asked for, one a token and one for the end."""

    tokens: list[int] = field(default_factory=list[int])
    probabilities: list[float] = field(default_factory=list[float])
    choices: list[Choice] = field(default_factory=list[Choice])
    ended: bool = False
    """The model ended it; not a limit, not a loop."""
    looped: bool = False
    """A loop was cut out of it."""

    @property
    def total(self) -> float:
        """What texts of the same audio are compared by."""
        return sum(c.log for c in self.choices) + PER_TOKEN * len(self.tokens)

    def until(self, position: int) -> "Draft":
        """The first ``position`` tokens, and the runner-up's choice after them; its token is still to be added."""
        taken = self.choices[position]
        instead = Choice(taken.runner_up_log, 0, 0.0)
        return Draft(self.tokens[:position], self.probabilities[:position], [*self.choices[:position], instead])


def affordable(decoder: Decoder) -> bool:
    """Whether a model's tokens cost so little that a final may decode some twice. By its dimensions, not its bytes:
    a model hears the same in every precision. A layer has about 12 · width² weights."""
    return 12 * decoder.layers * decoder.width**2 <= AFFORDABLE


def inverse(logits: npt.NDArray[np.float32], token: int) -> np.float32:
    """The reciprocal of the softmax probability of ``token`` from ``logits`` [vocabulary]; banned ones are -inf."""
    top = float(logits[token])
    return np.exp(logits - top).sum() if np.isfinite(top) else np.float32(np.inf)


def choose(logits: npt.NDArray[np.float32], token: int, reciprocal: np.float32 | None = None) -> Choice:
    """The choice of ``token`` from ``logits`` [vocabulary]; banned ones are -inf.

    ``reciprocal``: :func:`inverse` of both, where the caller has it.
    """
    top = float(logits[token])
    whole = top + float(np.log(inverse(logits, token) if reciprocal is None else reciprocal))
    others = logits.copy()
    others[token] = -np.inf
    second = int(others.argmax())
    return Choice(top - whole, second, float(others[second]) - whole)


def doubts(choices: Sequence[Choice], start: int) -> list[int]:
    """Positions from ``start`` on where a runner-up is to be followed: the closest calls, the last one first."""
    unsure = [i for i in range(start, len(choices)) if np.exp(choices[i].log) < SURE]
    unsure.sort(key=lambda i: choices[i].log - choices[i].runner_up_log)
    return sorted(unsure[:DOUBTS], reverse=True)
