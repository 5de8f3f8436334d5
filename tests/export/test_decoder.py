"""The GGUF: llama.cpp loads it and computes the right numbers, and what does not fit is refused."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engines.gguf import Decoder, Rows
from export.checkpoint import CheckpointError, open_checkpoint
from export.decoder import check_quantization, write_decoder
from export.dims import DecoderDims, read_dims
from tests.export.checkpoints import AUDIO, TEXT, tensors, write_checkpoint

Floats = NDArray[np.float32]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose rows are multiples of 256, so that every format fits."""
    text = {**TEXT, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8}
    audio = {**AUDIO, "output_dim": 256}
    values = tensors(audio, text)
    for name in values:
        if name.endswith("norm.weight"):
            values[name] = values[name] + 1
    return write_checkpoint(tmp_path_factory.mktemp("wide"), values, audio=audio, text=text)


def logits(path: Path) -> Floats:
    """The logits of eight tokens in one call."""
    decoder = Decoder(path, sequences=1, rows=256, threads=1, kv="f32")
    try:
        return decoder.evaluate([Rows(decoder.acquire(), 0, decoder.embed(range(100, 108)), 0)])[0]
    finally:
        decoder.close()


def export(directory: Path, path: Path, quantization: str) -> Path:
    """Write one GGUF and return its path."""
    checkpoint = open_checkpoint(directory)
    write_decoder(checkpoint, read_dims(checkpoint).decoder, path, quantization, name="test", head=False)
    return path


@pytest.mark.parametrize(("quantization", "error"), [("f16", 2e-3), ("q8_0", 0.05), ("q6_k", 0.08), ("q4_k_m", 0.3)])
def test_rounded_formats_stay_near_float32(wide: Path, tmp_path: Path, quantization: str, error: float) -> None:
    """Logits differ a little, relative to their deviation, which shows that weights were rounded and not copied."""
    exact = logits(export(wide, tmp_path / "f32.gguf", "f32"))
    rounded = logits(export(wide, tmp_path / "rounded.gguf", quantization))
    difference = float(np.sqrt(((rounded - exact) ** 2).mean()) / exact.std())
    assert 0 < difference < error
    assert (tmp_path / "rounded.gguf").stat().st_size < 0.6 * (tmp_path / "f32.gguf").stat().st_size


def test_an_untied_head_is_used(tmp_path: Path) -> None:
    """A head of twice the embeddings gives twice the logits."""
    values = tensors()
    tied = logits(export(write_checkpoint(tmp_path / "a", values), tmp_path / "a.gguf", "f32"))
    values["thinker.lm_head.weight"] = 2 * values["thinker.model.embed_tokens.weight"]
    directory = write_checkpoint(tmp_path / "b", values, text={**TEXT, "tie_word_embeddings": False})
    checkpoint = open_checkpoint(directory)
    dims = read_dims(checkpoint)
    assert not dims.decoder.tied
    write_decoder(checkpoint, dims.decoder, tmp_path / "b.gguf", "f32", name="test", head=True)
    np.testing.assert_allclose(logits(tmp_path / "b.gguf"), 2 * tied, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("quantization", ["q6_k", "q4_k_m"])
def test_block_formats_that_do_not_fit_are_refused_by_name(tmp_path: Path, quantization: str) -> None:
    """Before anything is written, the error names the dimensions at fault and the formats that fit."""
    with pytest.raises(CheckpointError) as caught:
        export(write_checkpoint(tmp_path / "a"), tmp_path / "a.gguf", quantization)
    assert "hidden_size = 64" in str(caught.value) and "intermediate_size = 96" in str(caught.value)
    assert "can be f32, f16, q8_0" in str(caught.value)
    assert not (tmp_path / "a.gguf").exists()


def test_the_official_dimensions_fit_every_format() -> None:
    """The dimensions of 0.6B and 1.7B fit every format."""
    for width, ffn in ((1024, 3072), (2048, 6144)):
        dims = DecoderDims(width, 28, 16, 8, 128, ffn, 151936, 65536, 1e6, 1e-6, True)
        for quantization in ("f32", "f16", "q8_0", "q6_k", "q4_k_m"):
            check_quantization(dims, quantization)


def test_what_float16_cannot_hold_is_refused(tmp_path: Path) -> None:
    """A value too large for float16 is refused instead of becoming infinite."""
    values = tensors()
    values["thinker.model.layers.1.mlp.up_proj.weight"][0, 0] = 1e5
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.up_proj\.weight reaches 100000"):
        export(write_checkpoint(tmp_path / "a", values), tmp_path / "a.gguf", "f16")
