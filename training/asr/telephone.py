"""Recordings as a telephone passes them on: augmentation on the device has narrow bands, but no codec."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audio.telephone import CODECS, over_telephone
from training.shards import RATE, Clip


def _heard(samples: NDArray[np.int16], codec: str) -> NDArray[np.int16]:
    wave = over_telephone(samples.astype(np.float32) / 32768, RATE, codec)
    return np.clip(np.rint(wave * 32768), -32768, 32767).astype(np.int16)


def telephoned(clips: Sequence[Clip], share: float, seed: int, processes: int) -> list[Clip]:
    """Copies of a `share` of `clips`, drawn at random, each over a telephone."""
    rng = np.random.default_rng(seed)
    drawn = [clips[int(i)] for i in rng.permutation(len(clips))[: round(share * len(clips))]]
    with ProcessPoolExecutor(processes) as pool:
        heard = pool.map(_heard, [c.samples for c in drawn], rng.choice(CODECS, len(drawn)), chunksize=64)
        return [replace(clip, samples=samples) for clip, samples in zip(drawn, heard, strict=True)]
