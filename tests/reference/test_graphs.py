"""Graphs on disk: weights once, nothing of the exporting machine, dynamic axes, every precision, the older runtime."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from engines import manifest as manifests
from engines.store import find
from export import api
from export.checkpoint import CheckpointError
from export.sound import sound
from export.trace.quantize import WIDE
from tests.reference.official import TINY, write_checkpoint

pytestmark = pytest.mark.reference

Floats = NDArray[np.float32]


@pytest.fixture(scope="module")
def int8(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8-bit encoder, q8_0 decoder."""
    out = tmp_path_factory.mktemp("int8") / "model"
    return api.run(tiny.checkpoint, out, encoder="int8", decoder="q8_0", clip=True, name=None)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """As many channels as make 8-bit convolutions worth it; a float32 and an int8 export."""
    root = tmp_path_factory.mktemp("wide")
    shape = TINY | {"audio_config": TINY["audio_config"] | {"downsample_hidden_size": WIDE}}
    checkpoint = write_checkpoint(root / "checkpoint", shape, layout="transformers", seed=9)
    return tuple(
        api.run(checkpoint, root / encoder, encoder=encoder, decoder=decoder, clip=True, name=None)
        for encoder, decoder in (("fp32", "f32"), ("int8", "q8_0"))
    )


@pytest.fixture(scope="module")
def fp16(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16-bit encoder, f16 decoder."""
    out = tmp_path_factory.mktemp("fp16") / "model"
    return api.run(tiny.checkpoint, out, encoder="fp16", decoder="f16", clip=True, name=None)


def session(path: Path) -> ort.InferenceSession:
    """One graph on the CPU."""
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def external(path: Path) -> dict[str, tuple[str, int, int]]:
    """Tensors that lie outside a graph: name → file, offset, length."""
    found: dict[str, tuple[str, int, int]] = {}
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entry = {each.key: each.value for each in tensor.external_data}
            found[tensor.name] = (entry["location"], int(entry["offset"]), int(entry["length"]))
    return found


def test_weights_lie_on_disk_once(case: Any) -> None:
    """The whole-clip graph refers to what stem and body refer to, and to nothing else; no two places hold the same."""
    stem, body, clip = (set(external(case.model / f"{name}.onnx").values()) for name in ("stem", "body", "clip"))
    assert clip == stem | body and not stem & body
    weights = (case.model / "encoder.weights").read_bytes()
    assert {file for file, _, _ in clip} == {"encoder.weights"}
    digests = [hashlib.sha256(weights[offset : offset + length]).digest() for _, offset, length in clip]
    assert len(set(digests)) == len(digests)
    assert sum(length for _, _, length in clip) > 0.9 * len(weights) - 4096 * len(clip)
    for path in case.model.glob("*.onnx"):
        assert path.stat().st_size < 100_000


def test_the_manifest_guards_every_file(case: Any) -> None:
    """Size and hash, and the runtime's own reader accepts it."""
    manifest = manifests.read_asr(case.model)
    assert set(manifest.files) == {path.name for path in case.model.iterdir()} - {"model.json"}
    for name, file in manifest.files.items():
        data = (case.model / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.bytes, file.sha256)
    assert find(str(case.model)) == case.model


def test_graphs_tell_nothing_of_the_machine_that_made_them(case: Any) -> None:
    """No path, no stack trace, no module name."""
    for path in case.model.glob("*.onnx"):
        data = path.read_bytes()
        for word in (b"site-packages", b".py", b"torch", b"File ", str(Path.home()).encode() + b"/"):
            assert word not in data, f"{path.name} holds {word!r}"


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_a_window_is_bit_equal_alone_padded_and_beside_a_loud_one(
    tiny: Any, int8: Path, fp16: Path, precision: str
) -> None:
    """No scale, mean or mask spans another window's rows or the padding."""
    directory = {"fp32": tiny.model, "fp16": fp16, "int8": int8}[precision]
    kind = np.float16 if precision == "fp16" else np.float32
    stem, body = session(directory / "stem.onnx"), session(directory / "body.onnx")
    features, _ = tiny.reference.features(sound(8.0, 3))
    chunks = features[0].numpy().reshape(128, -1, 100).transpose(1, 0, 2).astype(kind)
    loud = chunks * 5
    rows = stem.run(None, {"mel": chunks})[0]
    for index in range(len(chunks)):
        assert np.array_equal(stem.run(None, {"mel": chunks[index : index + 1]})[0][0], rows[index])
        beside = stem.run(None, {"mel": np.stack([chunks[index], loud[index - 1]])})[0]
        assert np.array_equal(beside[0], rows[index])
    window = rows.reshape(1, -1, rows.shape[-1])
    for count in (13, 39, 52, 91, 104):
        part = window[:, :count]
        alone = body.run(None, {"rows": part, "mask": np.ones((1, count), kind)})[0]
        mask = np.zeros((1, 104), kind)
        mask[:, :count] = 1
        padding = np.pad(part, ((0, 0), (0, 104 - count), (0, 0)))
        noise = padding.copy()
        noise[:, count:] = 5 * window[:, : 104 - count]
        for padded in (padding, noise):
            assert np.array_equal(body.run(None, {"rows": padded, "mask": mask})[0][:, :count], alone)
        both = body.run(None, {"rows": np.concatenate([part, 5 * part]), "mask": np.ones((2, count), kind)})[0]
        assert np.array_equal(both[:1], alone)


def test_wide_convolutions_are_products_in_8_bits(wide: Any) -> None:
    """No float convolution but the first; near the float ones; a chunk the same alone and beside a loud one."""
    plain, rounded = wide
    operators = [[node.op_type for node in onnx.load(model / "stem.onnx").graph.node] for model in wide]
    assert [each.count("Conv") for each in operators] == [3, 1]
    assert [each.count("MatMulInteger") for each in operators] == [0, 3]
    chunks = np.clip(np.random.default_rng(1).standard_normal((4, 128, 100)) * 0.4, -0.6, 1.4).astype(np.float32)
    chunks[1] *= 5
    chunks[2, :, 37:] = 0
    exact, near = (session(model / "stem.onnx").run(None, {"mel": chunks})[0] for model in wide)
    stem = session(rounded / "stem.onnx")
    for index in range(len(chunks)):
        distance = np.sqrt(((near[index] - exact[index]) ** 2).mean() / (exact[index] ** 2).mean())
        assert 1e-4 < distance < 0.04, distance
        assert np.array_equal(stem.run(None, {"mel": chunks[index : index + 1]})[0][0], near[index])
    from export.verify.parity import Exported

    exported = Exported(rounded)
    try:
        features = np.random.default_rng(2).uniform(-0.6, 1.4, (128, 930)).astype(np.float32)
        assert np.array_equal(exported.encode(features).embeddings, exported.encode_clip(features))
    finally:
        exported.close()
    assert plain != rounded


@pytest.mark.parametrize(("precision", "limit"), [("fp16", 5e-3), ("int8", 5e-2)])
def test_rounded_encoders_stay_near_the_official_one(
    tiny: Any, int8: Path, fp16: Path, precision: str, limit: float
) -> None:
    """RMS error over RMS; and the clip graph rounds as stem and body do."""
    from export.verify.parity import Exported

    exported = Exported(fp16 if precision == "fp16" else int8)
    try:
        features, mask = tiny.reference.features(sound(9.3, 4))
        theirs = tiny.reference.encode(features, mask)
        valid = features[0].numpy()[:, : int(mask.sum())]
        ours = exported.encode(valid).embeddings
        distance = float(np.sqrt(((ours - theirs) ** 2).mean() / (theirs**2).mean()))
        print(f"{precision}: {distance:.5f}")
        assert 1e-6 < distance < limit
        assert np.array_equal(ours, exported.encode_clip(valid))
    finally:
        exported.close()


def test_8_bit_weights_are_a_quarter(tiny: Any, int8: Path) -> None:
    """Beside the convolutions, which stay in float32."""
    ours, whole = ((directory / "encoder.weights").stat().st_size for directory in (int8, tiny.model))
    assert ours < 0.4 * whole


@pytest.mark.parametrize("name", ["tiny", "other", "fp16", "int8", "wide"])
def test_every_graph_runs_on_the_newest_directml_version(
    request: pytest.FixtureRequest, name: str, tmp_path: Path
) -> None:
    """onnxruntime 1.24.4, in its own environment, gives what this one gives."""
    made = request.getfixturevalue(name)
    directory = made[-1] if isinstance(made, tuple) else made if isinstance(made, Path) else made.model
    script, outputs = Path(__file__).with_name("ort124.py"), tmp_path / "outputs.npz"
    subprocess.run([sys.executable, script, directory, outputs], check=True)
    command = [os.environ["HEARSAY_ORT124"], script, directory, outputs]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert "with onnxruntime 1.24.4" in done.stdout


def test_nothing_but_a_model_directory_is_overwritten(tiny: Any, tmp_path: Path) -> None:
    """A folder with other files stays as it is; a model directory is replaced whole."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match="nothing is overwritten"):
        api.run(tiny.checkpoint, tmp_path, encoder="fp32", decoder="f32", clip=False, name=None)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    out = tmp_path / "model"
    for clip in (True, False):
        api.run(tiny.checkpoint, out, encoder="fp32", decoder="f32", clip=clip, name="again")
        assert (out / "clip.onnx").exists() == clip
        assert manifests.read_asr(out).name == "again"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "thesis.txt"]


def test_a_failed_export_leaves_nothing(tmp_path: Path) -> None:
    """Neither the directory nor its scratch."""
    checkpoint = write_checkpoint(tmp_path / "checkpoint", TINY, layout="transformers")
    (checkpoint / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="tokenizer"):
        api.run(checkpoint, tmp_path / "model", encoder="fp32", decoder="f32", clip=False, name=None)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
