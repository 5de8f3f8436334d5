"""Log-mel features of audio that is still coming: a frame is computed once, as soon as no later sample can change it.

Contract: log10 mel energies as Whisper's feature extractor defines them, which Qwen3-ASR uses (periodic Hann window,
centred frames, reflected edges, power spectrum, clamp at 1e-10, the last frame dropped: n samples give n // hop of
them). Frame t sees the samples hop·t - n_fft/2 up to, not including, hop·t + n_fft/2. Values are bit-identical however
the samples were cut. ``normalise`` applies the floor afterwards, since a stream knows its floor later than its frames.
"""

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.files import load_array
from engines.manifest import ClipFloor, ManifestError, Mel

Array = npt.NDArray[np.float32]

CLAMP: Final = 1e-10
"""The smallest mel energy, as in Whisper's extractor. Its log10, -10, is what digital silence gives."""
SHORTEST_CLIP: Final = 0.5
"""To how many seconds the official extractor pads shorter clips with zeros (transformers' Qwen3-ASR)."""
_BLOCK: Final = 512
"""How many frames are computed at once. This bounds the working memory of a long feed: 512 · 400 · 8 bytes a window."""


def load_filters(path: Path) -> Array:
    """The mel filter bank of a .npy file: float32 [bins, n_fft // 2 + 1].

    Raises:
        ManifestError: the file cannot be read, or holds something else.
    """
    filters = load_array(path)
    if filters.dtype != np.float32 or filters.ndim != 2:
        raise ManifestError(f"{path}: float32 [bins, n_fft // 2 + 1] expected, found {filters.dtype} {filters.shape}")
    return filters


def official_length(samples: int, sample_rate: int = 16_000) -> int:
    """The length, in samples, to which the official extractor pads a clip of ``samples`` with zeros: at least 0.5 s."""
    return max(samples, round(SHORTEST_CLIP * sample_rate))


def normalise(log10_mel: Array, floor_value: float) -> Array:
    """Log10 mel energies, any shape, clamped from below at ``floor_value`` and scaled: (x + 4) / 4, float32."""
    return (np.maximum(log10_mel, np.float32(floor_value)) + np.float32(4)) / np.float32(4)


class LogMel:
    """The front end of one model, which all its streams share.

    Args:
        mel: the model's ``mel`` manifest entry.
        filters: float32 [mel.bins, mel.n_fft // 2 + 1].

    Raises:
        ValueError: the filter bank has another shape.
    """

    def __init__(self, mel: Mel, filters: Array) -> None:
        if filters.shape != (mel.bins, mel.n_fft // 2 + 1):
            raise ValueError(f"filters: shape {filters.shape}, the manifest says {(mel.bins, mel.n_fft // 2 + 1)}")
        self.mel = mel
        self._window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(mel.n_fft) / mel.n_fft)
        # A triangular filter covers few bins, so the bank is kept as runs of non-zero weights, one run a filter. That
        # is fast, and a sum over a run rounds the same however many frames there are; a BLAS product may not.
        runs = [np.flatnonzero(row) for row in filters]
        runs = [run if run.size else np.zeros(1, np.intp) for run in runs]
        self._columns = np.concatenate(runs)
        self._weights = np.concatenate([row[run] for row, run in zip(filters, runs, strict=True)]).astype(np.float64)
        self._starts = np.cumsum([0, *(run.size for run in runs[:-1])])

    def frames(self, padded: Array, count: int) -> Array:
        """Log10 mel energies of ``count`` frames, float32 [count, bins]; frame i sees padded[hop·i : hop·i + n_fft]."""
        mel = self.mel
        out = np.empty((count, mel.bins), np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(padded, mel.n_fft)[:: mel.hop_length] if count else padded
        for first in range(0, count, _BLOCK):
            last = min(first + _BLOCK, count)
            # The spectrum is in double precision: single precision loses quiet bins beside a loud one, and is no
            # faster.
            spectrum = np.fft.rfft(windows[first:last] * self._window)
            power = spectrum.real**2 + spectrum.imag**2
            out[first:last] = np.log10(np.maximum(self.energies(power), CLAMP))
        return out

    def energies(self, power: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Mel energies [frames, bins] of power spectra [frames, n_fft // 2 + 1]."""
        return np.add.reduceat(power[:, self._columns] * self._weights, self._starts, axis=1)

    def log10(self, samples: Array) -> Array:
        """Log10 mel energies of a whole clip, without a floor: float32 [bins, len(samples) // hop]."""
        stream = MelStream(self)
        stream.feed(samples)
        return np.concatenate([stream.frames(0, stream.stable), stream.tail()], axis=1)

    def clip(self, samples: Array) -> Array:
        """Normalised features of a whole clip, the manifest's floor applied: float32 [bins, len(samples) // hop].

        A clip under 0.5 s is not padded here (``official_length``): callers decide.
        """
        log10_mel, floor = self.log10(samples), self.mel.floor
        loudest = float(log10_mel.max(initial=np.log10(CLAMP)))
        return normalise(log10_mel, loudest - floor.range if isinstance(floor, ClipFloor) else floor.log10)


class MelStream:
    """The frames of one stretch of audio while it arrives. The audio is reflected at its first sample.

    It keeps at most n_fft + hop samples, and the frames since the last ``drop`` (bins · 4 bytes each).
    """

    def __init__(self, mel: LogMel) -> None:
        self._mel = mel
        self._half = mel.mel.n_fft // 2
        self._hop = mel.mel.hop_length
        self._fed = 0
        self._samples = np.zeros(0, np.float32)
        self._first_sample = 0
        self._rows = np.zeros((0, mel.mel.bins), np.float32)
        self._first_row = 0
        self._row_count = 0

    @property
    def stable(self) -> int:
        """How many frames no later sample can change: those whose window ends inside what was fed."""
        # The first frame needs one sample more, since reflection at the left edge reads sample n_fft / 2.
        return (self._fed - self._half) // self._hop + 1 if self._fed > self._half else 0

    @property
    def kept_from(self) -> int:
        """The first frame that ``frames`` still has."""
        return self._first_row

    def feed(self, samples: Array) -> None:
        """Append samples, float32 [n], and compute the frames they complete."""
        done = self.stable
        self._samples = np.concatenate([self._samples, samples])
        self._fed += len(samples)
        if self.stable > done:
            self._append(self._mel.frames(self._windows(done, self._samples), self.stable - done))
            # The next frame's window needs the last samples, and so does the reflection if the audio ends soon.
            keep_from = max(self._hop * self.stable - self._half, 0)
            keep_from = min(keep_from, self._fed - self._half - 1)
            self._samples = self._samples[keep_from - self._first_sample :].copy()
            self._first_sample = keep_from

    def frames(self, start: int, stop: int) -> Array:
        """Log10 mel energies of the stable frames start…stop-1, without a floor: float32 [bins, stop - start].

        Raises:
            IndexError: some of them were dropped or are not stable yet.
        """
        if not self._first_row <= start <= stop <= self.stable:
            raise IndexError(f"frames {start}…{stop} asked, {self._first_row}…{self.stable} are here")
        return np.ascontiguousarray(self._rows[start - self._first_row : stop - self._first_row].T)

    def tail(self) -> Array:
        """The frames after the stable ones, as they would be if the audio ended now: float32 [bins, fed // hop -
        stable]."""
        first, count = self.stable, self._fed // self._hop - self.stable
        if count <= 0:
            return np.zeros((self._mel.mel.bins, 0), np.float32)
        reflected = np.pad(self._samples, (0, self._half), mode="reflect")
        return np.ascontiguousarray(self._mel.frames(self._windows(first, reflected), count).T)

    def drop(self, before_frame: int) -> None:
        """Forget the frames before ``before_frame``; frames that are not stable yet are not dropped."""
        keep = min(max(before_frame, self._first_row), self.stable)
        self._rows = self._rows[keep - self._first_row : self._row_count].copy()
        self._row_count -= keep - self._first_row
        self._first_row = keep

    def _windows(self, frame: int, samples: Array) -> Array:
        """The part of ``samples`` from the first sample of the window of ``frame`` on; ``samples`` begin where the
        stream's kept samples do."""
        start = self._hop * frame - self._half
        if start >= 0:
            return samples[start - self._first_sample :]
        # The window begins before sample 0, about which the audio is reflected; it is kept while a frame needs it.
        reflected = np.pad(samples, (self._half, 0), mode="reflect")
        return reflected[self._half + start :]

    def _append(self, rows: Array) -> None:
        needed = self._row_count + len(rows)
        if needed > len(self._rows):
            grown = np.empty((max(needed, 2 * len(self._rows), 64), rows.shape[1]), np.float32)
            grown[: self._row_count] = self._rows[: self._row_count]
            self._rows = grown
        self._rows[self._row_count : needed] = rows
        self._row_count = needed
