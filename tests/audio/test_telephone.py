"""What a telephone leaves of a sound."""

import io

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from audio.telephone import RATE as TELEPHONE
from audio.telephone import over_telephone

RATE = 16000


@pytest.mark.parametrize("codec", ["GSM610", "ULAW"])
def test_what_lies_between_300_and_3400_hertz_comes_through(codec: str) -> None:
    """As loud as before, at the same place; what lies outside does not."""

    def coded(narrow: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        file = io.BytesIO()
        soundfile.write(file, narrow, TELEPHONE, format="WAV", subtype=codec)
        file.seek(0)
        return soundfile.read(file, dtype="float32")[0]

    time = np.arange(RATE) / RATE

    def heard(hertz: float) -> float:
        wave = (0.25 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)
        out = over_telephone(wave, RATE, coded)
        assert out.dtype == np.float32 and len(out) == len(wave)
        return float(np.dot(out, wave) / np.dot(wave, wave))

    assert heard(1000) == pytest.approx(1, abs=0.15)
    assert abs(heard(100)) < 0.1 and abs(heard(6000)) < 0.1
