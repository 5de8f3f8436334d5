"""What is no checkpoint is refused in one sentence that names the thing and the next step."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from export import fill
from export.checkpoint import CheckpointError
from export.source import locate
from export.tokenizer import OFFICIAL, OFFICIAL_WORDS, assemble
from tests.export.checkpoints import train_tokenizer, write_checkpoint

Spoil = Callable[[Path], object]

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


def cut(directory: Path) -> None:
    """Cut off the end of the weights."""
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def configured(directory: Path, **changes: object) -> None:
    """Write another config.json."""
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def shards(directory: Path) -> None:
    """Write an index that names a shard which is not there."""
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def foreign_tokenizer(directory: Path) -> None:
    """Write a tokenizer without the prompt's special tokens."""
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    tokenizer["added_tokens"] = []
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))


REFUSED: dict[str, tuple[Spoil, str]] = {
    "LFS weights": (lambda d: (d / "model.safetensors").write_text(POINTER), "pointer of Git LFS.*git lfs pull"),
    "LFS config": (lambda d: (d / "config.json").write_text(POINTER), "config.json is a pointer of Git LFS"),
    "LFS tokenizer": (lambda d: (d / "tokenizer.json").write_text(POINTER), "tokenizer.json is a pointer of Git LFS"),
    "cut off": (cut, r"model\.safetensors is damaged \(it is cut off: tensor .* ends beyond it\): download it again"),
    "a missing shard": (shards, "holds no model-00002-of-00002.safetensors: download it"),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), "holds no model.safetensors: download it"),
    "no tokenizer": (lambda d: (d / "tokenizer.json").unlink(), "holds no tokenizer: .*download the tokenizer's files"),
    "another's tokenizer": (foreign_tokenizer, r"lacks <\|im_start\|>.*another model's; download"),
    "another architecture": (lambda d: configured(d, model_type="whisper"), "'whisper', which is no Qwen3-ASR"),
    "a codec": (lambda d: configured(d, model_type="qwen3_tts_tokenizer_12hz"), "is the codec .* give the directory"),
    "no configuration": (lambda d: (d / "config.json").unlink(), "holds weights but no config.json"),
    "a model": (lambda d: (d / "model.json").write_text("{}"), "is a model already"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_converted_is_refused_by_name(tmp_path: Path, case: str) -> None:
    """The refusal is one line, and nothing is written."""
    spoil, message = REFUSED[case]
    directory = write_checkpoint(tmp_path / "checkpoint")
    spoil(directory)
    with pytest.raises(CheckpointError, match=message) as caught:
        fill.convert(directory, tmp_path / "model", precision="fp32", quantization="f32")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["model.onnx"], "another program's ONNX export.*pull the official checkpoint"),
        (["a.gguf"], "has no audio encoder beside it: put its mmproj"),
        (["mmproj-a.gguf"], "holds mmproj-a.gguf without its decoder"),
        (["models--Qwen--Qwen3-ASR-0.6B/x"], "the hub's cache of 1 model, .*the name Qwen/Qwen3-ASR-0.6B"),
        (["snapshots/a/x", "snapshots/b/x"], "holds 2 snapshots: give one"),
        (["note.txt"], "holds no checkpoint: neither config.json nor config.yaml"),
    ],
)
def test_other_directories_are_told_apart(tmp_path: Path, files: list[str], message: str) -> None:
    """The error tells what a directory holds instead of a checkpoint."""
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    with pytest.raises(CheckpointError, match=message):
        fill.released(tmp_path)


def test_no_directory_is_told_from_a_file(tmp_path: Path) -> None:
    """A missing path may be a repository's name, which the error says."""
    with pytest.raises(CheckpointError, match="no such directory; if it is a repository's name, `hearsay models pull`"):
        fill.released(tmp_path / "Qwen3-ASR-0.6B")
    (tmp_path / "model.safetensors").write_text("")
    with pytest.raises(CheckpointError, match="is a file, not a checkpoint: give the directory"):
        fill.released(tmp_path / "model.safetensors")


def test_a_snapshot_of_links_is_read_where_the_hub_keeps_it(tmp_path: Path) -> None:
    """A model's folder in the hub's cache stands for the snapshot of its main branch."""
    blobs, snapshot = tmp_path / "cache" / "blobs", tmp_path / "cache" / "snapshots" / "abc"
    written = write_checkpoint(tmp_path / "written")
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for path in written.iterdir():
        shutil.move(path, blobs / path.name)
        (snapshot / path.name).symlink_to(blobs / path.name)
    (tmp_path / "cache" / "refs").mkdir()
    (tmp_path / "cache" / "refs" / "main").write_text("abc")
    assert locate(tmp_path / "cache") == snapshot
    assert fill.estimate(tmp_path / "cache", precision="fp32", quantization="f32").torch


def test_three_files_are_enough(tmp_path: Path) -> None:
    """Weights, vocab.json and merges.txt suffice: beside the official vocabulary special tokens have the official
    ids."""
    tokenizer = train_tokenizer()
    tokenizer.model.save(str(tmp_path))
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    whole = vocabulary | {f"word {place}": place for place in range(len(vocabulary), OFFICIAL_WORDS)}
    (tmp_path / "vocab.json").write_text(json.dumps(whole))
    made = type(tokenizer).from_str(json.dumps(assemble(tmp_path)))
    assert {content: made.token_to_id(content) for content in OFFICIAL} == dict(OFFICIAL)
