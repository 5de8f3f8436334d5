"""Forced alignment, likelihoods and spotting compared with every path one by one, and the rows of a growing clip."""

import itertools
import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.ctc import CtcRows, Spot, align, log_likelihoods, spots

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


@given(st.lists(st.integers(0, BLANK), min_size=1, max_size=12))
def test_the_best_path_is_read_as_ctc_reads_it(path: list[int]) -> None:
    rows = CtcRows(BLANK)
    assert rows.path() == []
    rows.end(rows_saying(path, 20.0))
    assert tuple(rows.path()) == collapsed(tuple(path))


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
    """Aligning a full segment, 312 rows and 120 tokens, has no Python loop over tokens. Its time is compared with that
    of vector operations in the same run, since machines differ and ratios do not."""
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


def clip_saying(rows: npt.NDArray[np.float32]) -> CtcRows:
    """A clip whose rows are those of ``rows_saying``."""
    clip = CtcRows(BLANK)
    clip.append(rows[:2])
    clip.end(rows[2:])
    return clip


def test_a_word_scores_the_mean_of_its_tokens() -> None:
    """A word that the rows favour scores near 0, another far below. Tokens between words do not count."""
    rows = rows_saying([5, 1, 1, 5, 2, 3, 5, 0], 20)
    said = clip_saying(rows).word_scores([1, 2, 3, 0], [(0, 1), (1, 3), (3, 4)])
    assert all(-0.01 < score <= 0 for score in said)
    alignment = align(rows, [1, 4, 3, 0], BLANK)
    assert alignment is not None
    other = clip_saying(rows).word_scores([1, 4, 3, 0], [(0, 1), (1, 3)])
    assert other == [alignment.score[0], alignment.score[1:3].mean()]
    assert other[0] > -0.01 and other[1] < -5


def test_words_without_a_path_have_no_score() -> None:
    """Words have no score if there are more tokens than rows, no rows or no head."""
    clip = clip_saying(rows_saying([1, 2]))
    assert clip.word_scores([1, 2, 3], [(0, 2), (2, 3)]) == [-math.inf, -math.inf]
    assert clip.word_scores([], []) == []
    assert CtcRows(None).word_scores([1], [(0, 1)]) == [-math.inf]


TWO = 2
"""Blank of a vocabulary of two tokens, small enough for every path."""
FEW = st.lists(st.integers(0, 1), max_size=4)


def by_brute_force(log_probs: npt.NDArray[np.float32], text: Sequence[int]) -> float:
    """The summed probability of all paths that spell ``text``, taken one by one."""
    total = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        if [token for token, _ in itertools.groupby(path) if token != TWO] == list(text):
            total += float(np.exp(sum(float(log_probs[row, token]) for row, token in enumerate(path))))
    return total


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.01, 0.3, 1.0, 5.0]), min_size=3, max_size=3), min_size=1, max_size=5),
    st.lists(FEW, min_size=1, max_size=4),
)
def test_the_likelihood_is_the_sum_over_all_paths(weights: list[list[float]], texts: list[list[int]]) -> None:
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.array(weights, np.float32))
    found = log_likelihoods(log_probs, texts, TWO)
    assert found.shape == (len(texts),)
    for text, each in zip(texts, found, strict=True):
        expected = by_brute_force(log_probs, text)
        if expected == 0:
            assert each == -np.inf
        else:
            assert each == pytest.approx(np.log(expected), abs=1e-4)


def test_a_long_clip_does_not_underflow() -> None:
    """Two thousand rows with tokens of probability 0.001 leave one path, whose probability is too small for a
    double."""
    rows, text = 2000, [0, 1] * 1000
    log_probs = np.full((rows, 3), -np.inf, np.float32)
    log_probs[np.arange(rows), text] = np.log(0.001)
    (found,) = log_likelihoods(log_probs, [text], TWO)
    assert found == pytest.approx(rows * np.log(0.001), rel=1e-6)


def test_a_text_scores_the_same_alone_and_beside_others() -> None:
    log_probs = np.log(np.random.default_rng(1).dirichlet(np.ones(9), 30)).astype(np.float32)
    texts = [[], [3], [1, 1, 2], list(range(8)), [5] * 12]
    together = log_likelihoods(log_probs, texts, 8)
    alone = [float(log_likelihoods(log_probs, [text], 8)[0]) for text in texts]
    assert together == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(
    ("shape", "text", "message"),
    [((0, 3), [0], "log_probs"), ((2,), [0], "log_probs"), ((2, 3), [3], "lies outside"), ((2, 3), [2], "the blank")],
)
def test_what_is_no_text_of_the_head_is_refused(shape: tuple[int, ...], text: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        log_likelihoods(np.zeros(shape, np.float32), [text], TWO)


SAID = np.log(np.array([[0.9, 0.05, 0.05], [0.05, 0.05, 0.9], [0.05, 0.9, 0.05]], np.float32))
"""Token 0, the blank, token 1."""


def test_the_tail_is_that_of_the_last_clip_and_windows_stay() -> None:
    rows = CtcRows(TWO)
    rows.append(SAID[:1])
    rows.end(SAID[:1])
    rows.end(SAID[1:])
    found = rows.log_probs
    assert found is not None and np.array_equal(found, SAID)
    alignment = align(SAID, [0, 1], TWO)
    assert alignment is not None
    assert rows.word_scores([0, 1], [(0, 1), (1, 2)]) == alignment.score.tolist()
    rows.append(None)
    rows.end(None)
    found = rows.log_probs
    assert found is not None and np.array_equal(found, SAID[:1])


def test_without_a_head_nothing_is_heard() -> None:
    """Words have no score in a model without a CTC head, and before a clip was read."""
    for rows in (CtcRows(None), CtcRows(TWO)):
        assert rows.log_probs is None and rows.word_scores([0, 1], [(0, 1), (1, 2)]) == [-math.inf] * 2


@given(data=st.data())
def test_the_best_spot_is_the_best_of_all_paths(data: st.DataObject) -> None:
    """The best spot is the best path between any two rows, compared with each row's best token, by token."""
    rows = data.draw(st.integers(1, 5))
    log_probs = rows_saying([BLANK] * rows, sharpness=1.0, seed=data.draw(st.integers(0, 99)))[:, [0, 1, 5]]
    text = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=3))
    below = log_probs - log_probs.max(axis=1, keepdims=True)

    def reading(path: tuple[int, ...]) -> list[int]:
        return [label for label, _ in itertools.groupby(path) if label != 2]

    best = max(
        (
            sum(below[first + i, label] for i, label in enumerate(path)) / len(text)
            for first in range(rows)
            for length in range(1, rows - first + 1)
            for path in itertools.product(range(3), repeat=length)
            if path[0] == text[0] and path[-1] == text[-1] and reading(path) == text
        ),
        default=-math.inf,
    )
    (found,) = spots(log_probs, [text], 2, -1e9)
    assert (max(spot.score for spot in found) if found else -math.inf) == pytest.approx(best, abs=1e-5)
    assert all(a.last < b.first for a, b in itertools.pairwise(found))


def test_spots_tell_where_and_after_how_much() -> None:
    """All spots come in the order of their rows, and none where the tokens are missing or the rows too few."""
    log_probs = rows_saying([5, 1, 1, 5, 2, 3, 5, 4, 2, 5, 3], sharpness=30)
    found = spots(log_probs, [[2, 3], [1, 4], [4], [0] * 12], BLANK, -0.5)
    assert [[(s.first, s.last, s.place) for s in one] for one in found] == [
        [(4, 5, 1), (8, 10, 4)],
        [],
        [(7, 7, 3)],
        [],
    ]
    assert found[0][0].score == pytest.approx(0, abs=1e-3)
    silent = np.full((3, 6), -np.inf, np.float32)
    assert spots(silent, [[1]], BLANK, -5.0) == [[]]
    assert Spot(0, 0, 0, 0.0) in spots(rows_saying([1], sharpness=90), [[1]], BLANK, -5.0)[0]
