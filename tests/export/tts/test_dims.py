"""The dimensions of Qwen3-TTS checkpoints: read, checked against every tensor, or refused by name."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import export.api
from export.checkpoint import CheckpointError
from export.tts import api
from export.tts.checkpoint import CODEC_TYPE, open_part, open_tts
from export.tts.codec_dims import read_codec_dims
from export.tts.description import sampling
from export.tts.dims import predictor_view, read_tts_dims, talker_view
from export.tts.state import states
from export.tts.talker import write_tables
from tests.export.tts.checkpoints import (
    CODEC,
    DIMS,
    PREDICTOR,
    TALKER,
    codec_configuration,
    configuration,
    write_tts_checkpoint,
)


def test_every_dimension_is_read(tmp_path: Path) -> None:
    """Dimensions come from configuration and tensors: head_dim is not width / heads, and the table tells the sizes of
    text."""
    assert read_tts_dims(open_tts(write_tts_checkpoint(tmp_path))) == DIMS


@pytest.mark.parametrize("missing", ["head_dim", "num_key_value_heads"])
def test_head_dim_comes_from_the_weights(tmp_path: Path, missing: str) -> None:
    """A configuration without head_dim is read; one without KV heads is not guessed."""
    config = configuration()
    del config["talker_config"][missing]
    checkpoint = open_tts(write_tts_checkpoint(tmp_path, config=config))
    if missing == "head_dim":
        assert read_tts_dims(checkpoint).talker.head_dim == TALKER.head_dim
    else:
        with pytest.raises(CheckpointError, match="talker_config.num_key_value_heads"):
            read_tts_dims(checkpoint)


@pytest.mark.parametrize(
    ("part", "key", "value", "message"),
    [
        ("talker_config", "num_code_groups", 4, "num_code_groups"),
        ("talker_config", "intermediate_size", 40, "mlp.gate_proj.weight has shape"),
        ("talker_config", "rope_scaling", {"rope_type": "yarn"}, "rope_scaling: 'yarn'"),
        ("talker_config", "use_sliding_window", True, "use_sliding_window"),
        ("talker_config", "rms_norm_eps", None, "rms_norm_eps: missing"),
        ("decoder_config", "latent_dim", 10, "pre_conv.conv.weight has shape"),
        ("decoder_config", "upsample_rates", [8, 5, 4], "decode_upsample_rate is 1920"),
        ("decoder_config", "num_key_value_heads", 2, "2 does not divide 3 heads"),
        ("decoder_config", "hidden_act", "gelu", "hidden_act"),
        ("decoder_config", "codebook_size", 32, "embedding_sum has shape"),
        ("decoder_config", "upsampling_ratios", "2,2", "upsampling_ratios"),
    ],
)
def test_a_contradiction_is_named(tmp_path: Path, part: str, key: str, value: Any, message: str) -> None:
    """The error names the key or tensor and what is wrong with it."""
    config, codec = configuration(), codec_configuration() | {"decode_upsample_rate": 1920}
    (config if part == "talker_config" else codec)[part][key] = value
    with pytest.raises(CheckpointError, match=message):
        read_tts_dims(open_tts(write_tts_checkpoint(tmp_path, config=config, codec=codec)))


@pytest.mark.parametrize(
    "name",
    [
        "talker.codec_head.weight",
        "talker.text_projection.linear_fc2.bias",
        "talker.code_predictor.lm_head.1.weight",
        "decoder.decoder.5.beta",
        "decoder.upsample.1.1.gamma",
        "decoder.quantizer.rvq_rest.vq.layers.1._codebook.cluster_usage",
    ],
)
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    """The error has the tensor's published name."""
    with pytest.raises(CheckpointError, match=f"tensor {name} is missing"):
        read_tts_dims(open_tts(write_tts_checkpoint(tmp_path, without=(name,))))


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    """The error has both shapes."""
    checkpoint = write_tts_checkpoint(tmp_path, reshaped={"talker.codec_head.weight": (64, 31)})
    with pytest.raises(CheckpointError, match=r"talker.codec_head.weight has shape \[64, 31\].*\[64, 32\]"):
        read_tts_dims(open_tts(checkpoint))


def test_other_models_are_refused(tmp_path: Path) -> None:
    """Another model type, the 25 Hz tokenizer and a directory without a codec are refused."""
    with pytest.raises(CheckpointError, match="holds no config.json"):
        open_tts(tmp_path / "nothing")
    config = configuration()
    with pytest.raises(CheckpointError, match="model_type is 'qwen3'"):
        open_tts(write_tts_checkpoint(tmp_path / "a", config=config | {"model_type": "qwen3"}))
    with pytest.raises(CheckpointError, match="tokenizer_type"):
        open_tts(write_tts_checkpoint(tmp_path / "b", config=config | {"tokenizer_type": "qwen3_tts_tokenizer_25hz"}))
    alone = write_tts_checkpoint(tmp_path / "c")
    for file in (alone / "speech_tokenizer").iterdir():
        file.unlink()
    with pytest.raises(CheckpointError, match="speech_tokenizer holds no config.json"):
        open_tts(alone)


def test_a_codec_can_be_read_alone(tmp_path: Path) -> None:
    """The dimensions of the codec can be read from speech_tokenizer alone."""
    assert read_codec_dims(open_part(write_tts_checkpoint(tmp_path) / "speech_tokenizer", CODEC_TYPE)) == CODEC


def test_views_are_named_as_a_language_model(tmp_path: Path) -> None:
    """Talker and predictor have the names that the GGUF writer knows, and no tensors of the other."""
    model = open_tts(write_tts_checkpoint(tmp_path)).model
    talker, predictor = talker_view(model), predictor_view(model)
    assert talker.tensors["model.embed_tokens.weight"].shape == (TALKER.vocabulary, TALKER.width)
    assert "model.layers.1.mlp.up_proj.weight" in talker.tensors
    assert predictor.tensors["model.norm.weight"].shape == (PREDICTOR.width,)
    assert "model.layers.1.mlp.up_proj.weight" not in predictor.tensors


def test_the_state_is_full_size_and_named_once() -> None:
    """No tensor of state has an empty axis, there is one tail for each convolution, and outputs are named after
    inputs."""
    found = states(CODEC)
    assert all(min(state.shape) > 0 for state in found)
    names = [state.name for state in found]
    assert len(set(names)) == len(names) == 1 + 20 + 2 * CODEC.layers + 1
    assert {state.next for state in found} >= {"next_pre_conv_h", "next_conv_h_19", "next_key_0", "next_valid"}
    assert sum(name.startswith("conv_h_") for name in names) == 20


def test_tables_hold_projected_rows(tmp_path: Path) -> None:
    """Text rows went through both linear layers, code rows are in the documented order, and each codebook has a
    head."""
    opened = open_tts(write_tts_checkpoint(tmp_path / "checkpoint"))
    write_tables(opened.model, DIMS, tmp_path, half=False)
    read = {name: stored.read() for name, stored in opened.model.tensors.items()}
    project = "talker.text_projection.linear_fc"
    inner = read["talker.model.text_embedding.weight"].astype(np.float64) @ read[f"{project}1.weight"].T
    inner = inner + read[f"{project}1.bias"]
    expected = inner / (1 + np.exp(-inner)) @ read[f"{project}2.weight"].T + read[f"{project}2.bias"]
    assert np.abs(np.load(tmp_path / "text_rows.npy") - expected).max() <= 1e-6
    rows = np.load(tmp_path / "code_rows.npy")
    assert rows.shape == (TALKER.vocabulary + 2 * CODEC.entries, TALKER.width)
    assert np.array_equal(rows[: TALKER.vocabulary], read["talker.model.codec_embedding.weight"])
    last = read["talker.code_predictor.model.codec_embedding.1.weight"]
    assert np.array_equal(rows[TALKER.vocabulary + CODEC.entries :], last)
    assert np.load(tmp_path / "predictor_heads.npy").shape == (2, CODEC.entries, PREDICTOR.width)
    assert np.load(tmp_path / "predictor_weight.npy").shape == (TALKER.width, PREDICTOR.width)
    assert not (tmp_path / "predictor_rows.npy").exists()


def test_values_beyond_float16_are_refused(tmp_path: Path) -> None:
    """A value too large for float16 is refused instead of becoming infinite."""
    opened = open_tts(write_tts_checkpoint(tmp_path / "checkpoint"))
    stored = opened.model.tensors["talker.text_projection.linear_fc2.bias"]
    with stored.file.open("r+b") as stream:
        stream.seek(stored.offset)
        stream.write(np.full(stored.size, 1e6, np.float32).tobytes())
    with pytest.raises(CheckpointError, match="text_rows reaches"):
        write_tables(opened.model, DIMS, tmp_path, half=True)


def test_inspect_prints_dimensions_and_states(tmp_path: Path) -> None:
    """It needs no torch, and is reached by the function for both kinds of checkpoints."""
    printed = str(export.api.inspect(write_tts_checkpoint(tmp_path)))
    assert printed == str(api.inspect(tmp_path))
    for words in ("custom_voice", "head dim        16", "codebooks       3", "past key 0      3 x 71 x 8", "conv h 19"):
        assert words in printed


def test_formats_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Before anything is written, the error says which formats fit."""
    with pytest.raises(CheckpointError, match="q4_k_m needs row lengths"):
        api.run(write_tts_checkpoint(tmp_path / "a"), tmp_path / "out", codec="fp32", decoder="q4_k_m")
    with pytest.raises(CheckpointError, match="encoder: 'fp8'"):
        export.api.run(tmp_path / "a", tmp_path / "out", encoder="fp8", decoder="f32", clip=False, name=None)
    assert not (tmp_path / "out").exists()


def test_configuration_is_not_shared() -> None:
    """The helper gives a new object each time, so that a test cannot spoil another."""
    first = configuration()
    before = copy.deepcopy(first)
    configuration()["talker_config"]["hidden_size"] = 0
    assert first == before


def test_sampling_is_the_checkpoints(tmp_path: Path) -> None:
    """The checkpoint's values replace the official defaults; one that no draw can use is refused by file and field."""
    write_tts_checkpoint(tmp_path)
    model = open_tts(tmp_path).model
    path = tmp_path / "generation_config.json"
    path.write_text('{"temperature": 1, "top_k": 20, "subtalker_top_p": 0.8, "max_new_tokens": 900, "eos_token_id": 3}')
    found = sampling(model)
    assert (found.temperature, found.top_k, found.predictor_top_p, found.max_frames) == (1.0, 20, 0.8, 900)
    assert (found.predictor_temperature, found.repetition_penalty) == (0.9, 1.05)
    for text, says in (
        ('{"temperature": 0}', "temperature: 0 lies outside"),
        ('{"subtalker_top_k": null}', r"got `null` - at `\$\.predictor_top_k`"),
    ):
        path.write_text(text)
        with pytest.raises(CheckpointError, match=f"generation_config.json: .*{says}"):
            sampling(model)
