"""Drawing codes: the official order, and what a seed promises."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.guards import FRAMES_A_BYTE, FRAMES_A_DIGIT, FRAMES_BASE, LOOP_FRAMES, SILENT_FRAMES, Guard, loops
from codec.sampling import Sampling, draw, draws, generator, penalise
from engines.manifest import NAME, ManifestError, read_tts


def logits(seed: int, size: int = 200) -> np.ndarray:
    """Logits as spread as a model's."""
    return (np.random.default_rng(seed).standard_normal(size) * 3).astype(np.float32)


def chances(scores: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """What transformers' processors make of ``scores``, written out plainly: temperature, then top-k, then top-p."""
    x = scores.astype(np.float64) / temperature
    if top_k:
        x[x < np.sort(x)[-top_k]] = -np.inf
    p = np.exp(x - x.max())
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    kept = np.cumsum(p[order]) - p[order] < top_p  # the first that reaches top_p stays
    p[order[~kept]] = 0
    return p / p.sum()


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(0.9, 50, 1.0), (0.6, 0, 0.8), (1.5, 10, 0.5), (1.0, 1, 1.0)]
)
def test_codes_are_drawn_with_the_official_chances(temperature: float, top_k: int, top_p: float) -> None:
    """20 000 draws against the distribution computed from its definition."""
    scores, random = logits(1), generator(7, 0)
    drawn = [
        draw(scores, random, temperature=temperature, top_k=top_k, top_p=top_p, greedy=False) for _ in range(20_000)
    ]
    expected = chances(scores, temperature, top_k, top_p)
    found = np.bincount(drawn, minlength=len(scores)) / len(drawn)
    assert not found[expected == 0].any()
    assert np.abs(found - expected).max() < 0.015


@given(seed=st.integers(0, 2**63 - 1), piece=st.integers(0, 1000))
def test_a_seed_and_a_piece_name_the_draws(seed: int, piece: int) -> None:
    """The same draws again; other ones for the next piece."""

    def draws(s: int, p: int) -> list[int]:
        random = generator(s, p)
        return [draw(logits(i), random, temperature=1.0, top_k=50, top_p=1.0, greedy=False) for i in range(12)]

    assert draws(seed, piece) == draws(seed, piece)
    assert draws(seed, piece) != draws(seed, piece + 1)


def test_each_draw_uses_one_random_number() -> None:
    """So a draw does not depend on how wide the distribution before it was."""
    random, plain = generator(3, 0), generator(3, 0)
    for i in range(5):
        draw(
            logits(i),
            random,
            temperature=1.0,
            top_k=[1, 50, 0, 7, 3][i],
            top_p=[1.0, 0.5, 0.9, 1.0, 0.1][i],
            greedy=False,
        )
        plain.random()
    assert random.random() == plain.random()


def test_what_is_banned_is_never_drawn() -> None:
    """−inf stays impossible when fewer codes are left than top_k."""
    scores = logits(2)
    scores[5:] = -np.inf
    random = generator(1, 1)
    assert {draw(scores, random, temperature=2.0, top_k=50, top_p=1.0, greedy=False) for _ in range(500)} <= set(
        range(5)
    )


def test_the_penalty_lowers_what_was_drawn_once_each() -> None:
    """Positive logits are divided, negative ones multiplied, the given array is not touched."""
    scores = np.array([2.0, -2.0, 1.0], np.float32)
    out = penalise(scores, np.array([0, 1]), 2.0)
    assert out.tolist() == [1.0, -4.0, 1.0]
    assert scores.tolist() == [2.0, -2.0, 1.0]


def test_sampling_names_the_number_that_is_out_of_range() -> None:
    """Temperature, top_p, top_k."""
    for field, value in (("temperature", 0.0), ("top_p", 1.5), ("predictor_top_k", -1), ("repetition_penalty", 0.0)):
        with pytest.raises(ValueError, match=f"^{field}: "):
            Sampling(**{field: value})


def test_a_manifest_with_a_number_out_of_range_is_refused(tts_directory: Path, tmp_path: Path) -> None:
    """When it is read, not when somebody speaks."""
    text = (tts_directory / NAME).read_text()
    assert '"top_p": 1.0' in text
    (tmp_path / NAME).write_text(text.replace('"top_p": 1.0', '"top_p": 1.5', 1))
    with pytest.raises(ManifestError, match=r"top_p: 1\.5 lies outside"):
        read_tts(tmp_path)


def test_the_frame_budget_grows_with_the_text() -> None:
    """Once the text is read the piece may take so many frames; before, it may not be ended by it."""
    guard = Guard(cap=10_000)
    guard.read("Ġhello")
    guard.read("7")
    codes: list[int] = []
    limit = FRAMES_BASE + int(6 * FRAMES_A_BYTE + FRAMES_A_DIGIT)
    for i in range(limit):
        codes.append(i * 7919 % 1009)
        reason = guard.frame(codes, text_ended=True)
        assert (reason == "budget") == (i == limit - 1)
    guard = Guard(cap=FRAMES_BASE + 50)
    reasons = [guard.frame([i], text_ended=False) for i in range(FRAMES_BASE + 50)]
    assert reasons[-1] == "cap"
    assert not any(reasons[:-1])


def test_loops_are_told_from_repetition_in_speech() -> None:
    """A short held sound is speech; two seconds of a turning block are not."""
    assert not loops([5] * (LOOP_FRAMES - 1))
    assert loops([1, 2, *[5] * LOOP_FRAMES])
    assert loops([9, 8, *[1, 2, 3, 4, 5, 6, 7] * 4])
    assert not loops([i * 7919 % 1009 for i in range(400)])


def test_silence_counts_only_after_the_text() -> None:
    """Whole silent frames in a row; sound in between starts the count again."""
    guard, silence = Guard(cap=10_000), np.zeros(1920, np.float32)
    for _ in range(100):
        assert guard.audio(silence, 1920, text_ended=False) is None
    for _ in range(SILENT_FRAMES - 1):
        assert guard.audio(silence, 1920, text_ended=True) is None
    assert guard.audio(np.full(1920, 0.1, np.float32), 1920, text_ended=True) is None
    assert guard.audio(np.zeros(1920 * SILENT_FRAMES, np.float32), 1920, text_ended=True) == "silence"


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (50, 1.0), (50, 0.8), (5, 0.5)])
def test_draws_of_many_are_those_of_each(top_k: int, top_p: float, greedy: bool) -> None:
    logits = np.random.default_rng(top_k).normal(0, 3, (7, 200)).astype(np.float32)
    logits[:, 3] = logits[:, 9]  # a tie
    many = draws(logits, [generator(1, i) for i in range(7)], temperature=0.9, top_k=top_k, top_p=top_p, greedy=greedy)
    each = [
        draw(row, generator(1, i), temperature=0.9, top_k=top_k, top_p=top_p, greedy=greedy)
        for i, row in enumerate(logits)
    ]
    assert many == each
