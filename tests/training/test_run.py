"""A run's clock, curves and state, and how its rate goes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from training.run import STATE, Given, Trainer, rate_at


@dataclass(frozen=True)
class Config:
    """The configuration of a run."""

    seed: int = 1


class Counted(Trainer):
    """A run by a clock that goes on by a second a step."""

    report_every = 2

    def __init__(self, out: Path, seconds: float) -> None:
        given = Given(out=out, seconds=seconds, device="cpu")
        super().__init__("run", given, Config(), ("loss", "norm"), 1)
        self.now = lambda: 1000.0 + self.count
        layer = torch.nn.Linear(1, 1).requires_grad_(False)
        self.weight = layer.bias.zero_()
        self.told = self.take({"layer": layer})

    def step(self, done: float) -> torch.Tensor:
        assert done == self.count / self.given.seconds
        self.weight += 1
        return torch.cat([self.weight, torch.tensor([0.25])])

    def write(self, *, last: bool) -> None:
        (self.given.out / "weight").write_text(f"{self.weight.item():.0f}")

    def score(self, *, last: bool) -> dict[str, Any]:
        if self.count > 6:
            raise ValueError("no memory")
        return {"wer": 3.5, "last": last}

    def about(self) -> dict[str, Any]:
        return {"dev": ["a.opus"]}


def test_the_rate_warms_up_stays_and_ends_low() -> None:
    assert rate_at(0.0, 0, 1.0, 0.02, 2) == 0.5 and rate_at(0.0, 10, 3.0, 0.02, 2) == 3.0
    assert 1.0 > rate_at(0.2, 10, 1.0, 0.02, 2) > rate_at(0.5, 10, 1.0, 0.02, 2) == pytest.approx(0.51)
    assert rate_at(1.0, 1000, 2.0, 0.02, 2) == pytest.approx(0.04)


def test_a_run_goes_on_from_its_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = Counted(tmp_path, 3.0)
    first.train()
    told = json.loads((tmp_path / "run.json").read_text())
    assert (
        told["steps"] == 3
        and told["dev"] == ["a.opus"]
        and told["measures"] == ["loss", "norm"]
        and told["config"] == {"seed": 1}
    )
    assert told["history"] == [[2, 2.0, 1.5, 0.25]], "the mean of two steps"
    assert told["scores"] == [{"step": 3, "seconds": 3.0, "wer": 3.5, "last": True}]
    assert "2 1000 ms/step loss 1.500 norm 0.250" in capsys.readouterr().out
    again = Counted(tmp_path, 6.0)
    assert {name: told[name] for name in again.told} == again.told
    assert (again.count, again.seconds, float(again.weight)) == (3, 3.0, 3.0)
    again.train()
    assert (again.count, float(again.weight), len(again.scores)) == (6, 6.0, 2)
    assert again.history == [*first.history, [5, 5.0, 4.5, 0.25]]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("state")] == [STATE]


def test_a_run_saves_on_its_way_and_ends_whatever_its_evaluation_does(tmp_path: Path) -> None:
    run = Counted(tmp_path, 80.0)
    run.save_every = 3.0
    saved = list[int]()
    run.write = lambda *, last: saved.append(run.count)
    run.train()
    assert saved == [6, 12, 18, 80] and [score["step"] for score in run.scores] == [6]


def test_a_step_that_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    run = Counted(tmp_path, 6.0)
    run.step_seconds = 3.5
    run.train()
    assert run.count == 3
