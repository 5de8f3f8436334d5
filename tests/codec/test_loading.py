"""Loading a speaking model: what is refused, with what sentence, and that nothing is left of it."""

import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from codec.model import TtsModel
from engines.llama import GgufError
from engines.manifest import ManifestError, TtsManifest, read_tts, write
from engines.onnx import GraphError

GOLDEN = Path(__file__).parents[1] / "golden" / "speaking"
FILES = sorted(path.name for path in GOLDEN.iterdir() if path.name != "model.json")
CODE = ("codec_decoder.onnx", "predictor.gguf", "talker.gguf", "tokenizer.json")
ARRAYS = tuple(name for name in FILES if name.endswith(".npy"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A small whole model that may be damaged."""
    return shutil.copytree(GOLDEN, tmp_path / "small")


def load(directory: Path) -> None:
    """On two threads: codec and talker then have a lane each."""
    TtsModel(directory, sessions=1, threads=2).close()


Left = Callable[[Path], tuple[set[threading.Thread], list[str]]]


@pytest.fixture
def left() -> Left:
    """What a model leaves in this process: threads, and its files that are open or mapped."""

    def look(directory: Path) -> tuple[set[threading.Thread], list[str]]:
        files: list[str] = []
        if sys.platform.startswith("linux"):
            files = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
            files += [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        return set(threading.enumerate()), [file for file in files if file.startswith(str(directory.resolve()))]

    return look


def test_a_whole_model_loads_and_leaves_nothing(directory: Path, left: Left) -> None:
    before = left(directory)
    model = TtsModel(directory, sessions=1, threads=2)
    assert left(directory) != before
    model.close()
    model.close()
    assert left(directory)[0] <= before[0]
    assert not any(name.endswith(".gguf") for name in left(directory)[1])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("fault", ["missing", "cut"])
def test_a_file_that_is_missing_or_cut_is_named(directory: Path, name: str, fault: str) -> None:
    """Whatever kind of file it is, before any is read."""
    if fault == "missing":
        (directory / name).unlink()
    else:
        os.truncate(directory / name, (directory / name).stat().st_size // 2)
    with pytest.raises(ManifestError, match=f"{name} (is missing|has [0-9]+ bytes, the manifest says )"):
        load(directory)


@pytest.mark.parametrize("name", CODE + ARRAYS)
def test_a_file_that_is_garbled_is_named_and_nothing_is_left(directory: Path, name: str, left: Left) -> None:
    """Its length as it should be, its beginning not."""
    content = (directory / name).read_bytes()
    (directory / name).write_bytes(bytes(byte ^ 0x5A for byte in content[:200]) + content[200:])
    before = set(threading.enumerate())
    with pytest.raises((ManifestError, GgufError, GraphError), match=name) as error:
        load(directory)
    del error
    threads, files = left(directory)
    assert threads <= before
    assert not any(file.endswith(".gguf") for file in files)


def changed(directory: Path, **fields: object) -> None:
    """Another manifest for the same files."""
    write(msgspec.structs.replace(read_tts(directory), **fields), directory)


def test_a_model_that_cannot_be_warmed_leaves_nothing(directory: Path, left: Left) -> None:
    """The manifest's codec has a state of another shape: ONNX Runtime refuses the first call."""
    codec = read_tts(directory).codec
    states = (msgspec.structs.replace(codec.states[0], shape=(3, 3)), *codec.states[1:])
    changed(directory, codec=msgspec.structs.replace(codec, states=states))
    before = set(threading.enumerate())
    with pytest.raises(GraphError, match=r"codec_decoder\.onnx"):
        load(directory)
    threads, files = left(directory)
    assert threads <= before
    assert not any(file.endswith(".gguf") for file in files)


def dimensions(manifest: TtsManifest) -> dict[str, tuple[str, dict[str, object]]]:
    """File that does not fit → a reason in the message, and the manifest's fields that say otherwise."""
    replace = msgspec.structs.replace
    predictor, codec = manifest.predictor, manifest.codec
    wide = replace(predictor.decoder, width=predictor.decoder.width + 1)
    return {
        "code_rows.npy": ("rows, the manifest's", {"codec": replace(codec, codebooks=codec.codebooks + 1)}),
        "predictor_weight.npy": ("shape", {"predictor": replace(predictor, decoder=wide)}),
        "text_rows.npy": ("is no matrix", {"text_rows": "predictor_heads.npy"}),
        "codec_decoder.onnx": ("differ in", {"codec": replace(codec, wave="sound")}),
    }


@pytest.mark.parametrize("name", sorted(dimensions(read_tts(GOLDEN))))
def test_files_that_do_not_fit_the_manifest_are_named(directory: Path, name: str) -> None:
    reason, fields = dimensions(read_tts(directory))[name]
    changed(directory, **fields)
    named = fields.get("text_rows", name)
    with pytest.raises(ManifestError, match=f"{named}: .*{reason}"):
        load(directory)
