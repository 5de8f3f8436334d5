"""How far a training run has come: its clock, its log, its curves, and a state to go on from.

What stands in `out`: NAME.json (steps, history, scores and what the run says of itself) and state.pt. A run whose
folder has a state goes on from it, whatever it was given to begin from; its seconds count.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

STATE = "state.pt"


def rate_at(progress: float, step: int, peak: float, final: float, warmup: int, constant: float = 0.0) -> float:
    """Linear warm-up over `warmup` steps, then `peak` until `progress` reaches `constant`, then a cosine from there to
    `final` · `peak` as it goes to 1."""
    late = min(max((progress - constant) / (1 - constant), 0.0), 1.0)
    falling = final + (1 - final) * 0.5 * (1 + math.cos(math.pi * late))
    return peak * min(1.0, (step + 1) / max(warmup, 1)) * falling


class Progress:
    """count: steps done; history: a row a report, [step, seconds, measures …]; scores: one an evaluation."""

    def __init__(
        self,
        name: str,
        out: Path,
        measures: Sequence[str],
        device: torch.device,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``now``: the clock, in seconds, that the run's length and schedule follow."""
        out.mkdir(parents=True, exist_ok=True)
        self._name, self._out, self._measures, self._device, self._now = name, out, measures, device, now
        self._before = 0.0
        self._began = now()
        self.count = 0
        self.history: list[list[float]] = []
        self.scores: list[dict[str, Any]] = []

    @property
    def seconds(self) -> float:
        """Since the run began, those of runs that it goes on from included."""
        return self._now() - self._began

    def begin(self) -> None:
        """All is ready: what came before this moment is not counted."""
        self._began = self._now() - self._before

    def log(self, text: str) -> None:
        """A line on standard output."""
        print(f"[{self._name} {self.seconds:.0f} s] {text}", flush=True)

    def stepped(self) -> None:
        """A step is done."""
        self.count += 1
        if self._device.type == "cuda" and self.count % 25 == 0:
            torch.cuda.synchronize()  # the clock, not the queue, ends a run

    def report(self, what: str, measured: torch.Tensor) -> None:
        """A line of the log and a row of the history."""
        values: list[float] = measured.tolist()  # pyright: ignore[reportUnknownMemberType]
        seconds = self.seconds
        self.history.append([self.count, round(seconds, 1), *(round(v, 5) for v in values)])
        shown = " ".join(f"{name} {v:.3f}" for name, v in zip(self._measures, values, strict=True))
        self.log(f"{self.count} {what} {shown}")

    def save(self, state: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """state.pt, and NAME.json with what there is to say `about` the run."""
        own = {"steps": self.count, "seconds": self.seconds, "history": self.history, "scores": self.scores}
        told = {**about, **own, "measures": self._measures}
        (self._out / f"{self._name}.json").write_text(json.dumps(told, indent=1) + "\n")
        torch.save({**own, **state}, self._out / "state.part")
        (self._out / "state.part").rename(self._out / STATE)
        self.log(f"saved after {self.count} steps")

    def take(self) -> dict[str, Any] | None:
        """The state that a run before this left in `out`, if any; this one goes on from it."""
        path = self._out / STATE
        if not path.exists():
            return None
        state: dict[str, Any] = torch.load(path, map_location=self._device, weights_only=True)
        self.count, self.history, self.scores = state["steps"], state["history"], state["scores"]
        self._before = state["seconds"]
        self.begin()
        self.log(f"going on after {self.count} steps")
        return state
