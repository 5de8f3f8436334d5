"""The clock that lanes and their work are timed by."""

from types import SimpleNamespace

import pytest

from tests.lanes import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock of lanes and their work by one that only the test moves."""
    clock = Clock()
    monkeypatch.setattr("engines.lane.time", SimpleNamespace(monotonic=clock))
    return clock
