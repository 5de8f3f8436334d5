"""The time of lanes and of their work."""

from types import SimpleNamespace

import pytest

from tests.lanes import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which lanes and pieces of work go."""
    clock = Clock()
    monkeypatch.setattr("engines.batching.time", SimpleNamespace(monotonic=clock))
    return clock
