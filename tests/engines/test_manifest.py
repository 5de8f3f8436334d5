"""Files that a manifest names: every field with a file is known, and no name leads out of the directory."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engines.integrity import check, load_manifest
from engines.manifest import (
    NAME,
    Aligner,
    CodecEncoder,
    Manifest,
    ManifestError,
    SpeakerEncoder,
    read,
    read_asr,
    read_tts,
    references,
)

GOLDEN = Path(__file__).parents[1] / "golden"
replace = msgspec.structs.replace


def hearing() -> Manifest:
    """A manifest with everything that a hearing model's may have."""
    manifest = read_asr(GOLDEN / "asr" / "int8")
    encoder = replace(manifest.encoder, clip="clip.onnx")
    return replace(manifest, encoder=encoder, aligner=Aligner(300, 0.08, "aligner.npy"))


def speaking() -> Manifest:
    """A manifest with everything that a speaking model's may have."""
    manifest = read_tts(GOLDEN / "speaking")
    return replace(
        manifest,
        predictor=replace(manifest.predictor, rows="predictor_rows.npy", graph="frame.onnx"),
        speaker_encoder=SpeakerEncoder("speaker.onnx", "speaker_mel.npy", 24_000, 1024, 256, 128),
        codec_encoder=CodecEncoder("codec_encoder.onnx", 24_000, 1920),
    )


NAMED = {
    "mel.filters": "mel.npy", "encoder.stem": "stem.onnx", "encoder.body": "body.onnx", "encoder.clip": "clip.onnx",
    "decoder.file": "decoder.gguf",
    "tokenizer.file": "tokenizer.json", "aligner.head": "aligner.npy",
}, {
    "talker.file": "talker.gguf", "predictor.decoder.file": "predictor.gguf", "predictor.rows": "predictor_rows.npy",
    "predictor.heads": "predictor_heads.npy", "predictor.weight": "predictor_weight.npy",
    "predictor.bias": "predictor_bias.npy", "predictor.graph": "frame.onnx", "text_rows": "text_rows.npy",
    "code_rows": "code_rows.npy", "codec.file": "codec_decoder.onnx", "tokenizer.file": "tokenizer.json",
    "speaker_encoder.file": "speaker.onnx", "speaker_encoder.filters": "speaker_mel.npy",
    "codec_encoder.file": "codec_encoder.onnx",
}  # fmt: skip


@pytest.mark.parametrize(("manifest", "named"), [(hearing(), NAMED[0]), (speaking(), NAMED[1])])
def test_every_field_that_names_a_file_is_known(manifest: Manifest, named: dict[str, str]) -> None:
    assert dict(references(manifest)) == named


def changed(manifest: Manifest, field: str, name: str) -> dict[str, Any]:
    """The manifest as JSON, with another name in ``field``."""
    built: dict[str, Any] = msgspec.to_builtins(manifest)
    part = built
    *parents, last = field.split(".")
    for parent in parents:
        part = part[parent]
    part[last] = name
    return built


@pytest.mark.parametrize("name", ["../../../etc/passwd", ""])
@pytest.mark.parametrize(
    ("manifest", "field"), [(m, f) for m, n in zip((hearing(), speaking()), NAMED, strict=True) for f in n]
)
def test_a_name_that_leaves_the_directory_is_refused_in_every_field(
    tmp_path: Path, manifest: Manifest, field: str, name: str
) -> None:
    """Reading a manifest refuses such a name, before any file is opened."""
    (tmp_path / NAME).write_bytes(msgspec.json.encode(changed(manifest, field, name)))
    with pytest.raises(ManifestError, match="leaves the model directory"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("manifest", "field"), [(m, f) for m, n in zip((hearing(), speaking()), NAMED, strict=True) for f in n]
)
def test_a_file_that_is_used_but_not_listed_is_refused(tmp_path: Path, manifest: Manifest, field: str) -> None:
    """A file that is not listed has no checksum, so it is refused."""
    listed = {**manifest.files, **{name: next(iter(manifest.files.values())) for _, name in references(manifest)}}
    (tmp_path / NAME).write_bytes(msgspec.json.encode(changed(replace(manifest, files=listed), field, "other")))
    with pytest.raises(ManifestError, match=f"{field} names 'other', which files does not list"):
        load_manifest(tmp_path)


def test_the_golden_models_are_whole() -> None:
    for directory in (GOLDEN / "asr" / "int8", GOLDEN / "speaking"):
        check(directory, read(directory))


def test_a_manifest_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A folder in place of model.json gives an error that names it."""
    (tmp_path / NAME).mkdir()
    with pytest.raises(ManifestError, match=r"model\.json cannot be read"):
        read(tmp_path)


def test_two_manifests_are_read_at_once() -> None:
    """Two threads read manifests at once, as in a daemon that starts. They run in a process of its own, since the fault
    would end it without a word, and the types are new in each round."""
    code = """
import importlib, sys, threading
import subprocess
import sys
from pathlib import Path
from engines import manifest
sys.setswitchinterval(1e-6)
for _ in range(300):
    importlib.reload(manifest)
    threads = [threading.Thread(target=manifest.read, args=(Path(one),)) for one in sys.argv[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
    directories = [str(GOLDEN / "asr" / "int8"), str(GOLDEN / "speaking")]
    subprocess.run([sys.executable, "-c", code, *directories], check=True, timeout=120)
