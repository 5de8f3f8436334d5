"""The golden speaking model: its graph, GGUFs and tables give what the official code gave, without torch."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.integrity import verify
from tests.reference.tts.chain import Chain
from tests.reference.tts.stepper import Stepper

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "tts"
TEXT = "The king is singing: 27 songs, one by one, until the morning."
STRIDE = 29
OFFICIAL = np.load(GOLDEN / "official.npz")


@pytest.fixture(scope="module")
def stepper() -> Stepper:
    return Stepper(GOLDEN / "model")


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    made = Chain(GOLDEN / "model")
    yield made
    made.close()


def test_the_directory_is_whole() -> None:
    """Sizes and checksums are right, and the directory is small enough for the repository."""
    verify(GOLDEN / "model")
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()) <= 2_000_000


@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.tuples(st.integers(1, 64), st.integers(0, 8)), min_size=1, max_size=8))
def test_any_cutting_gives_the_official_samples(cuts: list[tuple[int, int]]) -> None:
    """However 300 frames of 1920 samples are cut, samples differ by at most 4.2e-4, with an RMS of .15."""
    wave, _ = Stepper(GOLDEN / "model").decode(OFFICIAL["codes"].astype(np.int64), cuts)
    assert wave.shape == (300 * 1920,)
    assert OFFICIAL["rms"] >= 0.05
    assert np.abs(wave[::STRIDE] - OFFICIAL["wave"]).max() <= 4.2e-4


def test_frames_one_by_one_give_the_samples_of_one_call(stepper: Stepper) -> None:
    """Samples and state differ by at most 1e-4 of the RMS."""
    codes = OFFICIAL["codes"][:100].astype(np.int64)
    single, state = stepper.decode(codes, [(1, 0)])
    whole, expected = stepper.decode(codes, [(100, 0)])
    assert np.abs(single - whole).max() <= 1e-4 * OFFICIAL["rms"]
    for kept, wanted in zip(state, expected, strict=True):
        assert np.abs(kept - wanted).max() <= 1e-5 * max(1.0, float(np.abs(wanted).max()))


def test_prompt_rows_are_the_official_ones(chain: Chain) -> None:
    """The rows are official in the streaming layout, with a preset voice and a language."""
    prompt = chain.prompt(TEXT, voice="ryan", language="en")
    assert np.abs(prompt.rows - OFFICIAL["rows"]).max() <= 1e-5
    assert np.abs(prompt.trailing - OFFICIAL["trailing"]).max() <= 1e-5


def test_greedy_frames_are_the_official_ones(chain: Chain) -> None:
    """All codebooks of 50 greedy frames are the official model's."""
    assert len(np.unique(OFFICIAL["frames"][:, 0])) >= 20
    frames, _ = chain.frames(chain.prompt(TEXT, voice="ryan", language="en"), 50)
    assert np.array_equal(frames, OFFICIAL["frames"])
