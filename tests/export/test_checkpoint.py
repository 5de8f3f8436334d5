"""Reading checkpoints: both layouts, shards, every dtype, and errors that name what is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from export.checkpoint import CheckpointError, open_checkpoint
from export.dims import read_dims
from tests.export.checkpoints import AUDIO, TEXT, Tensors, tensors, write_checkpoint, write_safetensors


def test_every_dimension_is_read(tmp_path: Path) -> None:
    """Each dimension has an unusual value, so that none can be assumed: head_dim, window, tied head."""
    dims = read_dims(open_checkpoint(write_checkpoint(tmp_path, audio={**AUDIO, "n_window_infer": 300})))
    assert (dims.encoder.bands, dims.encoder.chunk_frames, dims.encoder.chunk_rows, dims.encoder.window_rows) == (
        16,
        100,
        13,
        39,
    )
    assert (dims.encoder.width, dims.encoder.heads, dims.encoder.head_dim, dims.encoder.output) == (48, 3, 16, 64)
    assert (dims.decoder.heads, dims.decoder.kv_heads, dims.decoder.head_dim) == (4, 2, 32)
    assert dims.decoder.tied and dims.encoder.ctc is None and dims.aligner is None


def test_the_head_dimension_comes_from_the_weights_where_the_configuration_is_silent(tmp_path: Path) -> None:
    """The weights decide, since hidden / heads would give 16."""
    text = {key: value for key, value in TEXT.items() if key != "head_dim"}
    assert read_dims(open_checkpoint(write_checkpoint(tmp_path, tensors(), text=text))).decoder.head_dim == 32


def test_both_layouts_hold_the_same_tensors(tmp_path: Path) -> None:
    """transformers' layout gives the same tensors under the original names."""
    values = tensors()
    original = open_checkpoint(write_checkpoint(tmp_path / "a", values))
    renamed: Tensors = {}
    for name, array in values.items():
        name = name.replace("thinker.audio_tower.proj", "model.multi_modal_projector.linear_")
        renamed[
            name.replace("thinker.audio_tower.", "model.audio_tower.").replace(
                "thinker.model.", "model.language_model."
            )
        ] = array
    other = write_checkpoint(tmp_path / "b", renamed)
    config = json.loads((other / "config.json").read_text())
    config |= config.pop("thinker_config")
    (other / "config.json").write_text(json.dumps(config))
    transformers = open_checkpoint(other)
    assert (original.layout, transformers.layout) == ("original", "transformers")
    assert original.tensors.keys() == transformers.tensors.keys()
    assert read_dims(original) == read_dims(transformers)
    for name, stored in transformers.tensors.items():
        assert np.array_equal(stored.read(), original.tensors[name].read())
        assert transformers.published(name) in renamed
        assert original.published(name) in values


@pytest.mark.parametrize(("dtype", "error"), [("F32", 0.0), ("F16", 2**-11), ("BF16", 2**-7)])
def test_every_dtype_is_read_as_float32(tmp_path: Path, dtype: str, error: float) -> None:
    """The values read equal those that the dtype can store."""
    values = tensors()
    checkpoint = open_checkpoint(write_checkpoint(tmp_path, values, dtype=dtype))
    array = checkpoint.tensor("audio_tower.proj1.weight", 48, 48)
    assert array.dtype == np.float32
    np.testing.assert_allclose(array, values["thinker.audio_tower.proj1.weight"], rtol=error, atol=1e-7)


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    """A checkpoint in several files is read, as large ones are published."""
    values = tensors()
    whole = open_checkpoint(write_checkpoint(tmp_path, values))
    names = list(values)
    weight_map: dict[str, str] = {}
    for number in (1, 2):
        part = {name: values[name] for name in names[number - 1 :: 2]}
        write_safetensors(tmp_path / f"model-0000{number}-of-00002.safetensors", part)
        weight_map |= dict.fromkeys(part, f"model-0000{number}-of-00002.safetensors")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    sharded = open_checkpoint(tmp_path)
    assert sharded.tensors.keys() == whole.tensors.keys()
    read_dims(sharded)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match="model-00002-of-00002"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("name", sorted(tensors()))
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    """Whichever tensor is missing, the error has the name of the checkpoint's own layout."""
    values = tensors()
    del values[name]
    with pytest.raises(CheckpointError, match=f"tensor {name} is missing"):
        read_dims(open_checkpoint(write_checkpoint(tmp_path, values)))


@pytest.mark.parametrize("name", sorted(tensors()))
def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path: Path, name: str) -> None:
    """The error has the tensor's shape and the one that the configuration asks for."""
    values = tensors()
    right = list(values[name].shape)
    values[name] = np.concatenate([values[name], values[name][:1]])
    wrong = list(values[name].shape)
    with pytest.raises(CheckpointError) as caught:
        read_dims(open_checkpoint(write_checkpoint(tmp_path, values)))
    # A longer q_norm may also be understood as another head_dim; the message then names its first use.
    assert name in str(caught.value) or "q_norm" in name
    assert str(wrong) in str(caught.value) and str(right) in str(caught.value)


def test_a_tensor_without_a_place_is_named(tmp_path: Path) -> None:
    """A layer more than configured is refused, since it would be left out unnoticed."""
    for audio, text, name in (
        ({**AUDIO, "encoder_layers": 1}, TEXT, r"audio_tower\.layers\.1"),
        (AUDIO, {**TEXT, "num_hidden_layers": 1}, r"model\.layers\.1"),
    ):
        with pytest.raises(CheckpointError, match=f"{name}.* has no place"):
            read_dims(open_checkpoint(write_checkpoint(tmp_path, tensors(), audio=audio, text=text)))


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("audio", "d_model", None, "audio_config.d_model: missing"),
        ("audio", "d_model", 0, "audio_config.d_model: 0 is no positive integer"),
        ("audio", "encoder_attention_heads", 7, "48 is no multiple of 7 heads"),
        ("audio", "n_window_infer", 250, "250 is no multiple of 2 · n_window = 100"),
        ("audio", "activation_function", "relu", "'relu' is not 'gelu'"),
        ("audio", "scale_embedding", True, "scale_embedding"),
        ("audio", "output_dim", 60, "output_dim 60 differs from text_config.hidden_size 64"),
        ("text", "rope_theta", None, "text_config.rope_theta: missing"),
        ("text", "rope_scaling", {"rope_type": "yarn"}, "'yarn' is not supported"),
        ("text", "attention_bias", True, "attention_bias"),
        ("text", "hidden_act", "gelu", "'gelu' is not 'silu'"),
        ("text", "tie_word_embeddings", False, "thinker.lm_head.weight is missing"),
        ("text", "vocab_size", "many", "'many' is no positive integer"),
    ],
)
def test_a_bad_key_is_named(tmp_path: Path, section: str, key: str, value: object, message: str) -> None:
    """The error has the key with its section and, if there is one, the limit."""
    sections = {"audio": dict(AUDIO), "text": dict(TEXT)}
    if value is None:
        del sections[section][key]
    else:
        sections[section][key] = value
    checkpoint = open_checkpoint(write_checkpoint(tmp_path, tensors(), audio=sections["audio"], text=sections["text"]))
    with pytest.raises(CheckpointError, match=message):
        read_dims(checkpoint)


def test_files_that_are_no_checkpoint_are_refused(tmp_path: Path) -> None:
    """An empty directory, another model, broken JSON and a download that was cut off are refused."""
    with pytest.raises(CheckpointError, match=r"holds no config\.json"):
        open_checkpoint(tmp_path)
    write_checkpoint(tmp_path)
    weights = (tmp_path / "model.safetensors").read_bytes()
    for broken in (weights[:-1], weights[:100], b"", b"\xff" * 64):
        (tmp_path / "model.safetensors").write_bytes(broken)
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            open_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"holds no model\.safetensors"):
        open_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    with pytest.raises(CheckpointError, match="'whisper'"):
        open_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        open_checkpoint(tmp_path)


def test_an_unknown_dtype_is_named(tmp_path: Path) -> None:
    """float64 is refused by name, since no checkpoint is published in it."""
    with pytest.raises(CheckpointError, match="has dtype F64"):
        read_dims(open_checkpoint(write_checkpoint(tmp_path, tensors(), dtype="F64")))


def test_a_phone_head_stays_behind(tmp_path: Path) -> None:
    """The phone head, which only trains our own models, is not exported. Other tensors without a place are refused."""
    values = tensors() | {"phones.0.weight": np.ones(48, np.float32), "phones.1.weight": np.ones((27, 48), np.float32)}
    assert open_checkpoint(write_checkpoint(tmp_path / "a", values)).tensors.keys() == (
        open_checkpoint(write_checkpoint(tmp_path / "b")).tensors.keys()
    )
    read_dims(open_checkpoint(tmp_path / "a"))
    values["phone.0.weight"] = values.pop("phones.0.weight")
    with pytest.raises(CheckpointError, match=r"tensor thinker\.phone\.0\.weight has no place"):
        read_dims(open_checkpoint(write_checkpoint(tmp_path / "c", values)))


def test_a_ctc_head_and_an_aligner_are_seen(tmp_path: Path) -> None:
    """A CTC head and an aligner are recognised by their tensors and keys."""
    values = tensors()
    values["ctc.weight"], values["ctc.bias"] = np.ones((513, 48), np.float32), np.ones(513, np.float32)
    assert read_dims(open_checkpoint(write_checkpoint(tmp_path / "a", values))).encoder.ctc == 513
    values = tensors() | {"thinker.lm_head.weight": np.ones((50, 64), np.float32)}
    aligner = read_dims(open_checkpoint(write_checkpoint(tmp_path / "b", values, thinker={"classify_num": 50}))).aligner
    assert aligner is not None and (aligner.classes, aligner.step) == (50, 0.08)
