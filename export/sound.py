"""Audio to measure with: deterministic, and a little like speech."""

import numpy as np
from numpy.typing import NDArray

RATE = 16_000


def sound(seconds: float, seed: int) -> NDArray[np.float32]:
    """``seconds`` of voiced and noisy stretches of changing pitch and loudness: float32 [n], the same for a seed."""
    random = np.random.default_rng(seed)
    count = round(seconds * RATE)
    time = np.arange(count) / RATE
    pitch = 110 + 60 * np.sin(2 * np.pi * (0.7 + (0.2 * seed) % 1) * time + seed)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    voice = sum(np.sin(k * phase + k * seed) / k for k in range(1, 20))
    syllables = np.clip(np.sin(2 * np.pi * 3.1 * time + seed), 0, 1) * (0.3 + random.random())
    hiss = random.standard_normal(count) * np.clip(np.sin(2 * np.pi * 1.9 * time + 2 * seed), 0, 1)
    return (0.1 * voice * syllables + 0.05 * hiss + 0.001 * random.standard_normal(count)).astype(np.float32)
