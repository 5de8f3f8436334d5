"""What a cluster is told and what it refuses; the real Ray Serve runs in tests/cluster."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from daemon.cluster import Board, Merged, Plan, Report
from daemon.config import ConfigError

ROOT = Path(__file__).parents[2]


def test_reports_are_of_those_that_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """And metrics of the same name are one family, a series for each replica."""
    now = [0.0]
    monkeypatch.setattr("daemon.cluster.time", SimpleNamespace(monotonic=lambda: now[0]))
    board = Board()
    text = "# HELP hearsay_ready Ready.\n# TYPE hearsay_ready gauge\nhearsay_ready 1.0\n"
    one, other = Report(True, False, 3, text), Report(True, True, 4, text)
    assert board.exchange("a", one) == {"a": one}
    now[0] = 6
    assert board.exchange("b", other) == {"a": one, "b": other}
    merged = Merged({"a": text, "b": text}).text().decode()
    assert re.findall(r"^hearsay_ready\{replica=\"(\w)\"\} 1.0$", merged, re.MULTILINE) == ["a", "b"]
    assert merged.count("# TYPE hearsay_ready") == 1
    now[0] = 12
    assert board.exchange("b", other) == {"b": other}


@pytest.mark.parametrize(
    ("least", "most", "cpus"), [(0, 1, 1.0), (3, 2, 1.0), (1, 5000, 1.0), (1, 1, 0.0), (1, 1, float("nan"))]
)
def test_a_plan_has_bounds(least: int, most: int, cpus: float) -> None:
    with pytest.raises(ConfigError, match="replicas|cpus"):
        Plan(least=least, most=most, cpus=cpus, downscale_seconds=300.0)


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--asr-model", "none-such"], 2, "no model named 'none-such'"),
        (["--wyoming-port", "10300"], 2, "wyoming_port: not in a cluster"),
        (["--replicas", "2", "--max-replicas", "1"], 2, "is not 1 ≤ replicas ≤ max_replicas"),
        *([] if importlib.util.find_spec("ray") else [([], 2, "Ray Serve is not installed")]),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments: list[str], status: int, told: str) -> None:
    command = [sys.executable, "-m", "hearsay", "cluster", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == status and told in line
