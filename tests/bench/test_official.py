"""Hearing beside antirez/qwen-asr, on a tiny model: ratios of what was measured, forced tokens counted."""

from typing import Any

import pytest

from bench.official import STREAM_SECONDS, THEIRS, TICK_TOKENS, measure
from tests.golden_models import GOLDEN


def test_ratios_follow_from_what_was_measured() -> None:
    """Every figure has its ratio, and a tick's rows are tail, suffix, text and closed windows."""
    found: Any = measure(GOLDEN / "int8", threads=1)
    assert found["times_antirez"].keys() == THEIRS.keys()
    for name, theirs in THEIRS.items():
        assert found[name] > 0
        assert found["times_antirez"][name] == pytest.approx(theirs / found[name], rel=0.2, abs=0.02)
    # Segments of 24 and 21 s in ticks of 2 s: the text of tick n is that of the n before it.
    ticks = [12, 11]
    text = sum(TICK_TOKENS * n * (n - 1) / 2 for n in ticks)
    assert found["tick_rows"] * sum(ticks) > text + STREAM_SECONDS * 13
