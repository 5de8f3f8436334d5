"""What is shipped can be trained on."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("gguf")

import numpy as np
import torch

from training.asr.begin import fitted, save_beginning
from training.asr.checkpoint import load_checkpoint
from training.asr.config import Regularisation
from training.asr.encoder import sinusoids
from training.asr.model import PocketASR
from training.asr.shipped import shipped_shape, shipped_weights
from training.asr.spectrogram import LogMel, heard
from training.asr.teacher import STRIDE, WhisperEncoder, frames
from training.checkpoint import save_weights
from training.shards import RATE, Clip
from training.shipped import graph_tensors

from .shapes import CONFIG, SHIPPED, teacher_weights


@pytest.mark.skipif(not (SHIPPED / "decoder.gguf").exists(), reason="the shipped model is not in this checkout")
def test_the_shipped_model_gives_every_tensor_back() -> None:
    shape = shipped_shape(SHIPPED)
    weights = shipped_weights(SHIPPED, shape)
    PocketASR(shape).load_state_dict(weights)
    for name, value in weights.items():
        assert bool(value.isfinite().all()) and float(value.std()) > 0 or value.dim() == 1, name
    # Trained tensors keep the order of size they were drawn with, and a wrong scale would be a hundred times off.
    stem = weights["thinker.audio_tower.conv_out.weight"]
    assert 0.01 < float(stem.std()) < 1 and stem.shape == (shape.d_model, shape.conv_channels * shape.mel_bins // 8)


@pytest.mark.skipif(not (SHIPPED / "decoder.gguf").exists(), reason="the shipped model is not in this checkout")
def test_a_beginning_has_whispers_layers_and_the_shipped_decoder(tmp_path: Path) -> None:
    theirs = teacher_weights(512, 6, 2048)
    save_weights(theirs, tmp_path / "encoder.safetensors")
    save_beginning(SHIPPED, tmp_path, tmp_path / "out")
    shape, weights = load_checkpoint(tmp_path / "out")
    old = shipped_weights(SHIPPED, shipped_shape(SHIPPED))
    assert (shape.d_model, shape.encoder_layers, shape.hidden) == (512, 8, shipped_shape(SHIPPED).hidden)
    for name, value in weights.items():
        place = name.removeprefix("thinker.audio_tower.").replace("ln_post", "layer_norm")
        if name.startswith(("thinker.model.", "thinker.audio_tower.conv2d")):
            torch.testing.assert_close(value, old[name], atol=1e-3, rtol=1e-3)
        elif place in theirs:
            torch.testing.assert_close(value, theirs[place], atol=1e-3, rtol=1e-3)
        elif f"{place.removesuffix('bias')}weight" in theirs:  # Whisper's keys have none
            assert not value.any()
    # A row stands where the middle of four of the teacher's rows stands.
    places = weights["thinker.audio_tower.positions"]
    torch.testing.assert_close(places, sinusoids(torch.arange(100) * 4 + 1.5, 512), atol=1e-3, rtol=1e-3)
    model = PocketASR(shape, Regularisation(dropout=0.0))
    model.load_state_dict(weights)
    model.add_taught(512, 6)
    heard = model.hear(torch.randn(1, shape.mel_bins, 200), torch.tensor([200]))
    last = model.thinker.audio_tower.ln_post(heard.followed)
    assert torch.equal(heard.states, last), "the layers above Whisper's add nothing at first"


def test_fitted_rows_are_as_near_to_the_teachers_as_least_squares_bring_them() -> None:
    torch.manual_seed(3)
    rng = np.random.default_rng(4)
    tower = PocketASR(CONFIG.shape).eval().thinker.audio_tower
    teacher, mel = WhisperEncoder(teacher_weights(32, 2, 48)), LogMel()
    clips = [
        Clip((rng.normal(size=RATE * 2) * 3000 * rng.random()).astype(np.int16), "", "", "LibriSpeech", "librispeech")
        for _ in range(4)
    ]

    def off(conv_out: torch.Tensor) -> float:
        theirs, total = frames(teacher.bins, torch.device("cpu")), 0.0
        for group, _, count, spectra in heard([torch.from_numpy(c.samples) for c in clips], mel, tower.chunk):
            found = tower.convolved(spectra).reshape(len(group), -1, tower.conv_out.in_features) @ conv_out.T
            for i, own, rows in zip(group, (count // 8).tolist(), found, strict=True):
                wanted = teacher.rows(theirs([torch.from_numpy(clips[i].samples)]))[0].unflatten(0, (-1, STRIDE))
                total += float((rows[:own] - wanted.mean(1)[:own]).square().sum())
        return total

    with torch.no_grad():
        made = fitted(tower, mel, teacher, clips)
        assert made.shape == tower.conv_out.weight.shape
        for other in (made * 1.05, made * 0.95, tower.conv_out.weight):
            assert off(made) < off(other)


def test_integer_products_are_multiplied_out(tmp_path: Path) -> None:
    from onnx import helper, numpy_helper, save

    weight = np.array([[1, -2], [127, 0], [3, 64]], np.int8)  # [in, out]
    scale = np.array([0.5, 0.25], np.float32) / 127
    tensors = [
        numpy_helper.from_array(weight, "first.weight/int8"),
        numpy_helper.from_array(scale, "first.weight/scale127"),
    ]
    save(helper.make_model(helper.make_graph([], "g", [], [], tensors)), tmp_path / "g.onnx")
    found = graph_tensors(tmp_path / "g.onnx")["first.weight"].T
    torch.testing.assert_close(torch.tensor(found), torch.tensor([[0.5, 63.5, 1.5], [-0.5, 0.0, 16.0]]))
