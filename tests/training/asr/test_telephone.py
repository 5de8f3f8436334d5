"""What a telephone leaves of a recording."""

import numpy as np
import pytest

pytest.importorskip("torch")

from training.asr.telephone import CODECS, over_telephone, telephoned
from training.shards import RATE, Clip


@pytest.mark.parametrize("codec", CODECS)
def test_what_lies_between_300_and_3400_hertz_comes_through(codec: str) -> None:
    """As loud as before, at the same place; what lies outside does not."""
    time = np.arange(RATE) / RATE

    def heard(hertz: float) -> float:
        wave = (8000 * np.sin(2 * np.pi * hertz * time)).astype(np.int16)
        out = over_telephone(wave, codec)
        assert out.dtype == np.int16 and len(out) == len(wave)
        return float(np.dot(out.astype(float), wave) / np.dot(wave.astype(float), wave))

    assert heard(1000) == pytest.approx(1, abs=0.15)
    assert abs(heard(100)) < 0.1 and abs(heard(6000)) < 0.1


def test_a_share_of_the_clips_is_there_once_more() -> None:
    """Others each time by another seed, their words the same; the clips themselves stay."""
    rng = np.random.default_rng(1)
    clips = [Clip(rng.integers(-9000, 9000, 4000 + i).astype(np.int16), f"clip {i}", "", "", "an4") for i in range(20)]
    copies = telephoned(clips, 0.25, 3, 1)
    assert len(copies) == 5 and len({c.text for c in copies}) == 5
    assert [c.text for c in copies] != [c.text for c in telephoned(clips, 0.25, 4, 1)]
    by_text = {c.text: c for c in clips}
    assert all(len(c.samples) == len(by_text[c.text].samples) for c in copies)
    assert not any(np.array_equal(c.samples, by_text[c.text].samples) for c in copies)
    assert telephoned(clips, 0.0, 3, 1) == []
