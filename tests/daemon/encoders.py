"""Writes data/speaker_encoder.onnx and data/codec_encoder.onnx: what a model needs to clone, in a few nodes.

Needs the onnx package: ``python tests/daemon/encoders.py``. With them the small speaking model of tests/golden takes a
recording over HTTP and speaks with what it makes of it; what a real encoder makes of a voice is tested elsewhere
(tests/reference/tts/test_cloning.py).
"""

import shutil
from pathlib import Path

import msgspec
import numpy as np

from engines.manifest import NAME

DATA = Path(__file__).parent / "data"
SPEAKER, CODEC, FILTERS = "speaker_encoder.onnx", "codec_encoder.onnx", "filters.npy"
BINS, N_FFT, HOP, FRAME = 16, 256, 128, 1920


def cloner(source: Path, target: Path) -> Path:
    """A copy of the model directory ``source`` in ``target`` that can clone."""
    shutil.copytree(source, target)
    manifest = msgspec.json.decode((source / NAME).read_bytes())
    for name in (SPEAKER, CODEC):
        shutil.copy(DATA / name, target)
    filters = np.random.default_rng(3).random((BINS, N_FFT // 2 + 1), np.float32)
    np.save(target / FILTERS, filters)
    for name in (SPEAKER, CODEC, FILTERS):
        manifest["files"][name] = {"bytes": (target / name).stat().st_size, "sha256": "0" * 64}
    manifest["speaker_encoder"] = {
        "file": SPEAKER, "filters": FILTERS, "sample_rate": 24_000, "n_fft": N_FFT, "hop_length": HOP, "bins": BINS,
    }  # fmt: skip
    manifest["codec_encoder"] = {"file": CODEC, "sample_rate": 24_000, "frame_samples": FRAME}
    manifest["name"] = "tiny-base"
    (target / NAME).write_bytes(msgspec.json.encode(manifest))
    return target


def build(width: int, codebooks: int, entries: int) -> None:
    """Write both graphs."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def save(name: str, nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], ends: list[object]) -> None:
        tensors = [numpy_helper.from_array(value, key) for key, value in constants.items()]
        graph = helper.make_graph(nodes, name, [ends[0]], [ends[1]], tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(model)
        onnx.save(model, DATA / name)

    def value(name: str, *shape: int | str, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, dtype, shape)

    mix = np.random.default_rng(4).standard_normal((BINS, width)).astype(np.float32) / 8
    save(
        SPEAKER,
        [
            helper.make_node("ReduceMean", ["mels"], ["mean"], axes=[1], keepdims=0),
            helper.make_node("MatMul", ["mean", "mix"], ["embedding"]),
        ],
        {"mix": mix},
        [value("mels", "b", "t", BINS), value("embedding", "b", width)],
    )
    save(
        CODEC,
        [
            helper.make_node("Reshape", ["audio", "frames"], ["cut"]),
            helper.make_node("ReduceL2", ["cut"], ["level"], axes=[2], keepdims=1),
            helper.make_node("Mul", ["level", "scale"], ["scaled"]),
            helper.make_node("Cast", ["scaled"], ["whole"], to=TensorProto.INT64),
            helper.make_node("Add", ["whole", "steps"], ["codes_high"]),
            helper.make_node("Mod", ["codes_high", "entries"], ["codes"]),
        ],
        {
            "frames": np.array([0, -1, FRAME], np.int64),
            "scale": np.array(1000, np.float32),
            "steps": np.arange(codebooks, dtype=np.int64) * 7,
            "entries": np.array(entries, np.int64),
        },
        [value("audio", "b", "t"), value("codes", "b", "f", codebooks, dtype=TensorProto.INT64)],
    )


if __name__ == "__main__":
    build(width=64, codebooks=4, entries=64)
