"""What a telephone leaves of a sound."""

import numpy as np
import pytest

from audio.telephone import CODECS, over_telephone

RATE = 16000


@pytest.mark.parametrize("codec", CODECS)
def test_what_lies_between_300_and_3400_hertz_comes_through(codec: str) -> None:
    """As loud as before, at the same place; what lies outside does not."""
    time = np.arange(RATE) / RATE

    def heard(hertz: float) -> float:
        wave = (0.25 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)
        out = over_telephone(wave, RATE, codec)
        assert out.dtype == np.float32 and len(out) == len(wave)
        return float(np.dot(out, wave) / np.dot(wave, wave))

    assert heard(1000) == pytest.approx(1, abs=0.15)
    assert abs(heard(100)) < 0.1 and abs(heard(6000)) < 0.1
