"""Losses that follow STOI and PESQ: nothing between equal sounds, more the worse, gradients that stay finite."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from training.tts.intelligibility import EnvelopeDistance
from training.tts.loudness import LoudnessDistance

MEASURES = (EnvelopeDistance(), LoudnessDistance())


def speech(seconds: float = 1.28, seed: int = 0) -> Tensor:
    """Harmonics of a gliding pitch under syllables of 4 Hz: [2, 1, S]."""
    random = np.random.default_rng(seed)
    t = np.arange(int(seconds * 24000)) / 24000
    rows = []
    for _ in range(2):
        phase = 2 * np.pi * np.cumsum(random.uniform(110, 220) * (1 + 0.2 * np.sin(3 * t))) / 24000
        tone = sum(np.sin(k * phase) / k for k in range(1, 30))
        rows.append(0.08 * tone * (0.55 + 0.45 * np.sin(2 * np.pi * (4 * t + random.random()))))
    return torch.from_numpy(np.array(rows)).float()[:, None]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: type(m).__name__)
def test_equal_sounds_have_no_distance(measure: nn.Module) -> None:
    assert measure(speech(), speech()).item() < 1e-3


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: type(m).__name__)
def test_more_noise_is_further(measure: nn.Module) -> None:
    real, noise = speech(), torch.randn(2, 1, 30720, generator=torch.Generator().manual_seed(1))
    found = [measure(real + level * noise, real).item() for level in (0.002, 0.01, 0.05)]
    assert found == sorted(found) and found[2] > 2 * found[0] > 0


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("silent", ["decoded", "recorded", "both"])
def test_gradients_of_silence_are_finite(measure: nn.Module, silent: str) -> None:
    real = torch.zeros(2, 1, 30720) if silent != "decoded" else speech()
    made = (torch.zeros(2, 1, 30720) if silent != "recorded" else speech()).requires_grad_(True)
    loss = measure(made, real)
    loss.backward()
    assert made.grad is not None and bool(torch.isfinite(loss)) and bool(torch.isfinite(made.grad).all())


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.floats(0.3, 1.0))
def test_envelopes_do_not_hear_the_level(seed: int, gain: float) -> None:
    real = speech(seed=seed)
    assert EnvelopeDistance()(gain * real, real).item() < 2e-3


def test_frames_without_speech_do_not_count() -> None:
    """Noise in a pause is not held against the envelopes of the speech around it."""
    real = torch.cat([speech(), torch.zeros(2, 1, 24000), speech(seed=1)], 2)
    made = real.clone()
    made[..., 32000:53000] += 0.02 * torch.randn(2, 1, 21000, generator=torch.Generator().manual_seed(1))
    # What is left is counted where segments join the speech on both sides.
    assert EnvelopeDistance()(made, real).item() < 0.01


def test_envelopes_follow_stoi() -> None:
    stoi = pytest.importorskip("pystoi").stoi
    soxr = pytest.importorskip("soxr")
    real, noise = speech(3.2), torch.randn(2, 1, 76800, generator=torch.Generator().manual_seed(1))
    for level in (0.005, 0.02, 0.08):
        made = real + level * noise
        a, b = (soxr.resample(x[0, 0].numpy(), 24000, 10000) for x in (real, made))
        ours = 1 - EnvelopeDistance()(made[:1], real[:1]).item()
        assert abs(ours - stoi(a, b, 10000)) < 0.02
