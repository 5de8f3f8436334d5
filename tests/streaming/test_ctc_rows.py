"""CTC rows of a segment: which clip they tell of, and what a segment without any says."""

import math

import numpy as np

from streaming.alignment import word_scores
from streaming.ctc_rows import CtcRows

SAID = np.log(np.array([[0.9, 0.05, 0.05], [0.05, 0.05, 0.9], [0.05, 0.9, 0.05]], np.float32))
"""Token 0, the blank, token 1."""


def test_the_tail_is_that_of_the_last_clip_and_windows_stay() -> None:
    rows = CtcRows(2)
    rows.append(SAID[:1])
    rows.end(SAID[:1])
    rows.end(SAID[1:])
    found = rows.log_probs
    assert found is not None and np.array_equal(found, SAID)
    assert rows.supports([0, 1], (0, 2))
    assert rows.word_scores([0, 1], [(0, 1), (1, 2)]) == word_scores(SAID, [0, 1], [(0, 1), (1, 2)], 2)
    rows.append(None)
    rows.end(None)
    found = rows.log_probs
    assert found is not None and np.array_equal(found, SAID[:1])


def test_what_was_not_heard_is_not_supported() -> None:
    rows = CtcRows(2)
    rows.end(np.log(np.full((4, 3), 1e-4, np.float32)))
    assert not rows.supports([0, 1], (0, 2))
    assert not rows.supports([0] * 9, (0, 9))  # no path spells it


def test_without_a_head_nothing_is_heard() -> None:
    """Neither where the model has none nor before a clip was read."""
    for rows in (CtcRows(None), CtcRows(2)):
        assert rows.log_probs is None
        assert not rows.supports([0], (0, 1)) and rows.word_scores([0, 1], [(0, 1), (1, 2)]) == [-math.inf] * 2
