"""Recordings as a telephone passes them on. The augmentation on the device has narrow bands but no codec."""

import io
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import soundfile
from numpy.typing import NDArray

from audio.telephone import RATE as TELEPHONE
from audio.telephone import over_telephone
from training.shards import RATE, Clip

CODECS: Final = ("GSM610", "ULAW")
"""GSM 06.10 full rate of 13 kbit/s and µ-law, by the names that libsndfile gives them in WAV."""

_soundfile: Any = soundfile


def _coded(codec: str, narrow: NDArray[np.float32]) -> NDArray[np.float32]:
    file = io.BytesIO()
    _soundfile.write(file, narrow, TELEPHONE, format="WAV", subtype=codec)
    file.seek(0)
    coded, _ = _soundfile.read(file, dtype="float32")
    return coded


def _heard(samples: NDArray[np.int16], codec: str) -> NDArray[np.int16]:
    wave = over_telephone(samples.astype(np.float32) / 32768, RATE, partial(_coded, codec))
    return np.clip(np.rint(wave * 32768), -32768, 32767).astype(np.int16)


def telephoned(clips: Sequence[Clip], share: float, seed: int, processes: int) -> list[Clip]:
    """Give copies of a `share` of `clips`, drawn at random, each over a telephone."""
    rng = np.random.default_rng(seed)
    drawn = [clips[int(i)] for i in rng.permutation(len(clips))[: round(share * len(clips))]]
    with ProcessPoolExecutor(processes) as pool:
        heard = pool.map(_heard, [c.samples for c in drawn], rng.choice(CODECS, len(drawn)), chunksize=64)
        return [replace(clip, samples=samples) for clip, samples in zip(drawn, heard, strict=True)]
