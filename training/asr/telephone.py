"""Recordings as a telephone passes them on: 8 kHz, 300 to 3400 Hz, coded by GSM 06.10 or µ-law. Augmentation on the
device has narrow bands, but no codec."""

import io
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from training.shards import RATE, Clip

CODECS = ("GSM610", "ULAW")  # of libsndfile's WAV
_RATE, _BAND = 8000, (300, 3400)


def over_telephone(samples: NDArray[np.int16], codec: str) -> NDArray[np.int16]:
    """int16 at 16 kHz -> as many of what comes out. codec: of CODECS."""
    narrow = soxr.resample(samples / 32768, RATE, _RATE)
    spectrum, hertz = np.fft.rfft(narrow), np.fft.rfftfreq(len(narrow), 1 / _RATE)
    narrow = np.fft.irfft(spectrum * ((hertz >= _BAND[0]) & (hertz <= _BAND[1])), len(narrow))
    file = io.BytesIO()
    soundfile.write(file, narrow, _RATE, format="WAV", subtype=codec)
    file.seek(0)
    coded, _ = soundfile.read(file)
    heard = np.zeros(len(samples))
    back = soxr.resample(coded, _RATE, RATE)[: len(samples)]
    heard[: len(back)] = back
    return np.clip(np.rint(heard * 32768), -32768, 32767).astype(np.int16)


def telephoned(clips: Sequence[Clip], share: float, seed: int, processes: int) -> list[Clip]:
    """Copies of a `share` of `clips`, drawn at random, each over a telephone."""
    rng = np.random.default_rng(seed)
    drawn = [clips[int(i)] for i in rng.permutation(len(clips))[: round(share * len(clips))]]
    with ProcessPoolExecutor(processes) as pool:
        heard = pool.map(over_telephone, [c.samples for c in drawn], rng.choice(CODECS, len(drawn)), chunksize=64)
        return [replace(clip, samples=samples) for clip, samples in zip(drawn, heard, strict=True)]
