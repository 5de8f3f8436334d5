"""The speaker encoder: its log-mels and its graph, and the crops that tell the ranges of its bytes."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import torch

from engines.onnx import Graph
from streaming.speakers import WINDOW, SpeakerModel
from training.shards import RATE, Clip
from training.speakers.crops import crops, rough
from training.speakers.encoder import SAMPLES, WIDTH, Encoder, Front, Whole, read, write


@pytest.fixture(scope="module")
def network() -> Encoder:
    """A network that has learned nothing; its normalisations have seen some noise, so that no layer fades."""
    torch.manual_seed(1)
    made = Encoder().train()
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        made(Front()(0.1 * torch.randn(8, SAMPLES)))
    return made.eval()


def voice(pitch: float, seconds: float, seed: int = 0) -> NDArray[np.int16]:
    """A buzz of harmonics over a little noise."""
    at = np.arange(round(seconds * RATE)) * 2 * np.pi * pitch / RATE
    noise = np.random.default_rng(seed).normal(0, 60, len(at))
    return (2000 * np.sum([np.sin(n * at) / n for n in range(1, 20)], 0) + noise).astype(np.int16)


def clip(speaker: str, pitch: float, seconds: float = 2.0, seed: int = 0) -> Clip:
    """A clip of a speaker."""
    return Clip(voice(pitch, seconds, seed), "", speaker, "CMU AN4", "an4")


def test_mels_are_kaldis() -> None:
    """Frame by frame as Kaldi's documentation has it: mean, pre-emphasis, window, power, triangles, logarithm."""
    wave = (voice(150, 0.1) / 32768).astype(np.float64)
    frames: list[NDArray[np.float64]] = []
    for at in range(0, len(wave) - 399, 160):
        frame = wave[at : at + 400] - wave[at : at + 400].mean()
        sharp = np.append(frame[0] * (1 - 0.97), frame[1:] - 0.97 * frame[:-1])
        window = np.hanning(400) ** 0.85
        frames.append(np.abs(np.fft.rfft(sharp * window, 512)) ** 2)
    power = np.array(frames)
    edges = np.linspace(1127 * np.log1p(20 / 700), 1127 * np.log1p(8000 / 700), 82)
    place = 1127 * np.log1p(np.arange(256) * RATE / 512 / 700)
    expected = np.zeros((80, len(power)))
    for band in range(80):
        low, middle, high = edges[band : band + 3]
        weights = np.clip(np.minimum((place - low) / (middle - low), (high - place) / (high - middle)), 0, None)
        expected[band] = np.log(np.maximum(power[:, :256] @ weights, 1.1921e-7))
    expected -= expected.mean(1, keepdims=True)
    made = Front()(torch.from_numpy(wave.astype(np.float32))[None])[0].numpy()
    assert np.abs(made - expected).max() < 0.02


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's, of its own exporter
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_graph_hears_what_the_network_hears(network: Encoder, tmp_path: Path) -> None:
    """Nearly, with bytes in its convolutions, each window alone as among others; its weights can be kept in halves. A
    network that has learned nothing averages errors out less than one that has."""
    halves = {name: v.half() if v.is_floating_point() else v for name, v in network.state_dict().items()}
    torch.save(halves, tmp_path / "weights.pt")
    again = read(tmp_path / "weights.pt")
    heard = [(voice(pitch, 1.5, round(pitch)) / 32768).astype(np.float32) for pitch in (90, 120, 180, 230)]
    write(again, heard, tmp_path / "encoder.onnx")
    assert (tmp_path / "encoder.onnx").stat().st_size < 10e6
    model = SpeakerModel(Graph(tmp_path / "encoder.onnx", threads=1, provider="cpu"))
    made = np.stack(model.prints(heard))
    with torch.inference_mode():
        expected = Whole(network)(torch.from_numpy(np.stack(heard))).numpy()
    assert made.shape == (4, WIDTH) and WINDOW == SAMPLES
    assert (made * expected).sum(1).min() > 0.85
    assert np.array_equal(made[2], model.prints(heard[2:3])[0])


def test_longer_speech_is_heard_by_hundreds_of_frames(network: Encoder) -> None:
    """Behind the first hundred frames, which are two seconds, the surroundings are others."""
    with torch.inference_mode():
        found = Whole(network)(torch.from_numpy(np.stack([voice(110, 2.5), voice(110, 2.5, 1)]) / np.float32(32768)))
    assert found.shape == (2, WIDTH) and torch.allclose(found.norm(dim=1), torch.ones(2))


def test_every_speaker_gives_a_few_crops() -> None:
    """Nobody more than nine, and nothing comes of clips that are too short or whose speaker has no name."""
    clips = [clip("ann", 120, seed=seed) for seed in range(12)]
    clips += [clip("bob", 220), clip("", 90), clip("eve", 200, seconds=0.5)]
    found = crops(clips, seed=9)
    assert found.shape == (10, SAMPLES) and found.dtype == np.float32 and 0.01 < float(np.abs(found).max()) < 1
    assert np.array_equal(found, crops(clips, seed=9)) and not np.array_equal(found, crops(clips, seed=8))


def test_what_is_rough_is_nearly_as_loud_and_never_twice_the_same() -> None:
    waves = torch.from_numpy(np.stack([voice(100 + i, 1.5) for i in range(8)]) / np.float32(32768))
    one, other = rough(waves, torch.Generator().manual_seed(1)), rough(waves, torch.Generator().manual_seed(2))
    assert torch.equal(one, rough(waves, torch.Generator().manual_seed(1))) and not torch.equal(one, other)
    change = one.square().mean(1) / waves.square().mean(1)
    silent = [rough(0 * waves, torch.Generator().manual_seed(seed)) for seed in range(8)]
    assert all(bool(torch.isfinite(some).all()) for some in (one, *silent))
    assert 0.05 < float(change.min()) and float(change.max()) < 20
