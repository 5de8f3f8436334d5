"""Word times against those that a synthesiser plans, over all recordings of tests/synthetic."""

from typing import Any

from bench.words import measure
from tests.clips import DATA


def test_word_times_are_near_the_synthesisers() -> None:
    """150 utterances whose word starts are known: median error at most 80 ms, p95 at most 200 ms, none approximate."""
    found: Any = measure(DATA.parent / "synthetic")
    assert found["clips"] == 150 and found["approximate"] == 0
    assert found["starts_compared"] > 0.6 * found["starts_known"] > 600
    assert found["median_ms"] <= 80 and found["p95_ms"] <= 200, found
