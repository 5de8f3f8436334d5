"""Mel filters: Slaney scale and norm."""

import numpy as np

from audio.mel_filters import N_FFT, SAMPLE_RATE, mel_filters


def test_filters_are_triangles_of_unit_area() -> None:
    """Slaney's norm: the area under a triangle in Hz is 1, as well as 40 Hz bins can sample it."""
    filters = mel_filters(128)
    assert filters.shape == (128, N_FFT // 2 + 1) and filters.dtype == np.float32
    assert (filters >= 0).all()
    area = filters.sum(1) * SAMPLE_RATE / N_FFT
    assert np.abs(area[60:] - 1).max() < 0.1
    assert (np.diff(filters.argmax(1)) >= 0).all()


def test_the_scale_is_linear_below_a_kilohertz() -> None:
    """3 mel per 200 Hz: with 128 filters up to 8 kHz the peaks lie a constant distance apart there."""
    filters = mel_filters(40)
    frequencies = np.arange(N_FFT // 2 + 1) * SAMPLE_RATE / N_FFT
    centres = (filters * frequencies).sum(1) / filters.sum(1)
    low = np.diff(centres[centres < 900])
    assert low.std() / low.mean() < 0.15
    assert np.all(np.diff(centres[centres > 1500], 2) > -1)


def test_digital_silence_and_noise_have_the_filters_energy() -> None:
    """No filter is empty, whatever their number."""
    for bins in (40, 80, 128):
        assert (mel_filters(bins).sum(1) > 0).all()
