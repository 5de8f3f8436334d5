"""What a telephone passes on of speech."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr

Floats = npt.NDArray[np.float32]

RATE: Final = 8000
"""Hertz: the rate of telephone codecs."""
BAND: Final = (300, 3400)
"""Hertz: the band of a telephone line (ITU-T G.712)."""

_soxr: Any = soxr  # The package is typed incompletely.


def over_telephone(wave: Floats, rate: int, coded: Callable[[Floats], Floats]) -> Floats:
    """Make of float32 [n] at ``rate`` hertz what is left of it behind a telephone, as many samples at the same rate.
    ``coded`` gives what a codec leaves of samples at ``RATE``."""
    narrow = _soxr.resample(wave, rate, RATE)
    spectrum, hertz = np.fft.rfft(narrow), np.fft.rfftfreq(len(narrow), 1 / RATE)
    narrow = np.fft.irfft(spectrum * ((hertz >= BAND[0]) & (hertz <= BAND[1])), len(narrow))
    heard = np.zeros(len(wave), np.float32)
    back = _soxr.resample(coded(narrow.astype(np.float32)), RATE, rate)[: len(wave)]
    heard[: len(back)] = back
    return heard
