"""A phone head of a checkpoint: its dimensions, its place in the manifest, and errors that name what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines import manifest as manifests
from export import api
from export.checkpoint import CheckpointError, open_checkpoint
from export.dims import PhoneDims, read_dims
from export.directory import describe, extras
from tests.export.checkpoints import AUDIO, Tensors, phone_head, tensors, write_checkpoint

PHONES: dict[str, Any] = {"layer": 1, "frames": 3, "pronunciation": "pronunciation.npz"}
CLASSES = 8


def checkpoint(folder: Path, phones: Any = PHONES, head: Tensors | None = None, *, file: bool = True) -> Path:
    """A checkpoint with ``phones`` in its config.json, ``head`` (else a right one), and the pronunciations."""
    values = tensors() | (phone_head(AUDIO["d_model"], 3, CLASSES) if head is None else head)
    write_checkpoint(folder, values, hearsay={} if phones is None else {"phones": phones})
    if file:
        np.savez(folder / "pronunciation.npz", words=np.arange(5))
    return folder


def test_its_dimensions_are_read_and_printed(tmp_path: Path) -> None:
    """The blank is none of its classes."""
    report = api.inspect(checkpoint(tmp_path))
    assert isinstance(report, api.Report)
    assert report.dims.encoder.phones == PhoneDims(1, 3, CLASSES, "pronunciation.npz")
    assert "phone head\n  layer           1\n  frames          3\n  classes         8\n" in str(report)


def test_a_checkpoint_without_the_head_has_none(tmp_path: Path) -> None:
    """Nor is one printed."""
    report = api.inspect(write_checkpoint(tmp_path))
    assert isinstance(report, api.Report)
    assert report.dims.encoder.phones is None and "phone" not in str(report)


def test_the_manifest_names_the_head(tmp_path: Path) -> None:
    """With what the runtime needs to read its output."""
    opened = open_checkpoint(checkpoint(tmp_path / "checkpoint"))
    out = tmp_path / "out"
    out.mkdir()
    manifest = describe(opened, read_dims(opened), out, "fp32", "f32", clip=False, name="tiny", extra=extras(opened))
    manifests.write(manifest, out)
    assert manifests.read_asr(out).encoder.phones == manifests.Phones(3, CLASSES, "pronunciation.npz")


def test_a_head_that_the_configuration_does_not_describe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"hearsay\.phones is missing, which phones\.0\.bias asks for"):
        read_dims(open_checkpoint(checkpoint(tmp_path, None)))


def test_a_description_without_the_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"hearsay\.phones: tensor phones\.1\.weight is missing"):
        read_dims(open_checkpoint(checkpoint(tmp_path, head={})))


@pytest.mark.parametrize("name", sorted(phone_head(48, 3, CLASSES)))
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    head = phone_head(48, 3, CLASSES)
    del head[name]
    with pytest.raises(CheckpointError, match=f"tensor {name} is missing"):
        read_dims(open_checkpoint(checkpoint(tmp_path, head=head)))


@pytest.mark.parametrize(
    ("name", "shape", "asked"),
    [
        ("phones.0.weight", (47,), r"\[47\], the configuration asks for \[48\]"),
        ("phones.0.bias", (49,), r"\[49\], the configuration asks for \[48\]"),
        ("phones.1.weight", (27, 47), r"\[27, 47\], the configuration asks for \[27, 48\]"),
        ("phones.1.bias", (26,), r"\[26\], the configuration asks for \[27\]"),
    ],
)
def test_a_tensor_of_another_shape_is_named(tmp_path: Path, name: str, shape: tuple[int, ...], asked: str) -> None:
    head = phone_head(48, 3, CLASSES) | {name: np.ones(shape, np.float32)}
    with pytest.raises(CheckpointError, match=f"tensor {name} has shape {asked}"):
        read_dims(open_checkpoint(checkpoint(tmp_path, head=head)))


@pytest.mark.parametrize(
    ("phones", "message"),
    [
        (["layer", 1], r"config\.json: hearsay\.phones is missing or no object"),
        (PHONES | {"layer": 0}, r"hearsay\.phones\.layer: 0 is no positive integer"),
        (PHONES | {"layer": 3}, r"hearsay\.phones\.layer: 3 lies outside 1…2"),
        (PHONES | {"layer": "1"}, r"hearsay\.phones\.layer: '1' is no positive integer"),
        ({"frames": 3, "pronunciation": "pronunciation.npz"}, r"hearsay\.phones\.layer: missing"),
        (PHONES | {"frames": 4}, r"hearsay\.phones\.frames: 4 does not divide the 27 rows of phones\.1\.weight"),
        (PHONES | {"frames": 27}, r"hearsay\.phones\.frames: 27 does not divide the 27 rows"),
        (PHONES | {"pronunciation": None}, r"hearsay\.phones\.pronunciation: None is not the name"),
        (PHONES | {"pronunciation": "../pronunciation.npz"}, r"hearsay\.phones\.pronunciation: '\.\./pronunciation"),
        (PHONES | {"pronunciation": "decoder.gguf"}, r"hearsay\.phones\.pronunciation: 'decoder\.gguf' is not"),
        (PHONES | {"pronunciation": "other.npz"}, r"hearsay\.phones\.pronunciation: .* holds no other\.npz"),
    ],
)
def test_a_bad_key_is_named(tmp_path: Path, phones: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_dims(open_checkpoint(checkpoint(tmp_path, phones)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"hearsay\.phones\.pronunciation: .* holds no pronunciation\.npz"):
        read_dims(open_checkpoint(checkpoint(tmp_path, file=False)))
