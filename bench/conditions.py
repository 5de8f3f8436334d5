"""The same speech in a room, over a telephone, among other voices; everything follows from seeds.

Arrays are float32 mono at :data:`RATE`.
"""

import io
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soundfile

from audio.telephone import RATE as TELEPHONE
from audio.telephone import over_telephone

Floats = npt.NDArray[np.float32]
Random = np.random.Generator

RATE: Final = 16_000
REVERBERATION: Final = 0.5
"""Seconds in which the echo of the room falls by 60 dB. Direct sound and echo are equally strong."""
PRE_DELAY: Final = 0.004
"""Seconds between the direct sound and the first echo: a wall at 0.7 m."""
TALKERS: Final = 5
"""The number of other people who talk."""
BABBLE: Final = 10.0
"""Decibels by which the speaker is louder than all others together."""

_soundfile: Any = soundfile


def room(wave: Floats, random: Random, others: Sequence[Floats]) -> Floats:
    """Heard at the distance where direct sound and decaying echo carry the same energy."""
    del others
    time = np.arange(round(2 * REVERBERATION * RATE)) / RATE
    echo = random.standard_normal(len(time)) * 10 ** (-3 * time / REVERBERATION) * (time >= PRE_DELAY)
    echo /= np.sqrt(np.sum(echo**2))
    echo[0] += 1
    size = len(wave) + len(echo)
    return _level(np.fft.irfft(np.fft.rfft(wave, size) * np.fft.rfft(echo, size), size)[: len(wave)], wave)


def telephone(wave: Floats, random: Random, others: Sequence[Floats]) -> Floats:
    """By GSM 06.10 full rate, 13 kbit/s, as :mod:`audio.telephone` says."""
    del random, others
    return over_telephone(wave, RATE, _gsm)


def _gsm(narrow: Floats) -> Floats:
    file = io.BytesIO()
    _soundfile.write(file, narrow, TELEPHONE, format="WAV", subtype="GSM610")
    file.seek(0)
    coded, _ = _soundfile.read(file, dtype="float32")
    return coded


def babble(wave: Floats, random: Random, others: Sequence[Floats]) -> Floats:
    """Five other recordings at once, from anywhere in them, going round."""
    crowd = np.zeros(len(wave))
    for i in random.permutation(len(others))[:TALKERS]:
        other = others[int(i)]
        crowd += _level(np.resize(np.roll(other, int(random.integers(max(len(other), 1)))), len(wave)), wave)
    mixed = wave + _level(crowd, wave) * 10 ** (-BABBLE / 20)
    return np.asarray(mixed / max(1.0, float(np.abs(mixed).max(initial=0.0))), np.float32)


CONDITIONS: Final[dict[str, Callable[[Floats, Random, Sequence[Floats]], Floats]]] = {
    "in a room": room,
    "over a telephone": telephone,
    "babble at 10 dB": babble,
}
"""What the table calls a condition → what makes it, of a recording and of other people's."""


def flac(wave: Floats) -> bytes:
    """The samples as a file, clipped at full scale."""
    file = io.BytesIO()
    _soundfile.write(file, np.clip(wave, -1, 1), RATE, format="FLAC")
    return file.getvalue()


def _level(wave: npt.NDArray[Any], like: Floats) -> Floats:
    """``wave`` as loud as ``like`` (RMS)."""
    ours, theirs = (float(np.sqrt(np.mean(np.square(one)))) for one in (wave, like))
    return np.asarray(wave * (theirs / max(ours, 1e-9)), np.float32)
