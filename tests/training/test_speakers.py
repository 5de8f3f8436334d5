"""The speaker encoder: its log-mels and its graph, who is learned from, and errors that are counted by hand."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import torch
import torch.nn.functional as F

from engines.onnx import Graph
from streaming.speakers import WINDOW, SpeakerModel
from training.shards import RATE, Clip
from training.speakers.encoder import SAMPLES, WIDTH, Encoder, Front, Whole, read, write
from training.speakers.learn import equal_error_rate, faster, held, learn, rough, taught, trials

CPU = "cpu"


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


def clip(speaker: str, pitch: float, seconds: float = 2.0, seed: int = 0, corpus: str = "CMU AN4") -> Clip:
    """A clip of a speaker, whose source is an4 if the corpus is."""
    return Clip(voice(pitch, seconds, seed), "", speaker, corpus, "an4" if "AN4" in corpus else "other")


def readers(kept: bool, count: int) -> list[str]:
    """The names of readers, whom learning keeps for choosing or not."""
    return [name for name in (f"reader {i}" for i in range(200)) if held(name) == kept][:count]


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
    crops = [(voice(pitch, 1.5, round(pitch)) / 32768).astype(np.float32) for pitch in (90, 120, 180, 230)]
    write(again, crops, tmp_path / "encoder.onnx")
    assert (tmp_path / "encoder.onnx").stat().st_size < 10e6
    model = SpeakerModel(Graph(tmp_path / "encoder.onnx", threads=1, provider="cpu"))
    made = np.stack(model.prints(crops))
    with torch.inference_mode():
        expected = Whole(network)(torch.from_numpy(np.stack(crops))).numpy()
    assert made.shape == (4, WIDTH) and WINDOW == SAMPLES
    assert (made * expected).sum(1).min() > 0.85
    assert np.array_equal(made[2], model.prints(crops[2:3])[0])


def test_longer_speech_is_heard_by_hundreds_of_frames(network: Encoder) -> None:
    """Behind the first hundred frames, which are two seconds, the surroundings are others."""
    with torch.inference_mode():
        found = Whole(network)(torch.from_numpy(np.stack([voice(110, 2.5), voice(110, 2.5, 1)]) / np.float32(32768)))
    assert found.shape == (2, WIDTH) and torch.allclose(found.norm(dim=1), torch.ones(2))


def test_nobody_who_is_kept_is_learned_from(network: Encoder) -> None:
    """What a clip teaches is between its own voice and its reader's, at each of three speeds; where the label is of
    several people it is its own."""
    [kept], [ann, bob] = readers(True, 1), readers(False, 2)
    clips = [clip(kept, 100), clip(ann, 120), clip(ann, 125, seed=1), clip(bob, 220)]
    clips += [clip("", 90), clip("several", 150, corpus="Picovoice wake words"), clip(bob, 200, seconds=0.5)]
    voices = taught(clips, network, CPU)
    owners = voices.owners.tolist()
    assert len(owners) == 3 * 5 and owners[0] == owners[1] != owners[2] and owners[3] == owners[4] == -1
    assert sorted(set(owners)) == [-1, *range(6)]
    assert torch.allclose(voices.teach.norm(dim=1), torch.ones(15), atol=1e-4)
    alone = taught(clips, network, CPU, own=1.0)
    assert voices.teach[0] @ voices.teach[1] > alone.teach[0] @ alone.teach[1]
    assert torch.allclose(voices.teach[3:5], alone.teach[3:5])
    assert voices.lengths[5] == round(2 * RATE * 9 / 8)
    found = trials([*clips, clip(kept, 101, seed=2), clip(kept, 102, seed=3)], kept=True)
    assert found.owners == [kept] * 3 and found.crops.shape == (3, SAMPLES)


def test_what_is_rough_is_nearly_as_loud_and_never_twice_the_same() -> None:
    waves = torch.from_numpy(np.stack([voice(100 + i, 1.5) for i in range(8)]) / np.float32(32768))
    one, other = rough(waves, torch.Generator().manual_seed(1)), rough(waves, torch.Generator().manual_seed(2))
    assert torch.equal(one, rough(waves, torch.Generator().manual_seed(1))) and not torch.equal(one, other)
    change = one.square().mean(1) / waves.square().mean(1)
    silent = [rough(0 * waves, torch.Generator().manual_seed(seed)) for seed in range(8)]
    assert all(bool(torch.isfinite(some).all()) for some in (one, *silent))
    assert 0.05 < float(change.min()) and float(change.max()) < 20


def test_a_faster_voice_is_higher() -> None:
    slow = torch.from_numpy(voice(100, 1.0)).float()
    fast = faster(slow, 9 / 8)
    assert len(fast) == round(RATE * 8 / 9)
    spectrum = torch.fft.rfft(fast).abs()
    assert int(spectrum.argmax()) * RATE / len(fast) == pytest.approx(112.5, abs=2)


def test_learning_comes_nearer_to_what_is_taught(network: Encoder, capsys: pytest.CaptureFixture[str]) -> None:
    names = readers(False, 3)
    voices = taught([clip(name, 100 + 50 * i, seed=i) for i, name in enumerate(names)], network, CPU)
    told: list[int] = []
    made = learn(network, voices, 60, lambda step, _: told.append(step), batch=4, steps=4, rate=1e-3)
    assert told == [4] and "step 4" in capsys.readouterr().out
    before, after = network.state_dict(), made.state_dict()
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert "head.conv1.weight" in changed and not any("running" in name for name in changed)
    waves = torch.stack([voices.samples[s : s + SAMPLES] for s in voices.starts.tolist()]).float() / 32768
    draw = torch.Generator().manual_seed(5)
    with torch.inference_mode():
        heard = [Whole(one)(rough(waves, draw.manual_seed(5))) for one in (network, made)]
    first, last = (float((F.normalize(one) * voices.teach).sum(1).mean()) for one in heard)
    assert last > first


def test_errors_are_counted_within_a_corpus() -> None:
    """Two of one corpus who are mistaken for each other; a stranger of another corpus would only flatter."""
    axes = np.eye(4, dtype=np.float32)
    voices = np.stack([axes[0], axes[0], axes[1], axes[1], axes[2]])
    assert equal_error_rate(voices, ["a", "a", "b", "b", "c"], ["x"] * 4 + ["y"])[0] == 0
    mixed = np.stack([axes[0], axes[1], axes[0], axes[1], axes[2]])
    assert equal_error_rate(mixed, ["a", "a", "b", "b", "c"], ["x"] * 4 + ["y"])[0] >= 0.5
