"""The arithmetic of lateness, on a clock that the test holds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.events import Results, Word
from clients.lag import LagMeter, percentile


def results(words: list[tuple[str, float]], *, final: bool = False) -> Results:
    """A message of words with their ends."""
    made = tuple(Word(text, end - 0.2, end, 0.9) for text, end in words)
    text = " ".join(word.text for word in made)
    return Results(0, made[-1].end if made else 0, text, made, 0, final, final, False, 0.9, "en")


def test_a_word_counts_from_its_last_sample_to_its_first_appearance():
    """The first message with the word decides, though the word moved or others before it changed."""
    meter = LagMeter()
    for tick in range(1, 31):
        meter.sent(tick / 10, 100 + tick / 10)
    meter.received(results([("a", 0.5)]), 100.8)
    meter.received(results([("a", 0.5), ("cat", 1.0)]), 101.3)
    meter.received(results([("the", 0.5), ("cat", 1.1), ("cat", 1.6)]), 101.9)
    meter.received(results([("the", 0.5), ("cat", 1.0), ("cat", 1.5), ("sat", 2.0)], final=True), 102.7)
    assert meter.partial == pytest.approx([1.4, 0.3, 0.4, 0.7])
    assert meter.final == pytest.approx([0.7])


def test_interims_of_the_last_segment_do_not_count_for_the_next():
    """After a final the slate is clean."""
    meter = LagMeter()
    for tick in range(1, 31):
        meter.sent(tick / 10, tick / 10)
    meter.received(results([("yes", 0.5)], final=True), 0.9)
    meter.received(results([("yes", 2.0)], final=True), 2.6)
    assert meter.partial == pytest.approx([0.4, 0.6])


def test_a_word_beyond_the_end_counts_from_the_last_sample():
    """Alignment may put a word's end a little after the audio."""
    meter = LagMeter()
    meter.sent(1.0, 5.0)
    meter.received(results([("end", 1.2)], final=True), 5.3)
    assert meter.partial == pytest.approx([0.3])


def test_known_word_ends_replace_the_finals_own():
    """Synthetic speech: lags count from where words really end; unknown words are left out."""
    known = {"cat": 0.9, "sat": 2.2}
    meter = LagMeter(lambda word: known.get(word.text))
    for tick in range(1, 31):
        meter.sent(tick / 10, tick / 10)
    meter.received(results([("the", 0.5), ("cat", 1.1)]), 1.3)
    meter.received(results([("the", 0.5), ("cat", 1.1), ("sat", 1.9)], final=True), 2.7)
    assert meter.partial == pytest.approx([0.4, 0.5])
    assert meter.final == pytest.approx([0.5])


@given(st.lists(st.floats(-10, 10), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_one_of_the_values(values: list[float], share: float):
    """Nearest rank: at least that share of the values is not above it."""
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


def test_without_values_there_is_no_percentile():
    """NaN rather than an invented number."""
    assert math.isnan(percentile([], 0.5))
