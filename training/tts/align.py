"""Phone labels for recordings: the synthetic voice says the same text, and its labels follow the warping of one onto
the other.

Dynamic time warping over log-mel spectra, each recording's bands normalised by themselves so that the speaker falls
out.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from training.tts.config import LABEL
from training.tts.phones import SILENCE
from training.tts.spectra import LogMel

_BANDS = 40
_TOP = 34  # bands up to about 7 kHz: the synthetic voice holds nothing above 8 kHz
_QUIET = 0.025  # of the loudest 20 ms: silence, whatever the warping says
_STEP_COST = 0.15  # discourages one recording standing still


def features(wave: NDArray[np.int16]) -> NDArray[np.float32]:
    """int16 [480 · n] at 24 kHz -> normalised log-mels with differences, float32 [n, 68]."""
    spectra = LogMel(1024, LABEL, _BANDS)
    with torch.inference_mode():
        mel = spectra(torch.from_numpy(wave.astype(np.float32) / 32768)[None])[0, :_TOP].T.numpy()
    mel = (mel - mel.mean(0)) / (mel.std(0) + 1e-3)
    change = np.gradient(mel, axis=0)
    return np.concatenate([mel, change / (change.std(0) + 1e-3)], 1).astype(np.float32)


def warp(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.int64]:
    """For every row of a [n, d] the row of b [m, d] it matches, int64 [n], never going back."""
    n, m = len(a), len(b)
    cost = np.sqrt(np.maximum(np.square(a).sum(1)[:, None] + np.square(b).sum(1)[None] - 2 * a @ b.T, 0)) / np.sqrt(
        a.shape[1]
    )
    total = np.full((n + 1, m + 1), np.inf)
    total[0, 0] = 0.0
    # Cells of one anti-diagonal depend on the two before it only.
    for d in range(2, n + m + 1):
        i = np.arange(max(1, d - m), min(n, d - 1) + 1)
        j = d - i
        best = np.minimum(total[i - 1, j - 1], np.minimum(total[i - 1, j], total[i, j - 1]) + _STEP_COST)
        total[i, j] = best + cost[i - 1, j - 1]
    path = np.zeros(n, np.int64)
    i, j = n, m
    while i > 0:
        path[i - 1] = j - 1
        choices = (total[i - 1, j - 1], total[i - 1, j] + _STEP_COST, total[i, j - 1] + _STEP_COST)
        step = int(np.argmin(choices))
        i, j = (i - 1, j - 1) if step == 0 else (i - 1, j) if step == 1 else (i, j - 1)
    return path


def quiet(wave: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Labels whose 20 ms are silent, bool [samples / 480]; single quiet labels do not count."""
    level = np.sqrt(np.square(wave.astype(np.float32)).reshape(-1, LABEL).mean(1))
    low = level < _QUIET * level.max()
    before, after = np.r_[low[:1], low[:-1]], np.r_[low[1:], low[-1:]]
    return low & (before | after)


def transfer(wave: NDArray[np.int16], spoken: NDArray[np.int16], labels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Labels of the recording `wave`, taken from `labels` of the synthetic `spoken` of the same text."""
    out = labels[warp(features(wave), features(spoken))].copy()
    out[quiet(wave)] = SILENCE
    return out
