"""Kaldi's filter bank: the front end of Fun-ASR-Nano.

Contract: natural log mel energies as funasr's WavFrontend computes them without dither (samples of 16 bits, mean of a
frame taken off, pre-emphasis .97, Hamming window, power spectrum, floor at float32's epsilon). Frame t sees the samples
hop·t up to, not including, hop·t + frame_length, so no later sample changes it: n samples give 1 + (n - frame_length)
// hop of them. Row r is the ``stacked`` frames around frame step·r; where the clip has none, its first or last again.
"""

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.files import load_floats
from engines.manifest import FunAsr, Mel
from streaming.mel import LogMel, load_filters

Array = npt.NDArray[np.float32]

PRE_EMPHASIS: Final = 0.97
SCALE: Final = 32768.0
"""Samples are those of 16 bits."""


class Fbank(LogMel):
    """The front end of one model: what its sessions share."""

    def __init__(self, directory: Path, mel: Mel, spec: FunAsr, step: int) -> None:
        """``step``: frames from one row to the next.

        Raises:
            ManifestError: a table cannot be read or holds something else.
        """
        super().__init__(mel, load_filters(directory / mel.filters))
        self.spec, self.step = spec, step
        count = spec.frame_length
        self._window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(count) / (count - 1))
        self._cmvn = None if spec.cmvn is None else load_floats(directory / spec.cmvn)

    def count(self, samples: int) -> int:
        """Frames of a clip of so many samples."""
        return max(1 + (samples - self.spec.frame_length) // self.mel.hop_length, 0)

    def frames(self, padded: Array, count: int) -> Array:
        """Log mel energies of ``count`` frames, float32 [count, bins]; frame i begins at ``padded[hop·i]``."""
        length, hop = self.spec.frame_length, self.mel.hop_length
        windows = np.lib.stride_tricks.sliding_window_view(padded, length)[::hop][:count] * SCALE
        # In double precision, as LogMel's.
        centred = windows - windows.mean(axis=1, keepdims=True, dtype=np.float64)
        before = np.concatenate([centred[:, :1], centred[:, :-1]], axis=1)
        spectrum = np.fft.rfft((centred - PRE_EMPHASIS * before) * self._window, self.mel.n_fft)
        energy = self.energies(spectrum.real**2 + spectrum.imag**2)
        return np.log(np.maximum(energy, np.finfo(np.float32).eps)).astype(np.float32)

    def rows(self, frames: Array) -> Array:
        """Rows of a clip of ``frames`` [n, bins]: float32 [⌈n / step⌉, stacked · bins]."""
        starts = np.arange(0, len(frames), self.step) - (self.spec.stacked - 1) // 2
        places = np.clip(starts[:, None] + np.arange(self.spec.stacked), 0, len(frames) - 1)
        rows = frames[places].reshape(len(starts), -1)
        return rows if self._cmvn is None else (rows + self._cmvn[0]) * self._cmvn[1]
