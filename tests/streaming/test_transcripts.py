"""Word times, taken from the CTC head's rows or shared out."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.transcripts import SPIKE_DELAY, row_edges, share, word_times
from tests.streaming.test_ctc import BLANK, rows_saying


def seconds(rows: int, offset: float = 0.0) -> npt.NDArray[np.float64]:
    return row_edges(rows, chunk_rows=13, chunk_frames=100, frame_seconds=0.01, offset=offset)


def test_rows_are_not_evenly_spaced() -> None:
    """Thirteen rows make exactly one second: twelve of 80 ms and one of 40 ms."""
    edges = seconds(27, offset=2.0)
    np.testing.assert_allclose(edges[:13], 2 + 0.08 * np.arange(13))
    np.testing.assert_allclose(edges[[12, 13, 14, 26, 27]], [2.96, 3.0, 3.08, 4.0, 4.08])
    even = row_edges(100, chunk_rows=25, chunk_frames=200, frame_seconds=0.01)
    np.testing.assert_allclose(even, 0.08 * np.arange(101))


def test_words_have_the_times_of_their_tokens() -> None:
    """A word lasts from ``SPIKE_DELAY`` before its first token's first row to the end of its last token's last row, or
    to the next word."""
    path = [5, 1, 1, 2, 5, 3, 5, 5, 0, 5, 5, 5, 4, 4, 5]
    spans = [(0, 2), (2, 3), (4, 5)]
    times = word_times(rows_saying(path, 20), [1, 2, 3, 0, 4], spans, BLANK, seconds(15, 10.0), 11.1)
    assert times is not None
    np.testing.assert_allclose(
        times, [(10.08 - SPIKE_DELAY, 10.32), (10.4 - SPIKE_DELAY, 10.48), (10.96 - SPIKE_DELAY, 11.08)]
    )
    close = word_times(rows_saying([1, 2, 5], 20), [1, 2], [(0, 1), (1, 2)], BLANK, seconds(3, 10.0), 10.2)
    assert close is not None
    np.testing.assert_allclose(close, [(10.0, 10.08 - SPIKE_DELAY), (10.08 - SPIKE_DELAY, 10.16)])


def test_times_stay_inside_the_segment() -> None:
    """The last row may reach beyond the audio, as its window is padded; its words do not."""
    times = word_times(rows_saying([5, 1, 1, 1], 20), [1], [(0, 1)], BLANK, seconds(4, 3.0), 3.2)
    assert times == [pytest.approx((3.08 - SPIKE_DELAY, 3.2))]
    early = word_times(rows_saying([1, 5], 20), [1], [(0, 1)], BLANK, seconds(2, 3.0), 3.2)
    assert early == [pytest.approx((3.0, 3.08))]


def test_a_text_that_does_not_fit_has_no_times() -> None:
    """A text with more tokens than rows has no times, so that its words are marked approximate. A text without tokens
    has no words."""
    assert word_times(rows_saying([1, 2]), [1, 2, 3], [(0, 3)], BLANK, seconds(2), 1.0) is None
    assert word_times(rows_saying([1, 1]), [1, 1], [(0, 2)], BLANK, seconds(2), 1.0) is None
    assert word_times(rows_saying([5, 5]), [], [], BLANK, seconds(2), 1.0) == []


@given(
    lengths=st.lists(st.integers(1, 4), max_size=8),
    rows=st.integers(1, 60),
    seed=st.integers(0, 100),
    start=st.floats(0, 1e4),
    length=st.floats(0, 5),
)
def test_word_times_are_monotone(lengths: list[int], rows: int, seed: int, start: float, length: float) -> None:
    """Whatever the rows say, words follow each other inside the segment."""
    ends = list(itertools.accumulate(lengths, initial=0))
    tokens = np.random.default_rng(seed).integers(0, 5, ends[-1]).tolist()
    log_probs = rows_saying([BLANK] * rows, 0, seed)
    spans = list(itertools.pairwise(ends))
    times = word_times(log_probs, tokens, spans, BLANK, seconds(rows, start), start + length)
    if times is None:
        return
    assert len(times) == len(lengths)
    flat = [start, *itertools.chain.from_iterable(times), start + length]
    assert all(a <= b for a, b in itertools.pairwise(flat))


@given(
    words=st.lists(st.text(alphabet="abcé", min_size=1, max_size=9), max_size=12),
    start=st.floats(0, 1e5),
    length=st.floats(0, 30),
)
def test_sharing_out_time(words: list[str], start: float, length: float) -> None:
    """Shared times fill the segment without gaps, in proportion to the words' lengths."""
    times = share(words, start, start + length)
    assert len(times) == len(words)
    letters = sum(map(len, words))
    for word, (a, b) in zip(words, times, strict=True):
        assert start <= a <= b <= start + length
        assert b - a == pytest.approx(length * len(word) / letters, abs=1e-6)
    assert all(this[1] == following[0] for this, following in itertools.pairwise(times))
    if words:
        assert (times[0][0], times[-1][1]) == pytest.approx((start, start + length))
