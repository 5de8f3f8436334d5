"""The record of a training run: how far it has come, its curves and its scores; and the lines of its log.

Contract: what `state` gives makes the same record again, so that a run can go on from it; `write` leaves run.json, for
people and for whoever must know which clips were held out. The log's sums stay on the device until a line is due; only
`means` waits for it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from training.asr.evaluate import Score

REPORT = 100  # steps between two lines
_NAMES = ("ce", "acc", "views", "ctc", "inner", "norm")
_DIGITS = (3, 3, 3, 3, 3, 2)


@dataclass(slots=True)
class Record:
    """step: steps done; heard: hours of speech; spent: seconds; history: a row a line of the log; scores: one an
    evaluation."""

    step: int = 0
    history: list[list[float]] = field(default_factory=list[list[float]])
    scores: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    heard: float = 0.0
    spent: float = 0.0

    def state(self) -> dict[str, Any]:
        """Field by field."""
        return {name: getattr(self, name) for name in self.__slots__}

    def take(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, which may hold more."""
        for name in self.__slots__:
            setattr(self, name, state[name])

    def evaluated(self, clips: int, found: Mapping[str, Score], raw: Mapping[str, Score] | None) -> dict[str, Any]:
        """Add the row of an evaluation on at most `clips` of a set, word errors in percent; `raw`: of the weights
        themselves, where `found` is of their average."""
        row: dict[str, Any] = {
            "step": self.step,
            "seconds": round(self.spent, 1),
            "hours": round(self.heard, 1),
            "clips": clips,
        }
        row["wer"] = {k: round(100 * s.rate, 2) for k, s in found.items()}
        row["ctc_wer"] = {k: round(100 * s.ctc_rate, 2) for k, s in found.items()}
        if raw is not None:
            row["wer_without_average"] = {k: round(100 * s.rate, 2) for k, s in raw.items()}
        self.scores.append(row)
        return row

    def write(
        self, out: Path, config: Mapping[str, Any], hours: Mapping[str, float], dev: Sequence[str], *, started: bool
    ) -> None:
        """run.json in `out`; `hours`: of the pool, by source; `dev`: files of the clips held out;
        `started`: from weights."""
        (out / "run.json").write_text(
            json.dumps(
                {
                    "config": config,
                    "history": self.history,
                    "scores": self.scores,
                    "hours": hours,
                    "heard": self.heard,
                    "steps": self.step,
                    "started_from": started,
                    "dev": dev,
                },
                indent=1,
            )
        )


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
