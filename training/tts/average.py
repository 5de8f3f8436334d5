"""The moving average of weights in training: what is scored and saved in place of weights that still jump.

Contract: the weights stay the optimiser's own. `worn` puts the mean in their place for a while; `settle` for good, when
they are trained no further, so that whoever learns from them afterwards learns from what is saved.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager

import torch
from torch import nn


class Average:
    """Of `weights`, at most `share` of the mean kept a step. Of no weights: nothing happens."""

    def __init__(self, weights: Iterable[nn.Parameter] = (), share: float = 0.0) -> None:
        self._weights = [p.detach() for p in weights]
        self._means = [p.clone() for p in self._weights]
        self._share = share

    def add(self, done: int) -> None:
        """The weights after a step, with `done` steps before it."""
        if self._weights:
            # The mean of few steps is the steps themselves: it must not hold on to where they began.
            kept = min(self._share, (1 + done) / (10 + done))
            torch._foreach_lerp_(self._means, self._weights, 1 - kept)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]

    @contextmanager
    def worn(self) -> Generator[None]:
        """The mean in the weights' place."""
        own = [p.clone() for p in self._weights]
        self.settle()
        try:
            yield
        finally:
            for p, value in zip(self._weights, own, strict=True):
                p.copy_(value)

    def settle(self) -> None:
        """The weights become their mean."""
        for p, mean in zip(self._weights, self._means, strict=True):
            p.copy_(mean)
