"""What a telephone passes on of speech."""

import io
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

Floats = npt.NDArray[np.float32]

RATE: Final = 8000
BAND: Final = (300, 3400)
"""Hertz."""
CODECS: Final = ("GSM610", "ULAW")
"""GSM 06.10 full rate, 13 kbit/s; µ-law. Names of libsndfile's, in WAV."""

_soxr: Any = soxr  # incompletely typed
_soundfile: Any = soundfile


def over_telephone(wave: Floats, rate: int, codec: str) -> Floats:
    """float32 [n] at ``rate`` hertz → as many, at the same rate. ``codec``: one of :data:`CODECS`."""
    narrow = _soxr.resample(wave, rate, RATE)
    spectrum, hertz = np.fft.rfft(narrow), np.fft.rfftfreq(len(narrow), 1 / RATE)
    narrow = np.fft.irfft(spectrum * ((hertz >= BAND[0]) & (hertz <= BAND[1])), len(narrow))
    file = io.BytesIO()
    _soundfile.write(file, narrow, RATE, format="WAV", subtype=codec)
    file.seek(0)
    coded, _ = _soundfile.read(file, dtype="float32")
    heard = np.zeros(len(wave), np.float32)
    back = _soxr.resample(coded, RATE, rate)[: len(wave)]
    heard[: len(back)] = back
    return heard
