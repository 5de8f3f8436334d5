"""The log of a training run: sums since its last line, and that line.

Contract: sums stay on the device until a line is due; only `means` waits for it.
"""

from collections.abc import Sequence

import torch

REPORT = 100  # steps between two lines
_NAMES = ("ce", "acc", "views", "ctc", "inner", "norm")
_DIGITS = (3, 3, 3, 3, 3, 2)


class Log:
    """Sums since the last line of the log."""

    def __init__(self, device: torch.device, began: float) -> None:
        self.total = torch.zeros(len(_NAMES), device=device)
        self.heard = self.waited = 0.0  # hours of speech, seconds for plans
        self.steps = 0
        self.began = began

    def add(self, report: torch.Tensor, heard: float) -> None:
        """A step: its measures, and the hours that it heard."""
        self.total += report
        self.heard += heard
        self.steps += 1

    def means(self) -> list[float]:
        """Of every measure, over the steps since the last line."""
        means: list[float] = (self.total / max(self.steps, 1)).tolist()  # pyright: ignore[reportUnknownMemberType]
        return means

    def line(self, means: Sequence[float], now: float, rate: float, heard: float) -> str:
        """What the log says; `heard`: hours since the run began."""
        elapsed = now - self.began
        measured = zip(_NAMES, means, _DIGITS, strict=True)
        return (
            f"{' '.join(f'{name} {mean:.{digits}f}' for name, mean, digits in measured)} rate {rate:.3f} | "
            f"{1000 * elapsed / max(self.steps, 1):.1f} ms/step, waited {self.waited:.1f} s, "
            f"{heard:.0f} h heard, {self.heard * 3600 / elapsed:.0f} x real time"
        )

    def clear(self) -> None:
        """A line was due. The next one begins when the caller sets `began`."""
        self.total.zero_()
        self.heard = self.waited = 0.0
        self.steps = 0
