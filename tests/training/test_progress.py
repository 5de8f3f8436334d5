"""A run's clock, curves and state; how its rate goes."""

import itertools
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from training.progress import STATE, Progress, rate_at


def progress(out: Path) -> Progress:
    """By a clock that goes on by a second whenever it is looked at."""
    seconds = itertools.count(1000.0)
    return Progress("run", out, ("loss", "norm"), torch.device("cpu"), lambda: next(seconds))


def test_the_rate_warms_up_stays_and_ends_low() -> None:
    assert rate_at(0.0, 0, 1.0, 0.02, 2) == 0.5 and rate_at(0.0, 10, 3.0, 0.02, 2) == 3.0
    assert rate_at(0.2, 10, 1.0, 0.02, 2, 0.3) == 1.0 > rate_at(0.2, 10, 1.0, 0.02, 2)
    assert rate_at(1.0, 1000, 2.0, 0.02, 2, 0.3) == pytest.approx(0.04)


def test_a_run_goes_on_from_its_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = progress(tmp_path)
    assert first.take() is None
    first.begin()
    for _ in range(3):
        first.stepped()
    first.report("of ten", torch.tensor([1.0, 0.25]))
    first.scores.append({"wer": 3.5})
    first.save({"weights": torch.ones(2)}, {"dev": ["a.opus"]})
    told = json.loads((tmp_path / "run.json").read_text())
    assert told["steps"] == 3 and told["dev"] == ["a.opus"] and told["measures"] == ["loss", "norm"]
    assert told["history"] == [[3, 1.0, 1.0, 0.25]] and told["scores"] == [{"wer": 3.5}]
    assert "3 of ten loss 1.000 norm 0.250" in capsys.readouterr().out
    again = progress(tmp_path)
    state = again.take()
    assert state is not None and torch.equal(state["weights"], torch.ones(2))
    assert (again.count, again.history, again.scores) == (3, first.history, first.scores)
    again.begin()
    assert again.seconds == told["seconds"] + 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("state")] == [STATE]
