"""A run: so many seconds on one device or several, its log, its curves, and a state to go on from.

What stands in `out`: NAME.json (steps, history, scores and what the run says of itself) and state.pt. A run whose
folder has a state goes on from it, whatever it was given to begin from; its seconds count.
"""

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from training.checkpoint import write_json
from training.learner import Learner
from training.ranks import Ranks

STATE = "state.pt"
_LAST = 60.0  # seconds before the end in which nothing is saved but at the end


def rate_at(progress: float, step: int, peak: float, final: float, warmup: int, constant: float = 0.0) -> float:
    """Linear warm-up over `warmup` steps, then `peak` until `progress` reaches `constant`, then a cosine from there to
    `final` · `peak` as it goes to 1."""
    late = min(max((progress - constant) / (1 - constant), 0.0), 1.0)
    falling = final + (1 - final) * 0.5 * (1 + math.cos(math.pi * late))
    return peak * min(1.0, (step + 1) / max(warmup, 1)) * falling


@dataclass(frozen=True, kw_only=True)
class Given:
    """What every run is given."""

    out: Path
    seconds: float
    device: str = "cuda"


class Trainer(ABC):
    """count: steps done; history: a row a report, [step, seconds, means of the measures since the last …]; scores: one
    an evaluation. What is derived says what a step does, what is scored and what is kept."""

    save_every = 60.0  # seconds
    report_every = 200  # steps

    def __init__(self, name: str, given: Given, config: Any, measures: Sequence[str], seed: int) -> None:
        """config: a dataclass, which NAME.json tells."""
        self.given, self.config, self.seed, self._name, self._measures = given, config, seed, name, measures
        self._parts: Mapping[str, nn.Module | Learner] = {}
        self.ranks = Ranks(given.device)
        self.device = self.ranks.device
        self.now: Callable[[], float] = time.monotonic
        """The clock, in seconds, that the run's length and schedule follow."""
        self._began, self._before = self.now(), 0.0
        self.count = 0
        self.history: list[list[float]] = []
        self.scores: list[dict[str, Any]] = []
        given.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True

    @abstractmethod
    def step(self, done: float) -> Tensor:
        """One step of all ranks, at `done` (0 to 1) of the run -> what is measured [measures]."""

    @abstractmethod
    def write(self, *, last: bool) -> None:
        """Weights in `out`."""

    @abstractmethod
    def score(self, *, last: bool) -> dict[str, Any]:
        """What held-out speech says of the weights."""

    def about(self) -> dict[str, Any]:
        """What NAME.json tells beside configuration, steps and scores."""
        return {}

    def take(self, parts: Mapping[str, nn.Module | Learner]) -> dict[str, Any]:
        """Go on from the state that a run before this left, if any; what its NAME.json tells. From here on each process
        draws for itself. parts: everything that steps change, by name."""
        self._parts = parts
        torch.manual_seed(self.seed + self.ranks.share[0])
        if not (self.given.out / STATE).exists():
            return {}
        state: dict[str, Any] = torch.load(self.given.out / STATE, map_location=self.device, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(state[name])
        told: dict[str, Any] = json.loads(self._told.read_text()) if self._told.exists() else {}
        self.history, self.scores = told.get("history", []), told.get("scores", [])
        self.count, self._before = state["steps"], state["seconds"]
        self._began = self.now() - self._before
        self.say(f"going on after {self.count} steps")
        return told

    def train(self) -> None:
        """Until the seconds are over; always leaves weights and a state."""
        self._began = self.now() - self._before  # all is ready: what came before this moment is not counted
        sums = torch.zeros(len(self._measures), device=self.device)
        first, reported, saved = self.count, self.seconds, self.seconds
        while (spent := self.ranks.same(self.seconds)) < self.given.seconds:
            sums += self.step(spent / self.given.seconds)
            self.count += 1
            if self.device.type == "cuda" and self.count % 25 == 0:
                torch.cuda.synchronize()  # the clock, not the queue, ends a run
            if self.ranks.first and (steps := self.count - first) == self.report_every:
                self._report(1000 * (self.seconds - reported) / steps, sums / steps)
                sums.zero_()
                if spent - saved > self.save_every and self.given.seconds - spent > _LAST:
                    self.save()
                    saved = self.seconds
                first, reported = self.count, self.seconds
        if self.ranks.first:
            self.save(last=True)
        self.ranks.end()

    def save(self, *, last: bool = False) -> None:
        """Weights, a state, scores."""
        self.write(last=last)
        out, seconds = self.given.out, self.seconds
        state: dict[str, Any] = {name: part.state_dict() for name, part in self._parts.items()}
        torch.save(state | {"steps": self.count, "seconds": seconds}, out / "state.part")
        (out / "state.part").rename(out / STATE)
        self.guard("evaluation", lambda: self._score(last))
        own = {"steps": self.count, "seconds": seconds, "history": self.history, "scores": self.scores}
        own |= {"measures": self._measures, "config": asdict(self.config)}
        write_json(self._told, self.about() | own)

    def guard(self, what: str, do: Callable[[], None]) -> None:
        """Side work must not end a run."""
        try:
            do()
        except Exception as error:
            self.say(f"{what} failed: {error!r}")

    @property
    def seconds(self) -> float:
        """Since the run began, those of runs that it goes on from included."""
        return self.now() - self._began

    def say(self, text: str) -> None:
        """A line on standard output."""
        if self.ranks.first:
            print(f"[{self._name} {self.seconds:.0f} s] {text}", flush=True)

    @property
    def _told(self) -> Path:
        return self.given.out / f"{self._name}.json"

    def _score(self, last: bool) -> None:
        self.scores.append({"step": self.count, "seconds": self.seconds} | self.score(last=last))
        self.say(f"{self.count} {self.scores[-1]}")

    def _report(self, pace: float, measured: Tensor) -> None:
        """A line of the log and a row of the history."""
        values: list[float] = measured.tolist()
        self.history.append([self.count, round(self.seconds, 1), *(round(v, 5) for v in values)])
        shown = " ".join(f"{name} {v:.3f}" for name, v in zip(self._measures, values, strict=True))
        self.say(f"{self.count} {pace:.0f} ms/step {shown}")
