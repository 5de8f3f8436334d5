"""The CTC head of our own small models: the graph's output against the official encoder's states, and training's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from numpy.typing import NDArray

from export import api
from export.checkpoint import open_checkpoint
from export.dims import Dims, read_dims
from export.verify import parity
from export.verify.parity import Exported, Row
from export.verify.reference import Reference
from tests.export import checkpoints
from tests.reference.official import OTHER, TINY, add_ctc, write_checkpoint
from tests.reference.stages import changed
from training.asr.config import Shape
from training.asr.model import PocketASR
from training.asr.shipped import shipped_weights

pytestmark = pytest.mark.reference

CLASSES = 641


class Head:
    """A checkpoint with a CTC head, its float32 export, and the official code on it."""

    def __init__(self, root: Path, shape: Any, *, layout: str) -> None:
        checkpoint = write_checkpoint(root / "checkpoint", shape, layout=layout, seed=3)
        self.checkpoint = add_ctc(checkpoint, width=shape["audio_config"]["d_model"], classes=CLASSES)
        self.model = api.run(self.checkpoint, root / "model", encoder="fp32", decoder="f32", clip=True, name=None)
        opened = open_checkpoint(self.checkpoint)
        self.reference = Reference(opened, read_dims(opened))
        self.exported = Exported(self.model)


@pytest.fixture(scope="module", params=["transformers", "original"])
def head(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """In either layout, the second in shards."""
    shape = TINY if request.param == "transformers" else OTHER
    made = Head(tmp_path_factory.mktemp("head"), shape, layout=request.param)
    yield made
    made.exported.close()


def head_rows(head: Head) -> list[Row]:
    """What ``verify`` says of the head, one window and more than one."""
    rows = parity.encoder_rows(head.exported, head.reference, (0.3, 8.01))
    return [row for row in rows if row.stage.startswith("ctc")]


def test_it_gives_the_official_states_through_the_head(head: Head) -> None:
    """Within the head's limit, and the embeddings within theirs."""
    rows = list(parity.encoder_rows(head.exported, head.reference, (0.3, 8.01, 13.7)))
    for row in rows:
        print(row)
    assert {row.stage.split()[0] for row in rows} == {"encoder", "clip", "ctc"}
    assert not [str(row) for row in rows if not row.passed]
    assert all(row.limit == parity.HEAD_ERROR for row in rows if row.stage.startswith("ctc"))


def test_changed_tensors_are_noticed(head: Head) -> None:
    """One per cent on the last layer or on the last norm breaks the limit; behind the head nothing does."""
    tensors = dict(head.reference.model.model.named_parameters())
    last = head.reference.dims.encoder.layers - 1
    for name in (f"audio_tower.layers.{last}.fc2.weight", "audio_tower.ln_post.weight"):
        with changed(tensors[name]):
            assert not all(row.passed for row in head_rows(head)), name
    with changed(tensors["multi_modal_projector.linear_1.weight"]):
        assert all(row.passed for row in head_rows(head))


def test_a_head_that_only_one_side_has_is_no_parity(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not left out in silence."""
    dims = head.reference.dims
    monkeypatch.setattr(head.reference, "dims", Dims(replace(dims.encoder, ctc=None), dims.decoder, dims.aligner))
    rows = head_rows(head)
    assert rows and not any(row.passed for row in rows)


@pytest.mark.parametrize(("precision", "limit"), [("fp32", 1e-5), ("fp16", 0.02), ("int8", 0.08)])
def test_every_precision(head: Head, tmp_path: Path, precision: str, limit: float) -> None:
    """Named outputs near those of float32; both bit-equal alone, padded, and beside a loud window; the same under the
    newest DirectML version."""
    model = head.model
    if precision != "fp32":
        model = api.run(head.checkpoint, tmp_path / "model", encoder=precision, decoder="f32", clip=False, name=None)
    kind = np.float16 if precision == "fp16" else np.float32
    body = ort.InferenceSession(str(model / "body.onnx"), providers=["CPUExecutionProvider"])
    names = [port.name for port in body.get_outputs()]
    assert names == ["embeddings", "ctc"]
    dims = head.reference.dims.encoder
    random = np.random.default_rng(6)
    rows = random.standard_normal((1, dims.window_rows, dims.width)).astype(kind)

    def run(values: NDArray[Any], valid: int) -> dict[str, NDArray[Any]]:
        mask = np.zeros(values.shape[:2], kind)
        mask[:, :valid] = 1
        return dict(zip(names, body.run(None, {"rows": values, "mask": mask}), strict=True))

    for count in (13, 39):
        alone = run(rows[:, :count], count)
        assert alone["ctc"].shape == (1, count, CLASSES) and alone["ctc"].dtype == kind
        noise = np.concatenate([rows[:, :count], 5 * rows[:, count:]], 1)
        padded, pair = run(noise, count), run(np.concatenate([rows[:, :count], 5 * rows[:, :count]]), count)
        for name in names:
            np.testing.assert_array_equal(padded[name][:, :count], alone[name])
            np.testing.assert_array_equal(pair[name][:1], alone[name])
    plain = ort.InferenceSession(str(head.model / "body.onnx"), providers=["CPUExecutionProvider"])
    feeds = {"rows": rows.astype(np.float32), "mask": np.ones(rows.shape[:2], np.float32)}
    (exact,) = plain.run(["ctc"], feeds)
    near = run(rows, rows.shape[1])["ctc"].astype(np.float32)
    distance = float(np.sqrt(((near - exact) ** 2).mean()) / exact.std())
    print(f"{precision}: {distance:.5f}")
    assert distance < limit
    assert np.allclose(np.exp(near).sum(-1), 1, atol=1e-2)
    script, outputs = Path(__file__).with_name("ort124.py"), tmp_path / "outputs.npz"
    subprocess.run([sys.executable, script, model, outputs], check=True)
    done = subprocess.run(
        [os.environ["HEARSAY_ORT124"], script, model, outputs], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0 and "with onnxruntime 1.24.4" in done.stdout, done.stdout + done.stderr


def test_what_training_hears_is_what_the_export_hears(tmp_path: Path) -> None:
    """Float32 to the head's limit; and the int8 export gives every tensor back to the next run. A phone head, which
    earlier runs trained too, is left behind."""
    shape = Shape(
        vocab=512, conv_channels=8, d_model=48, encoder_layers=4, encoder_heads=3, encoder_ffn=64,
        hidden=64, decoder_layers=2, heads=4, kv_heads=2, head_dim=32, decoder_ffn=96, chunk_frames=100,
    )  # fmt: skip
    torch.manual_seed(7)
    model = PocketASR(shape).eval()
    for name, value in model.named_parameters():
        if value.dim() == 1:
            torch.nn.init.normal_(value.data, 1.0 if "norm" in name else 0.0, 0.1)
    state = model.state_dict()
    checkpoint = checkpoints.write_checkpoint(
        tmp_path / "checkpoint",
        {name: value.numpy() for name, value in state.items()}
        | {"phones.0.weight": np.ones(48, np.float32), "phones.1.weight": np.ones((12, 48), np.float32)},
        audio=checkpoints.AUDIO | {"encoder_layers": 4},
        hearsay={"phones": {"layer": 3, "frames": 3, "pronunciation": "pronunciation.npz"}},
    )
    features = np.clip(np.random.default_rng(8).standard_normal((128, 930)) * 0.4, -0.6, 1.4).astype(np.float32)
    padded = torch.from_numpy(np.pad(features, ((0, 0), (0, 70))))[None]
    with torch.no_grad():
        tower = model.hear(padded, torch.tensor([930]))
        count = int(tower.count)
        ctc = model.ctc(tower.states[0, :count]).log_softmax(-1).numpy()
    plain = api.run(checkpoint, tmp_path / "fp32", encoder="fp32", decoder="f32", clip=False, name=None)
    exported = Exported(plain)
    try:
        heard = exported.encode(features)
    finally:
        exported.close()
    assert heard.ctc is not None and heard.ctc.shape == (count, 513)
    assert np.abs(heard.ctc - ctc).max() < parity.HEAD_ERROR

    back = shipped_weights(
        api.run(checkpoint, tmp_path / "int8", encoder="int8", decoder="q8_0", clip=False, name=None), shape
    )
    assert back.keys() == state.keys()
    PocketASR(shape).load_state_dict(back)
    torch.testing.assert_close(back["ctc.bias"], state["ctc.bias"])
    # No scale is more than twice the peak's (export/columns.py).
    peaks = state["ctc.weight"].abs().amax(1, keepdim=True)
    assert bool(((back["ctc.weight"] - state["ctc.weight"]).abs() <= 0.51 * peaks / 64).all())
