"""Forced alignment: exact where the rows are constructed, optimal among all paths, word times inside the segment."""

import itertools
import math
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.alignment import SPIKE_DELAY, align, row_edges, share, word_scores, word_times

BLANK = 5
"""Blank of the small vocabulary 0…4."""


def rows_saying(path: list[int], sharpness: float = 8.0, seed: int = 0, width: int = 6) -> npt.NDArray[np.float32]:
    """Log-probabilities float32 [len(path), width] of rows that favour the given labels."""
    logits = np.random.default_rng(seed).normal(0, 1, (len(path), width))
    logits[np.arange(len(path)), path] += sharpness
    return (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)


def collapsed(path: tuple[int, ...]) -> tuple[int, ...]:
    """CTC's reading of a path: repeats merged, blanks removed."""
    return tuple(label for label, _ in itertools.groupby(path) if label != BLANK)


def test_a_constructed_path_is_found() -> None:
    """Rows that say _ 1 1 _ 1 2 _ _ 3 are aligned exactly so, equal neighbours apart."""
    alignment = align(rows_saying([5, 1, 1, 5, 1, 2, 5, 5, 3]), [1, 1, 2, 3], BLANK)
    assert alignment is not None
    assert alignment.first.tolist() == [1, 4, 5, 8]
    assert alignment.last.tolist() == [2, 4, 5, 8]
    assert np.all(np.exp(alignment.score) > 0.9)


@given(data=st.data())
def test_constructed_spans_are_exact(data: st.DataObject) -> None:
    """Any sharp path gives back the spans it was built from, and their mean log-probability."""
    tokens = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=30))
    path: list[int] = []
    spans: list[tuple[int, int]] = []
    for i, token in enumerate(tokens):
        parted = i > 0 and tokens[i - 1] == token
        path += [BLANK] * data.draw(st.integers(1 if parted else 0, 3))
        path += [token] * (length := data.draw(st.integers(1, 4)))
        spans.append((len(path) - length, len(path) - 1))
    path += [BLANK] * data.draw(st.integers(0, 3))
    log_probs = rows_saying(path, sharpness=30, seed=len(path))
    alignment = align(log_probs, tokens, BLANK)
    assert alignment is not None
    assert list(zip(alignment.first.tolist(), alignment.last.tolist(), strict=True)) == spans
    for score, token, (first, last) in zip(alignment.score, tokens, spans, strict=True):
        np.testing.assert_allclose(score, log_probs[first : last + 1, token].mean(), atol=1e-6)


@given(
    tokens=st.lists(st.integers(0, 2), min_size=1, max_size=4),
    rows=st.integers(1, 6),
    seed=st.integers(0, 1000),
)
def test_no_path_is_better(tokens: list[int], rows: int, seed: int) -> None:
    """Of all paths there are, the aligned one has the greatest probability; where None is given there is none."""
    log_probs = rows_saying([BLANK] * rows, sharpness=0, seed=seed)
    possible = [
        (sum(float(log_probs[row, label]) for row, label in enumerate(path)), path)
        for path in itertools.product([*range(3), BLANK], repeat=rows)
        if collapsed(path) == tuple(tokens)
    ]
    alignment = align(log_probs, tokens, BLANK)
    if alignment is None:
        assert not possible
        return
    path = [BLANK] * rows
    for token, first, last in zip(tokens, alignment.first, alignment.last, strict=True):
        path[first : last + 1] = [token] * (last - first + 1)
    assert collapsed(tuple(path)) == tuple(tokens)
    total = sum(float(log_probs[row, label]) for row, label in enumerate(path))
    assert total == pytest.approx(max(possible)[0], abs=1e-5)


@given(
    tokens=st.lists(st.integers(0, 4), max_size=40),
    rows=st.integers(1, 90),
    seed=st.integers(0, 100),
    sharpness=st.sampled_from([0.0, 3.0]),
)
def test_monotone_and_inside(tokens: list[int], rows: int, seed: int, sharpness: float) -> None:
    """On any rows: tokens follow each other without overlap, all inside the rows; None only if they do not fit."""
    labels = np.random.default_rng(seed).integers(0, 6, rows).tolist()
    alignment = align(rows_saying(labels, sharpness, seed), tokens, BLANK)
    repeats = sum(a == b for a, b in itertools.pairwise(tokens))
    assert (alignment is None) == (len(tokens) + repeats > rows)
    if alignment is None:
        return
    assert len(alignment.first) == len(alignment.last) == len(alignment.score) == len(tokens)
    assert np.all(alignment.first <= alignment.last)
    assert np.all(alignment.last[:-1] < alignment.first[1:])
    assert np.all(alignment.score <= 0)
    if tokens:
        assert alignment.first[0] >= 0
        assert alignment.last[-1] < rows


def test_impossible_rows() -> None:
    """Where every path has probability 0 there is no alignment, and -inf elsewhere does no harm."""
    log_probs = np.full((4, 6), -np.inf, np.float32)
    log_probs[:, 1] = 0
    assert align(log_probs, [2], BLANK) is None
    alignment = align(log_probs, [1], BLANK)
    assert alignment is not None
    assert (alignment.first[0], alignment.last[0], alignment.score[0]) == (0, 3, 0)


@pytest.mark.parametrize(
    ("shape", "tokens", "message"),
    [
        ((9, 6), [5], "5 is the blank"),
        ((9, 6), [6], "6 lies outside 0…5"),
        ((9, 6), [-1], "-1 lies"),
        ((9,), [1], "rows"),
    ],
)
def test_wrong_input_is_refused(shape: tuple[int, ...], tokens: list[int], message: str) -> None:
    """Blanks and unknown tokens in the text, and what is no matrix, are named."""
    with pytest.raises(ValueError, match=message):
        align(np.zeros(shape, np.float32), tokens, BLANK)


def test_a_row_costs_a_few_operations_on_vectors() -> None:
    """A full segment, 312 rows and 120 tokens: no Python loop over tokens. Measured against such operations, in one
    run, by this thread's own time: machines differ, ratios do not."""
    random = np.random.default_rng(2)
    log_probs = rows_saying(random.integers(0, 1024, 312).tolist(), 3, width=1025)
    tokens = random.integers(0, 1024, 120).tolist()
    states = np.zeros(2 * len(tokens) + 1)

    def ten_operations_a_row() -> None:
        for _ in range(10 * len(log_probs)):
            np.maximum(states, states)

    def best(work: Callable[[], object]) -> float:
        times: list[float] = []
        for _ in range(20):
            begun = time.thread_time()
            work()
            times.append(time.thread_time() - begun)
        return min(times)

    assert best(lambda: align(log_probs, tokens, 1024)) < 5 * best(ten_operations_a_row)


def seconds(rows: int, offset: float = 0.0) -> npt.NDArray[np.float64]:
    return row_edges(rows, chunk_rows=13, chunk_frames=100, frame_seconds=0.01, offset=offset)


def test_rows_are_not_evenly_spaced() -> None:
    """Thirteen rows make exactly one second: twelve of 80 ms and one of 40 ms."""
    edges = seconds(27, offset=2.0)
    np.testing.assert_allclose(edges[:13], 2 + 0.08 * np.arange(13))
    np.testing.assert_allclose(edges[[12, 13, 14, 26, 27]], [2.96, 3.0, 3.08, 4.0, 4.08])
    even = row_edges(100, chunk_rows=25, chunk_frames=200, frame_seconds=0.01)
    np.testing.assert_allclose(even, 0.08 * np.arange(101))


def test_a_word_scores_the_mean_of_its_tokens() -> None:
    """A word that the rows say scores near 0, one that they do not far below; tokens between words count for none."""
    rows = rows_saying([5, 1, 1, 5, 2, 3, 5, 0], 20)
    said = word_scores(rows, [1, 2, 3, 0], [(0, 1), (1, 3), (3, 4)], BLANK)
    assert all(-0.01 < score <= 0 for score in said)
    alignment = align(rows, [1, 4, 3, 0], BLANK)
    assert alignment is not None
    other = word_scores(rows, [1, 4, 3, 0], [(0, 1), (1, 3)], BLANK)
    assert other == [alignment.score[0], alignment.score[1:3].mean()]
    assert other[0] > -0.01 and other[1] < -5


def test_words_without_a_path_have_no_score() -> None:
    """More tokens than rows, or none at all."""
    assert word_scores(rows_saying([1, 2]), [1, 2, 3], [(0, 2), (2, 3)], BLANK) == [-math.inf, -math.inf]
    assert word_scores(rows_saying([5, 5]), [], [], BLANK) == []


def test_words_have_the_times_of_their_tokens() -> None:
    """From a spike's delay before the first token's row to the last token's last row, or to the next word."""
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
    """More tokens than rows: None, so that the caller marks its words approximate. No tokens: no words."""
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
