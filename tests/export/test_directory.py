"""The manifest that is made of a checkpoint."""

import json
from pathlib import Path

from engines import manifest as manifests
from export.checkpoint import open_checkpoint
from export.dims import read_dims
from export.directory import describe, extras
from tests.export.checkpoints import write_checkpoint


def written(folder: Path, **extra: object) -> manifests.AsrManifest:
    """The manifest, read back, of a checkpoint whose config.json has ``extra`` as its key ``hearsay``."""
    checkpoint = open_checkpoint(write_checkpoint(folder / "checkpoint", hearsay=extra))
    out = folder / "out"
    out.mkdir()
    manifest = describe(
        checkpoint, read_dims(checkpoint), out, "fp32", "f32", clip=False, name="tiny", extra=extras(checkpoint)
    )
    manifests.write(manifest, out)
    assert manifests.read_asr(out) == manifest
    return manifest


def test_a_manifest_of_an_older_export_is_read(tmp_path: Path) -> None:
    """What older exports wrote about a phone head, pronunciations and the decoder's training is ignored."""
    manifest = written(tmp_path, mel_floor={"kind": "fixed", "log10": -6.5})
    path = tmp_path / "out" / manifests.NAME
    content = json.loads(path.read_text())
    content["encoder"]["phones"] = {"frames": 3, "classes": 61, "pronunciation": "pronunciation.npz"}
    content["decoder"]["language_model"] = True
    content["files"]["pronunciation.npz"] = {"bytes": 252900, "sha256": 64 * "a"}
    path.write_text(json.dumps(content))
    older = manifests.read_asr(tmp_path / "out")
    assert (older.name, older.mel, older.tokenizer) == (manifest.name, manifest.mel, manifest.tokenizer)
    assert older.encoder.window_rows == manifest.encoder.window_rows == 104
    assert older.decoder.width == manifest.decoder.width == 64


def test_what_training_told_of_itself_is_not_written(tmp_path: Path) -> None:
    """``hearsay.phones`` and ``hearsay.decoder`` are about training alone, and not exported."""
    phones = {"layer": 1, "frames": 3, "pronunciation": "pronunciation.npz"}
    told = written(tmp_path / "told", phones=phones, decoder={"language_model": True})
    (tmp_path / "silent").mkdir()
    assert told == written(tmp_path / "silent")
