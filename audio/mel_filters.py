"""Mel filters and frame sizes of the official feature extractor: Slaney scale and norm, 0 Hz to half the rate."""

import math

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE, N_FFT, HOP = 16000, 400, 160
"""transformers, feature_extraction_qwen3_asr.py: sampling_rate, n_fft, hop_length."""

BREAK_HZ, BREAK_MEL = 1000.0, 15.0
"""The Slaney scale is linear (3 mel per 200 Hz) up to here and logarithmic above, 27 mel per factor of 6.4."""


def to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slaney mel → Hz."""
    return np.where(mel < BREAK_MEL, mel * 200 / 3, BREAK_HZ * np.exp((mel - BREAK_MEL) * np.log(6.4) / 27))


def mel_filters(bins: int, sample_rate: int = SAMPLE_RATE, n_fft: int = N_FFT) -> NDArray[np.float32]:
    """Triangular filters float32 [bins, n_fft // 2 + 1], each of unit area in Hz (Slaney's normalisation)."""
    top = BREAK_MEL + 27 / math.log(6.4) * math.log(sample_rate / 2 / BREAK_HZ)
    edges = to_hertz(np.linspace(0.0, top, bins + 2))
    frequencies = np.linspace(0.0, sample_rate / 2, n_fft // 2 + 1)
    rising = (frequencies[None] - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies[None]) / np.diff(edges)[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return (triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None]).astype(np.float32)
