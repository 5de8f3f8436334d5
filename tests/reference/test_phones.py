"""A phone head on an inner encoder layer: the graph's output against the official encoder's states, and training's."""

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

from engines import manifest as manifests
from export import api, parity
from export.checkpoint import open_checkpoint
from export.dims import Dims, read_dims
from export.parity import Exported, Row
from export.reference import Reference
from tests.export import checkpoints
from tests.reference.official import OTHER, TINY, add_heads, write_checkpoint
from tests.reference.stages import changed
from training.asr.config import Regularisation, Shape
from training.asr.model import PocketASR
from training.asr.shipped import shipped_weights

pytestmark = pytest.mark.reference

Floats = NDArray[np.float32]
CLASSES = 11


class Head:
    """A checkpoint with a phone head, its float32 export, and the official code on it."""

    def __init__(self, root: Path, shape: Any, *, layout: str, layer: int, ctc: int | None) -> None:
        self.checkpoint = add_heads(
            write_checkpoint(root / "checkpoint", shape, layout=layout, seed=3),
            width=shape["audio_config"]["d_model"], layer=layer, classes=CLASSES, ctc=ctc,
        )  # fmt: skip
        self.model = api.run(self.checkpoint, root / "model", encoder="fp32", decoder="f32", clip=True, name=None)
        opened = open_checkpoint(self.checkpoint)
        self.reference = Reference(opened, read_dims(opened))
        self.exported = Exported(self.model)


@pytest.fixture(scope="module", params=["beside a CTC head", "alone"])
def head(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """On the second layer of three, and on the first of two in the other layout, in shards."""
    root = tmp_path_factory.mktemp("head")
    if request.param == "alone":
        made = Head(root, OTHER, layout="original", layer=1, ctc=None)
    else:
        made = Head(root, TINY, layout="transformers", layer=2, ctc=641)
    yield made
    made.exported.close()


def phone_rows(head: Head) -> list[Row]:
    """What ``verify`` says of the head, one window and more than one."""
    rows = parity.encoder_rows(head.exported, head.reference, (0.3, 8.01))
    return [row for row in rows if row.stage.startswith("phones")]


def test_it_gives_the_official_states_through_the_head(head: Head) -> None:
    """Within the limit of the CTC head, and the other outputs within theirs."""
    rows = list(parity.encoder_rows(head.exported, head.reference, (0.3, 8.01, 13.7)))
    for row in rows:
        print(row)
    wanted = {"encoder", "clip", "phones"} | ({"ctc"} if head.reference.dims.encoder.ctc else set())
    assert {row.stage.split()[0] for row in rows} == wanted
    assert not [str(row) for row in rows if not row.passed]
    assert all(row.limit == parity.HEAD_ERROR for row in rows if row.stage.startswith(("ctc", "phones")))


def test_another_layer_is_noticed(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference on the layer behind it."""
    dims = head.reference.dims
    phones = dims.encoder.phones
    assert phones is not None
    moved = Dims(replace(dims.encoder, phones=replace(phones, layer=phones.layer + 1)), dims.decoder, dims.aligner)
    monkeypatch.setattr(head.reference, "dims", moved)
    assert not any(row.passed for row in phone_rows(head))


def test_changed_tensors_are_noticed(head: Head) -> None:
    """One per cent on the last layer before the head or on the last norm breaks the limit; behind it nothing does."""
    tensors = dict(head.reference.model.model.named_parameters())
    phones = head.reference.dims.encoder.phones
    assert phones is not None
    for name in (f"audio_tower.layers.{phones.layer - 1}.fc2.weight", "audio_tower.ln_post.weight"):
        with changed(tensors[name]):
            assert not all(row.passed for row in phone_rows(head)), name
    with changed(tensors[f"audio_tower.layers.{phones.layer}.fc2.weight"]):
        assert all(row.passed for row in phone_rows(head))


def test_a_head_that_only_one_side_has_is_no_parity(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is left out in silence."""
    dims = head.reference.dims
    monkeypatch.setattr(head.reference, "dims", Dims(replace(dims.encoder, phones=None), dims.decoder, dims.aligner))
    rows = phone_rows(head)
    assert rows and not any(row.passed for row in rows)


def test_the_directory_holds_the_pronunciations(head: Head) -> None:
    """As they were, in the list of files, and named beside the head's sizes."""
    manifest = manifests.read_asr(head.model)
    assert manifest.encoder.phones == manifests.Phones(3, CLASSES, "pronunciation.npz")
    assert "pronunciation.npz" in manifest.files
    assert (head.model / "pronunciation.npz").read_bytes() == (head.checkpoint / "pronunciation.npz").read_bytes()


@pytest.mark.parametrize(("precision", "limit"), [("fp32", 1e-5), ("fp16", 0.02), ("int8", 0.06)])
def test_every_precision(head: Head, tmp_path: Path, precision: str, limit: float) -> None:
    """Named outputs near those of float32; every output bit-equal alone, padded, and beside a loud window; the same
    under the newest DirectML version."""
    model = head.model
    if precision != "fp32":
        model = api.run(head.checkpoint, tmp_path / "model", encoder=precision, decoder="f32", clip=False, name=None)
    kind = np.float16 if precision == "fp16" else np.float32
    body = ort.InferenceSession(str(model / "body.onnx"), providers=["CPUExecutionProvider"])
    names = [port.name for port in body.get_outputs()]
    assert names == (["embeddings", "ctc", "phones"] if head.reference.dims.encoder.ctc else ["embeddings", "phones"])
    dims = head.reference.dims.encoder
    random = np.random.default_rng(6)
    rows = random.standard_normal((1, dims.window_rows, dims.width)).astype(kind)

    def run(values: NDArray[Any], valid: int) -> dict[str, NDArray[Any]]:
        mask = np.zeros(values.shape[:2], kind)
        mask[:, :valid] = 1
        return dict(zip(names, body.run(None, {"rows": values, "mask": mask}), strict=True))

    for count in (13, 39):
        alone = run(rows[:, :count], count)
        assert alone["phones"].shape == (1, count, 3, CLASSES + 1) and alone["phones"].dtype == kind
        noise = np.concatenate([rows[:, :count], 5 * rows[:, count:]], 1)
        padded, pair = run(noise, count), run(np.concatenate([rows[:, :count], 5 * rows[:, :count]]), count)
        for name in names:
            np.testing.assert_array_equal(padded[name][:, :count], alone[name])
            np.testing.assert_array_equal(pair[name][:1], alone[name])
    plain = ort.InferenceSession(str(head.model / "body.onnx"), providers=["CPUExecutionProvider"])
    feeds = {"rows": rows.astype(np.float32), "mask": np.ones(rows.shape[:2], np.float32)}
    (exact,) = plain.run(["phones"], feeds)
    near = run(rows, rows.shape[1])["phones"].astype(np.float32)
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
    """Float32 to the head's limit; and the int8 export gives every tensor back to the next run."""
    shape = Shape(
        vocab=512, conv_channels=8, d_model=48, encoder_layers=4, encoder_heads=3, encoder_ffn=64,
        hidden=64, decoder_layers=2, heads=4, kv_heads=2, head_dim=32, decoder_ffn=96,
    )  # fmt: skip
    torch.manual_seed(7)
    model = PocketASR(shape, Regularisation(middle_layer=3), CLASSES).eval()
    for name, value in model.named_parameters():
        if value.dim() == 1:
            torch.nn.init.normal_(value.data, 1.0 if "norm" in name or name == "phones.0.weight" else 0.0, 0.1)
    state = model.state_dict()
    checkpoint = checkpoints.write_checkpoint(
        tmp_path / "checkpoint",
        {name: value.numpy() for name, value in state.items()},
        audio=checkpoints.AUDIO | {"encoder_layers": 4},
        hearsay={"phones": {"layer": 3, "frames": 3, "pronunciation": "pronunciation.npz"}},
    )
    np.savez(checkpoint / "pronunciation.npz", any=np.arange(3))
    features = np.clip(np.random.default_rng(8).standard_normal((128, 930)) * 0.4, -0.6, 1.4).astype(np.float32)
    padded = torch.from_numpy(np.pad(features, ((0, 0), (0, 70))))[None]
    assert model.phones is not None
    with torch.no_grad():
        states, middle, count = model.thinker.audio_tower(padded, torch.tensor([930]))
        phones = model.phones(middle[0, : int(count)]).unflatten(-1, (3, -1)).flatten(0, 1).log_softmax(-1).numpy()
        ctc = model.ctc(states[0, : int(count)]).log_softmax(-1).numpy()
    plain = api.run(checkpoint, tmp_path / "fp32", encoder="fp32", decoder="f32", clip=False, name=None)
    exported = Exported(plain)
    try:
        heard = exported.encode(features)
    finally:
        exported.close()
    assert heard.phones is not None and heard.ctc is not None
    assert heard.phones.shape == (3 * int(count), CLASSES + 1)
    assert np.abs(heard.phones - phones).max() < parity.HEAD_ERROR
    assert np.abs(heard.ctc - ctc).max() < parity.HEAD_ERROR

    back = shipped_weights(
        api.run(checkpoint, tmp_path / "int8", encoder="int8", decoder="q8_0", clip=False, name=None)
    )
    assert back.keys() == state.keys()
    PocketASR(shape, phones=CLASSES).load_state_dict(back)
    for name in ("phones.0.weight", "phones.0.bias", "phones.1.bias"):
        torch.testing.assert_close(back[name], state[name])
    peaks = state["phones.1.weight"].abs().amax(1, keepdim=True)
    assert bool(((back["phones.1.weight"] - state["phones.1.weight"]).abs() <= 0.51 * peaks / 127).all())
