"""What is shipped can be trained on."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("gguf")

import torch

from training.asr.config import Shape
from training.asr.model import PocketASR
from training.asr.shipped import shipped_weights
from training.shipped import graph_tensors

from .shapes import SHIPPED


@pytest.mark.skipif(not (SHIPPED / "decoder.gguf").exists(), reason="the shipped model is not in this checkout")
def test_the_shipped_model_gives_every_tensor_back() -> None:
    weights = shipped_weights(SHIPPED, Shape())
    PocketASR(Shape()).load_state_dict(weights)
    for name, value in weights.items():
        assert bool(value.isfinite().all()) and float(value.std()) > 0 or value.dim() == 1, name
    # Trained tensors keep the order of size they were drawn with: a wrong scale would be a hundred times off.
    stem = weights["thinker.audio_tower.conv_out.weight"]
    assert 0.01 < float(stem.std()) < 1 and stem.shape == (384, 1536)


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
