"""A run lasts so many seconds on one device or several, keeps a log and curves, and leaves a state from which the next
run goes on.

The folder `out` holds NAME.json (steps, history, scores and what the run says of itself) and the folders `state` and
`weights`, both in files that can be carried (training/parts.py). A run whose folder has a state goes on from that,
whatever it was given to begin from, and the seconds before it count.
"""

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
from training.learner import Learner, settle
from training.parts import TOLD, load_parts, save_parts
from training.ranks import Ranks

# A run goes on from the first of these folders in `out`; the second holds what could ship.
STATE, CANDIDATE = "state", "weights"
# Within so many seconds of its end a run does not save, because it saves at its end anyway.
_LAST = 60.0


def rate_at(progress: float, step: int, peak: float, final: float, warmup: int) -> float:
    """Give the rate of a step: it rises linearly over `warmup` steps and then falls along half a cosine, from `peak` to
    `final` times `peak` as `progress` goes from 0 to 1."""
    falling = final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))
    return peak * min(1.0, (step + 1) / max(warmup, 1)) * falling


@dataclass(frozen=True, kw_only=True)
class Given:
    """What every run is given. until: Unix time at which its steps end at the latest, and its schedule with them;
    state: the state of the run before, for a folder `out` that has none; scale: how large a step is beside the
    configured one, for a machine of little memory or speed."""

    out: Path
    seconds: float
    device: str = "cuda"
    until: float = math.inf
    state: Path | None = None
    scale: float = 1.0


def kept(parts: Mapping[str, nn.Module | Learner]) -> dict[str, Tensor]:
    """Give what a state must hold of some parts, by name: parameters as float16, buffers as they are, and a learner's
    own."""
    found: dict[str, Tensor] = {}
    for part, one in parts.items():
        if isinstance(one, Learner):
            own = one.kept()
        else:
            own = one.state_dict() | {name: value.detach().half() for name, value in one.named_parameters()}
        found |= {f"{part}.{name}": value for name, value in own.items()}
    return found


@torch.no_grad()
def take(parts: Mapping[str, nn.Module | Learner], tensors: Mapping[str, Tensor]) -> None:
    """Go on with what `kept` gave. The values are copied into the tensors that captured steps know."""
    for part, one in parts.items():
        own = {k.removeprefix(f"{part}."): value for k, value in tensors.items() if k.startswith(f"{part}.")}
        if isinstance(one, Learner):
            one.take(own)
            continue
        for name, value in one.state_dict().items():
            value.copy_(own[name])


class Trainer(ABC):
    """The frame of a run. A subclass says what a step does, what is scored and what is kept.

    count: steps done; history: a row for each report, [step, seconds, the means of the measures since the report
    before]; scores: a dictionary for each evaluation.
    """

    save_every = 60.0  # A run saves after so many seconds,
    report_every = 200  # and reports after so many steps.
    step_seconds = 0.0  # A step that lasts so long, the same on all ranks, is not begun where less time is left.

    def __init__(self, name: str, given: Given, config: Any, measures: Sequence[str], seed: int) -> None:
        """config: a dataclass, which NAME.json tells."""
        self.given, self.config, self.seed, self._name, self._measures = given, config, seed, name, measures
        self._parts: Mapping[str, nn.Module | Learner] = {}
        self.ranks = Ranks(given.device)
        self.device = self.ranks.device
        self.now: Callable[[], float] = time.monotonic
        """The clock, in seconds, that the run's length and schedule follow. Tests replace it."""
        self._began, self._before = self.now(), 0.0
        self.count = 0
        self.history: list[list[float]] = []
        self.scores: list[dict[str, Any]] = []
        given.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(seed)
        settle()

    @abstractmethod
    def step(self, done: float) -> Tensor:
        """Make one step of all ranks at `done` (0 to 1) of the run, and give what is measured [measures]."""

    @abstractmethod
    def write(self, *, last: bool) -> None:
        """Write weights into `out`."""

    @abstractmethod
    def score(self, *, last: bool) -> dict[str, Any]:
        """Give what held-out speech says of the weights."""

    def about(self) -> dict[str, Any]:
        """Give what NAME.json tells beside configuration, steps and scores."""
        return {}

    def take(self, parts: Mapping[str, nn.Module | Learner]) -> dict[str, Any]:
        """Go on from the state that a run before this one left, if any, and give what it tells. From here on each
        process draws for itself. parts: everything that steps change, by name."""
        self._parts = parts
        torch.manual_seed(self.seed + self.ranks.share[0])
        folder = self.given.out / STATE
        if not (folder / TOLD).exists():
            if self.given.state is None:
                return {}
            folder = self.given.state
        tensors, told = load_parts(folder)
        take(parts, tensors)
        self.history, self.scores = told["history"], told["scores"]
        self.count, self._before = told["steps"], told["seconds"]
        self._began = self.now() - self._before
        self.say(f"going on after {self.count} steps")
        return told

    def train(self) -> None:
        """Train until the seconds are over, and leave weights and a state in any case."""
        # Everything is ready now, and what came before this moment does not count.
        self._began = self.now() - self._before
        sums = torch.zeros(len(self._measures), device=self.device)
        first, reported, saved = self.count, self.seconds, self.seconds
        length = self.ranks.same(min(self.given.seconds, self._before + self.given.until - time.time()))
        while (spent := self.ranks.same(self.seconds)) + self.step_seconds < length:
            sums += self.step(spent / length)
            self.count += 1
            if self.device.type == "cuda" and self.count % 25 == 0:
                # Without this the queue of kernels would decide when a run ends, and not the clock.
                torch.cuda.synchronize()
            if self.ranks.first and (steps := self.count - first) == self.report_every:
                self._report(1000 * (self.seconds - reported) / steps, sums / steps)
                sums.zero_()
                if spent - saved > self.save_every and length - spent > _LAST:
                    self.save()
                    saved = self.seconds
                first, reported = self.count, self.seconds
        if self.ranks.first:
            self.save(last=True)
        self.ranks.end()

    def save(self, *, last: bool = False) -> None:
        """Write weights, scores and a state."""
        seconds = self.seconds
        self.write(last=last)
        self.guard("evaluation", lambda: self._score(last))
        own = {"steps": self.count, "seconds": seconds, "history": self.history, "scores": self.scores}
        save_parts(self.given.out / STATE, kept(self._parts), own)
        write_json(self._told, self.about() | own | {"measures": self._measures, "config": asdict(self.config)})

    def guard(self, what: str, do: Callable[[], None]) -> None:
        """Do side work, which must not end a run: an error is only said."""
        try:
            do()
        except Exception as error:
            self.say(f"{what} failed: {error!r}")

    @property
    def seconds(self) -> float:
        """The seconds since the run began, with those of the runs that it goes on from."""
        return self.now() - self._began

    def say(self, text: str) -> None:
        """Print a line, from the first process only."""
        if self.ranks.first:
            print(f"[{self._name} {self.seconds:.0f} s] {text}", flush=True)

    @property
    def _told(self) -> Path:
        return self.given.out / f"{self._name}.json"

    def _score(self, last: bool) -> None:
        self.scores.append({"step": self.count, "seconds": self.seconds} | self.score(last=last))
        self.say(f"{self.count} {self.scores[-1]}")

    def _report(self, pace: float, measured: Tensor) -> None:
        """Write a line of the log and a row of the history."""
        values: list[float] = measured.tolist()
        self.history.append([self.count, round(self.seconds, 1), *(round(v, 5) for v in values)])
        shown = " ".join(f"{name} {v:.3f}" for name, v in zip(self._measures, values, strict=True))
        self.say(f"{self.count} {pace:.0f} ms/step {shown}")
