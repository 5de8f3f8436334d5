"""The listener's clock: what waits, what came too late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.clock import MAX_LEAD_SECONDS, PlaybackClock


def test_audio_that_comes_in_time_is_no_under_run():
    """The lead is silence before the first piece; it lets the second be late by as much."""
    clock = PlaybackClock(lead=0.1)
    assert clock.buffered(5.0) == 0
    assert clock.add(0.08, 5.0) == 0.1
    assert clock.buffered(5.0) == pytest.approx(0.18)
    assert clock.add(0.08, 5.17) == 0
    assert clock.under_runs == 0 and clock.buffered(5.2) == pytest.approx(0.06)


def test_a_late_piece_is_counted_with_its_silence():
    """All was played out: the listener heard nothing until the piece came, nor during the lead, which grows."""
    clock = PlaybackClock(lead=0.1)
    clock.add(0.4, 0.0)
    assert clock.add(0.4, 0.75) == 0.2
    assert clock.under_runs == 1 and clock.silent_seconds == pytest.approx(0.25 + 0.2)
    assert clock.buffered(0.75) == pytest.approx(0.6)
    now = 0.75
    for _ in range(9):
        now += clock.buffered(now) + 1
        clock.add(0.4, now)
    assert clock.under_runs == 10 and clock.lead == MAX_LEAD_SECONDS


def test_nobody_waits_in_a_pause():
    """After a pause a piece may be as late as it likes, once; the next must be in time again."""
    clock = PlaybackClock(lead=0.0)
    clock.add(1.0, 0.0)
    clock.pause()
    assert clock.buffered(0.5) == 0.5
    clock.add(1.0, 9.0)
    assert clock.under_runs == 0
    clock.add(1.0, 10.5)
    assert clock.under_runs == 1


TICKS = st.integers(0, 2048).map(lambda ticks: ticks / 1024)
"""Times whose sums are exact."""


@given(st.lists(st.tuples(TICKS, TICKS.filter(bool), st.booleans()), max_size=30), TICKS)
def test_every_second_is_played_silent_or_waiting(pieces: list[tuple[float, float, bool]], lead: float):
    """From the first piece to the end, time is audio and silence; under-runs are the gaps nobody announced."""
    clock, now, silence, audio, gaps = PlaybackClock(lead), 100.0, 0.0, 0.0, 0
    start = end = None
    paused = False
    for wait, seconds, pause in pieces:
        now += wait
        late = end is not None and now > end
        gaps += late and not paused
        if start is None or end is None:
            start = end = now
        silence += now - end if late else 0.0
        if late and not paused:
            lead = max(lead, min(2 * lead, MAX_LEAD_SECONDS))
        gap = clock.add(seconds, now)
        silence += gap
        audio += seconds
        assert gap == (lead if late or audio == seconds else 0)
        end = start + silence + audio
        assert clock.buffered(now) == end - now
        paused = pause
        if pause:
            clock.pause()
    assert clock.under_runs == gaps
    assert clock.silent_seconds <= silence
