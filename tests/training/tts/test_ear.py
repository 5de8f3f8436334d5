"""The hearing model's encoder judges waveforms. It is given what that model is given, and it hears what differs."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from tests.training.asr.shapes import start
from tests.training.tts import shapes
from training.asr.spectrogram import LogMel
from training.ranks import Ranks
from training.tts.codec import Codec
from training.tts.codec_run import CodecStep
from training.tts.crops import Store
from training.tts.ear import Ear


@pytest.fixture(scope="module")
def ear(tmp_path_factory: pytest.TempPathFactory) -> Ear:
    return Ear(start(tmp_path_factory.mktemp("ear")))


def sweeps(rate: int, seconds: float = 1.0) -> Tensor:
    """Make three tones that glide below 7 kHz, [1, 1, samples]."""
    at = np.arange(int(rate * seconds)) / rate
    glides = [(0.1, 200, 900), (0.05, 3000, 1200), (0.02, 4000, 6900)]
    wave = sum(level * np.sin(2 * np.pi * (low + (high - low) * at / 2) * at) for level, low, high in glides)
    return torch.tensor(np.asarray(wave, np.float32))[None, None]


def test_it_sees_what_the_hearing_model_sees_of_the_same_sound(ear: Ear) -> None:
    seen = ear.log_mel(sweeps(24_000)[0])
    heard = LogMel()(sweeps(16_000)[0])
    assert seen.shape == heard.shape == (1, 128, 100)
    loud = heard > 0.5  # This is a power of 0.01, ten times that of the hiss.
    assert 0.05 < loud.float().mean() < 0.95
    hissing = ((10 ** (4 * heard - 4) + 1e-3).log10() + 4) / 4
    inner = slice(3, -3)  # What is mirrored at the ends differs.
    assert torch.allclose(seen[..., inner], hissing[..., inner], atol=0.01)


def test_what_differs_more_is_further_away(ear: Ear) -> None:
    wave = sweeps(24_000)
    noise = torch.randn(wave.shape, generator=torch.Generator().manual_seed(1))
    found = [float(ear(wave + level * noise, wave)) for level in (0.0, 0.002, 0.01, 0.05)]
    assert found[0] == 0 and all(b > 1.3 * a for a, b in zip(found, found[1:], strict=False))


def test_its_gradient_lies_where_something_is_said(ear: Ear) -> None:
    """A codec would otherwise spend its bits on the hiss of pauses. Where all is silent the distance is finite."""
    real = sweeps(24_000)
    real[..., 12_000:] = 0
    noise = torch.randn(real.shape, generator=torch.Generator().manual_seed(1))
    decoded = (real * (1 + 0.3 * noise) + 3e-4 * noise).requires_grad_()
    (pull,) = torch.autograd.grad(ear(decoded, real), decoded)
    energy = pull.square().flatten()
    assert torch.isfinite(pull).all() and energy[12_000:].sum() < 0.2 * energy.sum()
    silence = torch.zeros_like(real).requires_grad_()
    (pull,) = torch.autograd.grad(ear(silence, real), silence)
    assert torch.isfinite(pull).all()


def norm(ear: Ear, weight: float) -> float:
    """Give the share of a codec's step that its gradient has."""
    torch.manual_seed(5)
    config, shard = shapes.CONFIG, shapes.tone_shard("ada", frames=30)
    training = replace(config.codec_training, ear_weight=weight)
    speech = Store(shard.arrays["wave"], shard.arrays["labels"], torch.device("cpu"))
    step = CodecStep(Codec(config.codec).train(), training, speech, ear, Ranks("cpu"))
    step.begin(free=False)()
    assert step.measures[-2] > 0
    return float(step.measures[-1])


def test_steps_follow_it_by_its_weight(ear: Ear) -> None:
    assert norm(ear, 1e6) > 10 * norm(ear, 0.0)
