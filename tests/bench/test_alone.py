"""A measurement in a process of its own, and what others took of the machine meanwhile."""

import os
from pathlib import Path

from bench.__main__ import alone
from bench.probe import stolen_seconds


def figures(base: int, *, factor: int) -> dict[str, object]:
    return {"process": os.getpid(), "product": base * factor}


def test_a_measurement_runs_elsewhere_and_says_what_was_stolen() -> None:
    found = alone(figures, 6, factor=7)
    assert found["product"] == 42 and found["process"] != os.getpid()
    if Path("/proc/stat").exists():
        stolen = found["stolen_cores"]
        assert isinstance(stolen, float) and 0 <= stolen <= (os.cpu_count() or 1)
    else:
        assert "stolen_cores" not in found


def test_stolen_time_only_grows() -> None:
    first = stolen_seconds()
    second = stolen_seconds()
    assert (first is None) is (second is None)
    if first is not None and second is not None:
        assert 0 <= first <= second
