"""Speech as bands and back."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from training.asr.spectrogram import HOP
from training.readers.bands import BANDS, BINS, FLOOR, Bands, band_centres, levelled


def vowels(seconds: float) -> torch.Tensor:
    """Harmonics under two formants that move, and pauses."""
    time = np.arange(int(seconds * 16000)) / 16000
    pitch = 120 + 20 * np.sin(2 * np.pi * time)
    phase = 2 * np.pi * np.cumsum(pitch) / 16000
    out = np.zeros_like(time)
    for n in range(1, 40):
        hertz = n * pitch
        first, second = 600 + 200 * np.sin(3 * time), 1700
        formants = np.exp(-(((hertz - first) / 200) ** 2)) + np.exp(-(((hertz - second) / 300) ** 2))
        out += formants * np.sin(n * phase)
    return torch.from_numpy((out * (np.sin(5 * time) > -0.5)).astype(np.float32))


def test_bands_are_bins_below_and_wider_above() -> None:
    centres = band_centres()
    assert len(centres) == BANDS and centres[0] == 0 and centres[-1] == pytest.approx(BINS - 1)
    steps = centres.diff()
    assert torch.equal(steps[:40], torch.ones(40)) and (steps[40:].diff() > 0).all()


def test_a_bin_is_shared_out_completely() -> None:
    bands = Bands()
    assert torch.allclose(bands.spread.sum(1), torch.ones(BINS))
    assert torch.allclose(bands.gather.sum(1), torch.ones(BANDS))


def test_sound_made_of_bands_has_these_bands() -> None:
    torch.manual_seed(0)
    bands, samples = Bands(), levelled(vowels(2.0))[None]
    wanted = bands(samples)
    assert wanted.shape == (1, 200, BANDS) and wanted.min() >= FLOOR
    loud = wanted > wanted.max() - 4
    wrong = [(bands(bands.sound(wanted, rounds)) - wanted)[loud].abs().mean() for rounds in (0, 24)]
    assert wrong[1] < 0.15 and wrong[1] < 0.7 * wrong[0]


@pytest.mark.parametrize("gain", [0.001, 1.0, 3000.0])
def test_loudness_is_taken_out(gain: float) -> None:
    samples = vowels(0.5)
    assert torch.allclose(levelled(samples * gain), levelled(samples), atol=1e-5)
    assert torch.isfinite(levelled(torch.zeros(HOP))).all()
