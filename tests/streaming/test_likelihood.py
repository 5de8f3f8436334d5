"""CTC likelihoods of texts against the sum over every path."""

from collections.abc import Sequence
from itertools import groupby, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.likelihood import log_likelihoods

BLANK = 2
FEW = st.lists(st.integers(0, 1), max_size=4)


def by_brute_force(log_probs: npt.NDArray[np.float32], text: Sequence[int]) -> float:
    """The probability of every path that spells ``text``, one by one."""
    total = 0.0
    for path in product(range(log_probs.shape[1]), repeat=len(log_probs)):
        if [token for token, _ in groupby(path) if token != BLANK] == list(text):
            total += float(np.exp(sum(float(log_probs[row, token]) for row, token in enumerate(path))))
    return total


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.01, 0.3, 1.0, 5.0]), min_size=3, max_size=3), min_size=1, max_size=5),
    st.lists(FEW, min_size=1, max_size=4),
)
def test_the_likelihood_is_the_sum_over_all_paths(weights: list[list[float]], texts: list[list[int]]) -> None:
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.array(weights, np.float32))
    found = log_likelihoods(log_probs, texts, BLANK)
    assert found.shape == (len(texts),)
    for text, each in zip(texts, found, strict=True):
        expected = by_brute_force(log_probs, text)
        if expected == 0:
            assert each == -np.inf
        else:
            assert each == pytest.approx(np.log(expected), abs=1e-4)


def test_a_long_clip_does_not_underflow() -> None:
    """Two thousand rows, each token of probability 0.001: one path, whose probability no double holds."""
    rows, text = 2000, [0, 1] * 1000
    log_probs = np.full((rows, 3), -np.inf, np.float32)
    log_probs[np.arange(rows), text] = np.log(0.001)
    (found,) = log_likelihoods(log_probs, [text], BLANK)
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
        log_likelihoods(np.zeros(shape, np.float32), [text], BLANK)
