"""What the runs of codec and talker have in common: a clock, a log, curves, and a state to go on from.

What stands in `out`: NAME.json (settings, history, scores) and state.pt, which a run that was cut off goes on from; its
seconds count.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from training.tts.config import Config

STATE = "state.pt"


def rate_at(progress: float, step: int, peak: float, final: float, warmup: int) -> float:
    """Linear warm-up over `warmup` steps, then a cosine from `peak` to `final` · `peak` as `progress` goes 0 -> 1."""
    falling = final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))
    return peak * min(1.0, (step + 1) / max(warmup, 1)) * falling


class Progress:
    """count: steps done; history: a row a line of the log; scores: one an evaluation."""

    def __init__(self, name: str, config: Config, out: Path, measures: Sequence[str], device: torch.device) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._name, self._config, self._out, self._measures = name, config, out, measures
        self._cuda = device.type == "cuda"
        self.began = time.monotonic()
        self.count = 0
        self.history: list[list[float]] = []
        self.scores: list[dict[str, Any]] = []

    @property
    def seconds(self) -> float:
        """Since the run began, those of runs that it goes on from included."""
        return time.monotonic() - self.began

    def log(self, text: str) -> None:
        """A line on standard output."""
        print(f"[{self._name} {self.seconds:.0f} s] {text}", flush=True)

    def stepped(self) -> None:
        """A step is done."""
        self.count += 1
        if self._cuda and self.count % 25 == 0:
            torch.cuda.synchronize()  # the clock, not the queue, ends a run

    def report(self, what: str, measured: torch.Tensor) -> None:
        """A line of the log and a row of the history."""
        values: list[float] = measured.tolist()  # pyright: ignore[reportUnknownMemberType]
        self.history.append([self.count, self.seconds, *values])
        shown = " ".join(f"{name} {v:.3f}" for name, v in zip(self._measures, values, strict=True))
        self.log(f"{self.count} {what} {shown}")

    def save(self, state: Mapping[str, Any]) -> None:
        """NAME.json and state.pt."""
        about = {
            "config": asdict(self._config), "steps": self.count, "seconds": round(self.seconds, 1),
            "measures": self._measures, "history": [[round(v, 5) for v in row] for row in self.history],
            "scores": self.scores,
        }  # fmt: skip
        (self._out / f"{self._name}.json").write_text(json.dumps(about) + "\n")
        own = {"count": self.count, "seconds": self.seconds, "history": self.history, "scores": self.scores}
        torch.save(own | dict(state), self._out / "state.part")
        (self._out / "state.part").rename(self._out / STATE)
        self.log(f"saved after {self.count} steps")

    def take(self, device: torch.device) -> dict[str, Any] | None:
        """The state that a run before this left in `out`, if any; this one goes on from it."""
        path = self._out / STATE
        if not path.exists():
            return None
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        self.count, self.history, self.scores = state["count"], state["history"], state["scores"]
        self.began = time.monotonic() - state["seconds"]
        self.log(f"going on after {self.count} steps")
        return state
