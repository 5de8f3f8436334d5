"""Models that are damaged or hostile: one line on stderr that names the file, exit code 1, no traceback."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from engines.manifest import AsrManifest, Manifest, TtsManifest, read, write
from tests.clips import DATA
from tests.commands.conftest import Run

GOLDEN = Path(__file__).parents[1] / "golden"
RECORDING = DATA / "recordings" / "lj.opus"
Change = Callable[[Path], None]


def cut(name: str) -> Change:
    """Half of a file is missing."""
    return lambda directory: os.truncate(directory / name, (directory / name).stat().st_size // 2)


def garble(name: str) -> Change:
    """Its first bytes are others."""

    def change(directory: Path) -> None:
        content = (directory / name).read_bytes()
        (directory / name).write_bytes(bytes(byte ^ 0x5A for byte in content[:200]) + content[200:])

    return change


def lead_out(name: str) -> Change:
    """The manifest names a file outside, and lists it."""

    def change(directory: Path) -> None:
        manifest: Manifest = read(directory)
        files = {**manifest.files, name: next(iter(manifest.files.values()))}
        if isinstance(manifest, AsrManifest):
            mel = msgspec.structs.replace(manifest.mel, filters=name)
            write(msgspec.structs.replace(manifest, files=files, mel=mel), directory)
        else:
            assert isinstance(manifest, TtsManifest)
            write(msgspec.structs.replace(manifest, files=files, text_rows=name), directory)

    return change


HEARING = {
    "outside": (lead_out("../../../etc/passwd"), "'../../../etc/passwd' leaves the model directory"),
    **{name: (garble(name), name) for name in ("stem.onnx", "decoder.gguf", "mel.npy", "tokenizer.json")},
    "cut": (cut("encoder.weights"), "encoder.weights has"),
}
SPEAKING = {
    "outside": (lead_out("../../../etc/passwd"), "'../../../etc/passwd' leaves the model directory"),
    **{name: (garble(name), name) for name in ("codec_decoder.onnx", "talker.gguf", "text_rows.npy", "tokenizer.json")},
    "cut": (cut("codec.weights"), "codec.weights has"),
}


def model(tmp_path: Path, golden: str, change: Change) -> Path:
    """A small model, changed."""
    directory = shutil.copytree(GOLDEN / golden, tmp_path / "model")
    change(directory)
    return directory


def one_line(stderr: str, said: str) -> bool:
    """Whether that is all that was said."""
    return len(stderr.strip().splitlines()) == 1 and stderr.startswith("hearsay: ") and said in stderr


@pytest.mark.parametrize("fault", HEARING)
def test_transcribe_refuses_it(hearsay: Run, tmp_path: Path, fault: str) -> None:
    change, said = HEARING[fault]
    done = hearsay("transcribe", RECORDING, "--model", model(tmp_path, "asr/int8", change))
    assert (done.returncode, done.stdout) == (1, "") and one_line(done.stderr, said), done.stderr


@pytest.mark.parametrize("fault", SPEAKING)
def test_say_refuses_it(hearsay: Run, tmp_path: Path, fault: str) -> None:
    change, said = SPEAKING[fault]
    directory = model(tmp_path, "speaking", change)
    done = hearsay("say", "--tts-model", directory, "--output", tmp_path / "out.wav", "Hello.")
    assert (done.returncode, done.stdout) == (1, "") and one_line(done.stderr, said), done.stderr


@pytest.mark.parametrize("fault", ["outside", "mel.npy", "cut"])
def test_serve_refuses_it(process: Run, tmp_path: Path, fault: str) -> None:
    """It says why it ends."""
    change, said = HEARING[fault]
    directory = model(tmp_path, "asr/int8", change)
    done = process("serve", "--port", "0", "--asr-model", directory, "--tts-model", "none")
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
