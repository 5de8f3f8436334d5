"""The hearing model's encoder as a judge of waveforms: it is given what that model is given, and hears what differs."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from tests.training.asr.shapes import CONFIG
from tests.training.tts import shapes
from training.asr.model import PocketASR
from training.asr.spectrogram import LogMel
from training.checkpoint import WEIGHTS, save_weights
from training.ranks import Ranks
from training.tts.codec import Codec
from training.tts.codec_run import CodecStep, DecoderStep
from training.tts.crops import Store
from training.tts.ear import Ear


@pytest.fixture(scope="module")
def ear(tmp_path_factory: pytest.TempPathFactory) -> Ear:
    folder = tmp_path_factory.mktemp("ear")
    torch.manual_seed(4)
    save_weights(PocketASR(CONFIG.shape).state_dict(), folder / WEIGHTS)
    return Ear(folder, CONFIG)


def sweeps(rate: int, seconds: float = 1.0) -> Tensor:
    """Three tones that glide below 7 kHz, [1, 1, samples]."""
    at = np.arange(int(rate * seconds)) / rate
    glides = [(0.1, 200, 900), (0.05, 3000, 1200), (0.02, 4000, 6900)]
    wave = sum(level * np.sin(2 * np.pi * (low + (high - low) * at / 2) * at) for level, low, high in glides)
    return torch.tensor(np.asarray(wave, np.float32))[None, None]


def test_it_sees_what_the_hearing_model_sees_of_the_same_sound(ear: Ear) -> None:
    seen = ear.log_mel(sweeps(24_000)[0])
    heard = LogMel()(sweeps(16_000)[0])
    assert seen.shape == heard.shape == (1, 128, 100)
    loud = heard > 0.5  # a power of 0.01, ten times the hiss
    assert 0.05 < loud.float().mean() < 0.95
    hissing = ((10 ** (4 * heard - 4) + 1e-3).log10() + 4) / 4
    inner = slice(3, -3)  # what is mirrored at the ends differs
    assert torch.allclose(seen[..., inner], hissing[..., inner], atol=0.01)


def test_what_differs_more_is_further_away(ear: Ear) -> None:
    wave = sweeps(24_000)
    noise = torch.randn(wave.shape, generator=torch.Generator().manual_seed(1))
    found = [float(ear(wave + level * noise, wave)) for level in (0.0, 0.002, 0.01, 0.05)]
    assert found[0] == 0 and all(b > 1.3 * a for a, b in zip(found, found[1:], strict=False))


def test_its_gradient_lies_where_something_is_said(ear: Ear) -> None:
    """Else a codec would spend its bits on the hiss of pauses. Where all is silent it is finite."""
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


def norm(ear: Ear, weight: float, *, fixed: bool) -> float:
    """The gradient's, of a step of the codec, or of its decoder on fixed codes."""
    torch.manual_seed(5)
    config, cpu, shard = shapes.CONFIG, torch.device("cpu"), shapes.tone_shard("ada", frames=30)
    codec, wave = Codec(config.codec).train(), shard.arrays["wave"]
    if fixed:
        codes = np.random.default_rng(1).integers(0, 32, (1, len(wave) // 1920, 3)).astype(np.int16)
        training = replace(config.decoder_training, ear_weight=weight)
        step = DecoderStep(codec.decoder, training, Store(wave, codes, cpu), ear, Ranks("cpu"))
        once = step.begin()
    else:
        training = replace(config.codec_training, ear_weight=weight)
        step = CodecStep(codec, training, Store(wave, shard.arrays["labels"][None], cpu), ear, Ranks("cpu"))
        once = step.begin(free=False)
    once()
    assert step.measures[-2] > 0
    return float(step.measures[-1])


@pytest.mark.parametrize("fixed", [False, True])
def test_steps_follow_it_by_its_weight(ear: Ear, fixed: bool) -> None:
    assert norm(ear, 1e6, fixed=fixed) > 10 * norm(ear, 0.0, fixed=fixed)
