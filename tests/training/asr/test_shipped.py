"""What is shipped can be trained on."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("gguf")

import torch

from training.asr.checkpoint import load_checkpoint
from training.asr.config import Regularisation
from training.asr.model import PocketASR
from training.asr.shipped import save_beginning, shipped_shape, shipped_weights
from training.checkpoint import save_weights
from training.shipped import graph_tensors

from .shapes import SHIPPED, teacher_weights


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
    model = PocketASR(shape, Regularisation(dropout=0.0))
    model.load_state_dict(weights)
    model.add_taught(512, 6)
    heard = model.hear(torch.randn(1, shape.mel_bins, 200), torch.tensor([200]))
    last = model.thinker.audio_tower.ln_post(heard.followed)
    assert torch.equal(heard.states, last), "the layers above Whisper's add nothing at first"


def test_integer_products_are_multiplied_out(tmp_path: Path) -> None:
    import numpy as np
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
