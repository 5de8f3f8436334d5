"""The curve of turns: what counts as a false end, and recordings with pauses of their own room's tone."""

import math
import random

import numpy as np
import pytest

from bench.turns import RATE, Look, Looks, paused
from streaming.turn import Turn, spoken


def test_a_false_end_is_a_pause_that_outlasts_the_wait() -> None:
    """Waits are counted at true ends alone."""
    sure, unsure = spoken(["Yes."], 0.99), spoken(["and"], 0.01)
    looks = Looks(60.0, [Look(0.5, sure), Look(0.5, unsure), Look(math.inf, sure), Look(math.inf, unsure)])
    silent = looks.reached(lambda look: 0.4)
    assert (silent.false, silent.a_minute, silent.median, silent.p95) == (2, 2.0, 0.4, 0.4)
    ours = looks.reached(lambda look: Turn().wait(look.said))
    assert (ours.false, ours.median, ours.p95) == (1, 0.2, Turn().timeout)


def test_a_pause_sounds_like_the_room() -> None:
    """Nothing of the speech is lost, and the tone between is as loud as the quietest tenth of a second."""
    noise = np.random.default_rng(0).normal(0, 0.01, 2 * RATE).astype(np.float32)
    speech = noise + 0.3 * np.sin(np.arange(2 * RATE) / 20).astype(np.float32)
    speech[RATE : RATE + RATE // 5] = noise[: RATE // 5]
    found = paused(speech, [1.1], random.Random(1), (0.5, 0.5))
    cut = next(i for i in range(len(speech)) if not np.array_equal(found[: i + 1], speech[: i + 1]))
    assert 1.0 < cut / RATE < 1.2
    pause = found[cut : cut + RATE // 2]
    assert np.array_equal(found[cut + RATE // 2 :][: len(speech) - cut], speech[cut:])
    assert float(np.sqrt(np.mean(pause**2))) == pytest.approx(0.01, rel=0.2)
