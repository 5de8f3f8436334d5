"""What the manifest says of a checkpoint."""

from pathlib import Path

import pytest

from engines import manifest as manifests
from export.checkpoint import CheckpointError, open_checkpoint
from export.dims import read_dims
from export.directory import describe, extras
from tests.export.checkpoints import write_checkpoint


def written(folder: Path, **extra: object) -> manifests.AsrManifest:
    """The manifest of a checkpoint with ``extra`` as the key ``hearsay`` of its config.json, read back."""
    checkpoint = open_checkpoint(write_checkpoint(folder / "checkpoint", hearsay=extra))
    out = folder / "out"
    out.mkdir()
    manifest = describe(
        checkpoint, read_dims(checkpoint), out, "fp32", "f32", clip=False, name="tiny", extra=extras(checkpoint)
    )
    manifests.write(manifest, out)
    assert manifests.read_asr(out) == manifest
    return manifest


@pytest.mark.parametrize("trained", [True, False])
def test_the_manifest_says_whether_the_decoder_reads_text_without_sound(tmp_path: Path, trained: bool) -> None:
    assert written(tmp_path, decoder={"language_model": trained}).decoder.language_model is trained
    assert ("language_model" in (tmp_path / "out" / manifests.NAME).read_text()) is trained


def test_a_checkpoint_that_does_not_say_so_was_not_trained_for_it(tmp_path: Path) -> None:
    """The released ones among them."""
    assert written(tmp_path).decoder.language_model is False


def test_anything_but_yes_and_no_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"hearsay\.decoder\.language_model: 'yes' is neither true nor false"):
        written(tmp_path, decoder={"language_model": "yes"})
