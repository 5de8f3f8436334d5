"""A shipped model directory gives back what it was exported from, as near as its precision allows."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("gguf")

import torch

from export.tts.checkpoint import open_tts
from export.tts.dims import read_tts_dims
from export.tts.directory import write_tts
from tests.training.tts.shapes import CONFIG, tokenizer
from training.tts.checkpoint import load_talker, save_checkpoint
from training.tts.codec import Codec, load_codec
from training.tts.config import Config
from training.tts.shipped import shipped, text_weights
from training.tts.talker import Talker
from training.tts.tokenizer import FILES

# q8_0 counts in blocks of 32.
_TALKER = replace(CONFIG.talker, predictor_hidden_size=32, intermediate_size=64, text_hidden_size=32, head_dim=32)
CONVERTIBLE = replace(CONFIG, talker=_TALKER)


def exported(config: Config, folder: Path) -> tuple[Codec, Talker]:
    """A random model and its export in folder/model."""
    torch.manual_seed(3)
    codec, talker = Codec(config.codec).eval(), Talker(config.talker, config.codec).eval()
    for weight in (*codec.parameters(), *talker.parameters()):
        if weight.dim() == 1:  # as after training: a graph holds equal tensors once
            weight.data.add_(0.05 * torch.randn_like(weight))
    tokenizer(folder / "tokenizer")
    save_checkpoint(config, codec, talker, folder / "tokenizer", ("slt",), folder / "float")
    opened = open_tts(folder / "float")
    write_tts(opened, read_tts_dims(opened), folder / "model", codec="int8", decoder="q8_0")
    return codec, talker


@torch.inference_mode()
def test_an_export_comes_back(tmp_path: Path) -> None:
    config = CONVERTIBLE
    codec, talker = exported(config, tmp_path)
    shipped(tmp_path / "model", config, tmp_path / "out")
    with pytest.raises(ValueError, match="without its encoder"):
        load_codec(tmp_path / "out/codec.safetensors")
    again = load_codec(tmp_path / "out/codec.safetensors", encoder=False).decoder
    codes = torch.randint(0, config.codec.codebook_size, (2, config.codec.num_quantizers, 9))
    wave = codec.decoder(codes)
    assert (again(codes) - wave).abs().max() < 0.03 * wave.abs().max()
    assert torch.allclose(again.quantizer.decode(codes), codec.decoder.quantizer.decode(codes), atol=0.03)

    for name in FILES:
        written = (tmp_path / "out/tokenizer" / name).read_bytes()
        assert written == (tmp_path / "tokenizer" / name).read_bytes()
    twin = load_talker(tmp_path / "out/model.safetensors", config)
    ids = torch.arange(config.talker.text_vocab_size)
    assert torch.allclose(twin.embed_text(ids), talker.embed_text(ids), atol=1e-4)
    x = torch.randn(2, 7, config.talker.hidden_size)
    hidden = talker.backbone(x)
    assert (twin.backbone(x) - hidden).abs().max() < 0.05
    rest = codes.transpose(1, 2).flatten(0, 1)
    state = torch.randn(len(rest), config.talker.hidden_size)
    assert (twin.predict(state, rest) - talker.predict(state, rest)).abs().max() < 0.05
    assert torch.allclose(twin.codec_head.weight, talker.codec_head.weight, atol=1e-3)


@torch.inference_mode()
def test_a_shape_that_differs_is_an_error_that_names_tensors(tmp_path: Path) -> None:
    config = CONVERTIBLE
    exported(config, tmp_path)
    wider = replace(config, codec=replace(config.codec, decoder_dim=32))
    with pytest.raises(RuntimeError, match="decoder.0.conv.weight"):
        shipped(tmp_path / "model", wider, tmp_path / "out")


def test_an_embedding_and_a_projection_give_the_rows() -> None:
    """Rows of less than full rank, as a narrow embedding makes them."""
    torch.manual_seed(0)
    rows = torch.randn(50, 8) @ torch.randn(8, 24) + torch.randn(24)
    found = text_weights(rows.numpy(), 8)
    inner = torch.nn.functional.silu(found["model.text_embedding.weight"] + found["text_projection.linear_fc1.bias"])
    made = inner @ found["text_projection.linear_fc2.weight"].T + found["text_projection.linear_fc2.bias"]
    assert torch.allclose(made, rows, atol=1e-4)
