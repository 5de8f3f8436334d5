"""The pitch of speech, and whether it rises at the end."""

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

FRAME, HOP = 0.04, 0.01
"""Seconds of a frame, and from one frame to the next."""
LOWEST, HIGHEST = 60, 400
"""Hertz within which a voice is looked for."""
UNVOICED: Final = 0.2
"""A frame whose normalised difference stays above has no pitch, as YIN has it (de Cheveigné and Kawahara, 2002)."""
QUIET: Final = 1e-5
"""Mean square below which a frame is silence."""
END, BEFORE = 8, 24
"""Voiced frames, 10 ms each, of the end of what is said, and before it. The last one of all is left out."""


def pitch(wave: Floats, rate: int) -> npt.NDArray[np.float64]:
    """Hertz of every frame of a recording float32 [n], by YIN; 0 where there is no voice."""
    samples = wave.astype(np.float64)
    size, hop, low, high = (round(x) for x in (FRAME * rate, HOP * rate, rate / HIGHEST, rate / LOWEST))
    found = list[float]()
    for at in range(0, len(samples) - size - high, hop):
        part = samples[at : at + size + high]
        if np.square(part[:size]).mean() < QUIET:
            found.append(0.0)
            continue
        lagged = np.lib.stride_tricks.sliding_window_view(part, size)[1:high]
        difference = np.square(lagged - part[:size]).sum(1)
        normal = difference * np.arange(1, high) / np.maximum(np.cumsum(difference), 1e-9)
        dips = np.flatnonzero(normal[low - 1 :] < UNVOICED)
        if not len(dips):
            found.append(0.0)
            continue
        lag = low - 1 + int(dips[0])
        while lag + 1 < len(normal) and normal[lag + 1] < normal[lag]:
            lag += 1
        found.append(rate / (lag + 1))
    return np.array(found)


def rise(wave: Floats, rate: int) -> float | None:
    """By how many semitones the end of a recording float32 [n] lies above the lowest pitch shortly before it; below 0
    where it falls. None where too little of it is voiced."""
    found = pitch(wave, rate)
    voiced = found[found > 0]
    if len(voiced) < END + BEFORE // 2:
        return None
    smooth = np.array([np.median(voiced[max(0, i - 2) : i + 3]) for i in range(len(voiced))])
    before = smooth[-END - BEFORE : -END]
    return float(12 * np.log2(np.median(smooth[-END:-1]) / before.min()))
