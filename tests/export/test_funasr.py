"""Fun-ASR-Nano checkpoints without torch: what is read, what is refused, and that a pickle runs nothing."""

import json
import os
import pickle
import subprocess
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from export import api
from export.checkpoint import CheckpointError
from export.funasr.checkpoint import open_funasr
from export.funasr.dims import FunAsrDims, encoder_shapes, read_funasr_dims
from export.funasr.front import read_cmvn
from export.funasr.pickled import read_tensors

Tensors = dict[str, NDArray[Any]]

LLM: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
    "tie_word_embeddings": True,
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "model": "FunASRNano",
    "audio_encoder": "SenseVoiceEncoderSmall",
    "audio_encoder_conf": {
        "output_size": 8, "attention_heads": 2, "linear_units": 12, "num_blocks": 2, "tp_blocks": 1, "kernel_size": 11,
        "sanm_shfit": 0,
    },
    "audio_adaptor": "Transformer",
    "audio_adaptor_conf": {
        "downsample_rate": 1, "ffn_dim": 12, "llm_dim": 16, "n_layer": 1, "use_low_frame_rate": True,
    },
    "llm_conf": {"init_param_path": "hub/Qwen3"},
    "frontend": "WavFrontend",
    "frontend_conf": {
        "fs": 16000, "window": "hamming", "n_mels": 10, "frame_length": 25, "frame_shift": 10, "lfr_m": 7, "lfr_n": 6,
        "cmvn_file": None,
    },
}  # fmt: skip


class Storage:
    """What torch pickles as a reference to a member of the archive."""

    def __init__(self, key: str, kind: type, count: int) -> None:
        self.key, self.kind, self.count = key, kind, count


class Described:
    """A tensor that is pickled as torch pickles one."""

    def __init__(self, rebuild: Any, storage: Storage, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        hooks: OrderedDict[str, object] = OrderedDict()
        self.parts = (rebuild, (storage, 0, shape, strides, False, hooks))

    def __reduce__(self) -> Any:
        return self.parts


class Writer(pickle.Pickler):
    """A pickler that refers to storages as torch does."""

    def persistent_id(self, obj: Any, /) -> Any:
        return ("storage", obj.kind, obj.key, "cpu", obj.count) if isinstance(obj, Storage) else None


@pytest.fixture
def save(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write what ``torch.save`` writes of state dicts. Names that the pickle refers to stand in for torch meanwhile."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def _rebuild_tensor_v2() -> None: ...

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2  # pyright: ignore[reportAttributeAccessIssue]
    kinds = {
        name: type(name, (), {"__module__": "torch"}) for name in ("FloatStorage", "HalfStorage", "BFloat16Storage")
    }
    for name, kind in kinds.items():
        setattr(torch, name, kind)
    of = {"f4": "FloatStorage", "f2": "HalfStorage", "u2": "BFloat16Storage"}

    def write(path: Path, values: Tensors, *, turned: str = "", extra: object = None) -> None:
        state: dict[str, object] = {}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for key, (name, array) in enumerate(values.items()):
                kind = kinds[of[array.dtype.str[1:]]]
                strides = tuple(stride // array.itemsize for stride in array.strides)
                shape = array.shape[::-1] if name == turned else array.shape
                strides = strides[::-1] if name == turned else strides
                state[name] = Described(_rebuild_tensor_v2, Storage(str(key), kind, array.size), shape, strides)
                archive.writestr(f"model/data/{key}", array.tobytes())
            with monkeypatch.context() as patch:
                patch.setitem(sys.modules, "torch", torch)
                patch.setitem(sys.modules, "torch._utils", utils)
                with archive.open("model/data.pkl", "w") as stream:
                    Writer(stream, protocol=2).dump({"state_dict": state, "epoch": 3, "extra": extra})

    return write


def dims_of(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of every tensor of CONFIG."""
    shapes = {
        "llm.model.embed_tokens.weight": (64, 16), "llm.model.norm.weight": (16,),
        **{f"llm.model.layers.0.{name}.weight": shape for name, shape in {
            "input_layernorm": (16,), "post_attention_layernorm": (16,), "self_attn.q_proj": (16, 16),
            "self_attn.k_proj": (8, 16), "self_attn.v_proj": (8, 16), "self_attn.o_proj": (16, 16),
            "self_attn.q_norm": (8,), "self_attn.k_norm": (8,), "mlp.gate_proj": (32, 16), "mlp.up_proj": (32, 16),
            "mlp.down_proj": (16, 32),
        }.items()},
    }  # fmt: skip
    from export.funasr.dims import AdaptorDims, SenseVoiceDims

    audio = config["audio_encoder_conf"]
    encoder = SenseVoiceDims(70, 8, 2, 12, audio["num_blocks"], 1, 11, 0)
    whole = types.SimpleNamespace(encoder=encoder, adaptor=AdaptorDims(12, 16, 8, 1), ctc=None)
    return shapes | dict(encoder_shapes(whole))  # pyright: ignore[reportArgumentType]


def checkpoint(directory: Path, save: Callable[..., None], config: dict[str, Any] = CONFIG, **changes: Any) -> Path:
    """Write a checkpoint directory whose config.yaml has ``changes``."""
    (directory / "Qwen3").mkdir(parents=True)
    (directory / "Qwen3" / "config.json").write_text(json.dumps(LLM))
    (directory / "config.yaml").write_text(yaml.safe_dump(config | changes))
    random = np.random.default_rng(0)
    save(directory / "model.pt", {k: random.standard_normal(v).astype("f4") for k, v in dims_of(config).items()})
    return directory


def test_every_format_is_read(tmp_path: Path, save: Callable[..., None]) -> None:
    """Tensors in float32, float16 and bfloat16 are read, with and without the prefix ``module.``."""
    values = np.arange(-6, 6, dtype="f4").reshape(3, 4) / 8
    half = (values.view("u4") >> 16).astype("u2")
    save(tmp_path / "model.pt", {"a": values, "b": values.astype("f2"), "module.c": half})
    found = read_tensors(tmp_path / "model.pt")
    assert list(found) == ["a", "b", "c"]
    for stored in found.values():
        np.testing.assert_array_equal(stored.read(), values)


def test_a_pickle_runs_nothing(tmp_path: Path, save: Callable[..., None]) -> None:
    """A pickle that asks for more than tensors is refused before anything is called."""

    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "sprung"),)

    save(tmp_path / "model.pt", {}, extra=Trap())
    with pytest.raises(CheckpointError, match=r"asks for (posix|nt)\.mkdir, which is no part of a tensor"):
        read_tensors(tmp_path / "model.pt")
    assert not (tmp_path / "sprung").exists()


def test_other_files_are_refused(tmp_path: Path, save: Callable[..., None]) -> None:
    """A missing file, one that is no archive, one without a pickle and a transposed tensor are refused."""
    path = tmp_path / "model.pt"
    with pytest.raises(CheckpointError, match=r"holds no model\.pt"):
        read_tensors(path)
    path.write_bytes(b"no archive")
    with pytest.raises(CheckpointError, match=r"not a file of tensors by torch\.save"):
        read_tensors(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/version", "3")
    with pytest.raises(CheckpointError, match=r"not a file of tensors by torch\.save"):
        read_tensors(path)
    save(path, {"a": np.zeros((2, 3), "f4")}, turned="a")
    with pytest.raises(CheckpointError, match="tensor a is compressed, cut off or not contiguous"):
        read_tensors(path)


def test_dimensions(tmp_path: Path, save: Callable[..., None]) -> None:
    """The dimensions are those of the configuration, and the decoder's those in its own directory."""
    dims: FunAsrDims = read_funasr_dims(open_funasr(checkpoint(tmp_path / "c", save)))
    assert (dims.front.frame_length, dims.front.hop, dims.encoder.inputs, dims.halvings) == (400, 160, 70, 3)
    assert (dims.adaptor.width, dims.decoder.head_dim, dims.ctc, dims.system, dims.think) == (16, 8, None, True, True)


def test_inspect_needs_no_torch(tmp_path: Path, save: Callable[..., None]) -> None:
    """A fresh interpreter inspects a checkpoint without importing torch."""
    directory = checkpoint(tmp_path / "c", save)
    code = (
        f"import sys; from pathlib import Path; from export import api; print(api.inspect(Path({str(directory)!r}))); "
        "assert not {'torch', 'onnx', 'transformers', 'funasr'} & sys.modules.keys()"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for words in (
        "FunASR, ",
        "stacked         7",
        "kernel          11",
        "vocabulary      64",
        "clips of up to 500 rows",
    ):
        assert words in printed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "SenseVoiceSmall"}, r"config\.yaml: model is not FunASRNano"),
        ({"audio_adaptor": "QFormer"}, r"audio_adaptor: 'QFormer' is not 'Transformer'"),
        ({"llm_conf": {}}, r"llm_conf\.init_param_path: missing"),
        ({"llm_conf": {"init_param_path": "Other"}}, r"holds no Other/config\.json"),
        ({"audio_adaptor_conf": {"downsample_rate": 2}}, r"audio_adaptor_conf\.downsample_rate: only 1"),
        ({"frontend_conf": CONFIG["frontend_conf"] | {"window": "hann"}}, r"frontend_conf\.window: 'hann'"),
        ({"audio_encoder_conf": {"output_size": 8}}, r"audio_encoder_conf\.attention_heads: missing"),
        (
            {"audio_encoder_conf": CONFIG["audio_encoder_conf"] | {"num_blocks": 3}},
            r"tensor audio_encoder\.encoders\.1\.self_attn\.linear_q_k_v\.weight is missing",
        ),
        (
            {"audio_encoder_conf": CONFIG["audio_encoder_conf"] | {"num_blocks": 1}},
            r"tensor audio_encoder\.encoders\.0\.\S+ has no place",
        ),
    ],
)
def test_what_cannot_be_exported_is_refused_by_name(
    tmp_path: Path, save: Callable[..., None], changes: dict[str, Any], message: str
) -> None:
    """The error names the key of the configuration, or the tensor as the checkpoint calls it."""
    directory = checkpoint(tmp_path / "c", save, **changes)
    with pytest.raises(CheckpointError, match=message):
        api.inspect(directory)


def test_a_decoder_tensor_is_named_as_published(tmp_path: Path, save: Callable[..., None]) -> None:
    """The error has the tensor's name with the checkpoint's own prefix."""
    directory = checkpoint(tmp_path / "c", save)
    (directory / "Qwen3" / "config.json").write_text(json.dumps(LLM | {"intermediate_size": 24}))
    with pytest.raises(
        CheckpointError, match=r"tensor llm\.model\.layers\.0\.mlp\.gate_proj\.weight has shape \[32, 16\]"
    ):
        api.inspect(directory)


def test_mean_and_variance(tmp_path: Path) -> None:
    """They are read from Kaldi's text, and another width is refused."""
    text = "<AddShift> 2 2\n<LearnRateCoef> 0 [ -1 -2.5 ]\n<Rescale> 2 2\n<LearnRateCoef> 0 [ 0.5 0.25 ]\n"
    (tmp_path / "am.mvn").write_text(text)
    np.testing.assert_array_equal(read_cmvn(tmp_path / "am.mvn", 2), np.array([[-1, -2.5], [0.5, 0.25]], "f4"))
    with pytest.raises(CheckpointError, match=r"shape \[2, 2\], not \[2, 3\]"):
        read_cmvn(tmp_path / "am.mvn", 3)
