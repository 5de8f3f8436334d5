"""The command as a whole: help, exit codes, one line an error, light to start."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from commands import console
from commands.console import culprit, is_expected, prose
from commands.main import app
from engines.manifest import ManifestError
from engines.store import ModelNotFound
from tests.commands.conftest import Run

NO_TEXT = os.fsdecode(b"caf\xe9")
"""An argument as Python gets it where its bytes are not UTF-8."""


def verbs() -> dict[str, str]:
    """Every verb's own name and epilog, groups' verbs as ``group verb``."""
    found: dict[str, str] = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            found |= {f"{name} {inner}": verb.epilog or "" for inner, verb in command.commands.items()}
        else:
            found[name] = command.epilog or ""
    return found


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_every_help_shows_an_example_of_itself(verb: str):
    """--help exits 0 and ends with an example that calls this very verb."""
    done = CliRunner().invoke(app, [*verb.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert f"hearsay {verb}" in verbs()[verb]
    assert "Example: " in done.stdout and f"hearsay {verb}" in " ".join(done.stdout.split())


@pytest.mark.parametrize("group", [[], ["bench"], ["models"], ["voices"], ["export"]], ids=str)
def test_lists_of_verbs_say_each_in_a_whole_sentence(group: list[str]):
    """Nothing is cut off where the terminal has 80 columns."""
    shown = CliRunner().invoke(app, [*group, "--help"], env={"COLUMNS": "80"}).stdout
    assert "..." not in shown.split("Commands:")[1]


def test_captions_of_a_file_are_another_verb(hearsay: Run):
    """Before anything is opened or loaded."""
    done = hearsay("captions", "talk.flac")
    assert done.returncode == 2 and done.stderr.startswith("hearsay: talk.flac: captions are of the microphone")
    assert "hearsay transcribe FILE" in done.stderr and len(done.stderr.splitlines()) == 1
    assert "FILE" not in hearsay("captions", "--help").stdout


def test_help_keeps_what_stands_in_brackets():
    """A default in words is no markup."""
    for verb, told in {
        "captions": "[default: at Ctrl-C]",
        "models pull": "[default: the release's name]",
        "cluster": "[default: as --replicas]",
    }.items():
        assert told in " ".join(CliRunner().invoke(app, [*verb.split(), "--help"]).stdout.split())


def test_starting_is_light():
    """No verb's heavy imports happen before it is called; BLAS is held to one thread before numpy can come."""
    code = (
        "import sys, os\n"
        "import commands.main\n"
        "heavy = {'numpy', 'onnxruntime', 'llama_cpp', 'soundfile', 'soxr', 'starlette', 'h11', 'websockets',"
        " 'huggingface_hub', 'tokenizers', 'sounddevice', 'torch', 'av'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()\n"
        "assert os.environ['OMP_NUM_THREADS'] == os.environ['OPENBLAS_NUM_THREADS'] == '1'\n"
    )
    environment = {"PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=300)


def test_a_cluster_without_ray_cannot_be_asked_for(hearsay: Run, monkeypatch: pytest.MonkeyPatch):
    """Exit code 2, as for whatever is not here, and how to get it."""
    monkeypatch.setitem(sys.modules, "ray", None)  # what Python itself does for a module that cannot be had
    done = hearsay("cluster", "--tts-model", "none")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "pip install 'ray[serve]" in done.stderr


def test_version(process: Run):
    """--version prints name and version."""
    done = process("--version")
    assert done.returncode == 0 and done.stdout.startswith("hearsay ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["sing"],
        ["transcribe"],
        ["transcribe", "--no-such-flag", "x.wav"],
        ["transcribe", "x.wav", "--model", "no-such-model"],
        ["transcribe", "x.wav", "--device", "abacus"],
        ["transcribe", "x.wav", "--url", "http://127.0.0.1:9", "--exact-floor"],
        ["serve", "--port", "99999"],
        ["serve", "--host", "0.0.0.0"],
        ["models", "path", "no-such-model"],
        ["bench", "eval"],
        ["bench", "eval", "."],
    ],
)
def test_wrong_calls_exit_2_and_say_why_on_stderr(hearsay: Run, arguments: list[str]):
    """Nothing on stdout, no traceback."""
    done = hearsay(*arguments)
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr.strip()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("url", [[], ["--url", "http://127.0.0.1:9"]], ids=["here", "there"])
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["say", NO_TEXT, "-o", "x.wav"], "TEXT"),
        (["say", "Hello.", "--voice", NO_TEXT, "-o", "x.wav"], "--voice"),
        (["transcribe", "x.wav", "--keyterm", "Ayla", "--keyterm", NO_TEXT], "--keyterm"),
        (["voices", "--tts-model", NO_TEXT], "--tts-model"),
        (["voices", "add", NO_TEXT, "x.wav"], "NAME"),
        (["voices", "remove", NO_TEXT], "NAME"),
    ],
)
def test_a_text_that_is_not_utf_8_is_refused_by_its_name(
    hearsay: Run, arguments: list[str], named: str, url: list[str]
):
    """Before anything is loaded or asked."""
    done = hearsay(*arguments, *url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"Error: Invalid value for '{named}': it is not UTF-8"


def test_expected_errors_carry_their_exit_code():
    """Errors made for people are told apart from defects, inside task groups too."""
    assert is_expected(ModelNotFound("x")) == 2
    assert is_expected(ManifestError("x")) == 1
    assert is_expected(KeyError("x")) is None
    group = ExceptionGroup("tasks", [ExceptionGroup("inner", [ManifestError("deep")])])
    assert str(culprit(group)) == "deep"


def test_what_the_system_refuses_is_one_line(hearsay: Run):
    """A name too long for any file system, as an example: the system's reason and the name, exit code 1."""
    done = hearsay("models", "path", "x" * 300)
    assert done.returncode == 1
    assert done.stderr.startswith("hearsay: xxx") and done.stderr.endswith("xxx/model.json: File name too long\n")


def test_files_without_rights_are_said_as_such(environment: dict[str, str], tmp_path: Path):
    """One that cannot be read leaves the others to be heard; one that cannot be written is told before anything."""
    shut, missing = tmp_path / "shut.wav", tmp_path / "none.wav"
    shut.touch(mode=0)
    plain = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    if plain and shutil.which("setpriv") is None:
        pytest.skip("root reads everything, and there is no setpriv")
    told = {
        ("transcribe", shut, missing): [f"{shut}: Permission denied", f"{missing}: there is no such file"],
        ("say", "Hello.", "-o", shut): [f"{shut} cannot be written: there is no right to"],
    }
    for arguments, lines in told.items():
        command = [*plain, sys.executable, "-m", "commands.main", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
        assert (done.returncode, done.stderr.splitlines()) == (1, [f"hearsay: {line}" for line in lines])


def test_a_debug_variable_brings_the_traceback(process: Run):
    """HEARSAY_DEBUG shows where an expected error came from."""
    done = process("models", "path", "no-such-model", HEARSAY_DEBUG="1")
    assert "Traceback" in done.stderr and "ModelNotFound" in done.stderr


def test_a_reader_that_leaves_is_no_error_of_ours(environment: dict[str, str]):
    """`hearsay … | head -0` neither hangs nor shows a traceback."""
    line = f"{sys.executable} -m commands.main serve --help | true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, timeout=300)
    assert "Traceback" not in done.stderr


def test_prose_joins_lines_and_keeps_paragraphs():
    """Help texts wrap at the terminal's width, not at the source's."""
    assert prose("\none\ntwo\n\nthree\n") == "one two\n\nthree"


def test_every_expected_error_is_one_that_there_is() -> None:
    """They are named, not imported: a class that moves would end in a traceback."""
    for name in console._EXPECTED:  # pyright: ignore[reportPrivateUsage]
        module, _, kind = name.rpartition(".")
        found = getattr(importlib.import_module(module), kind)
        assert issubclass(found, Exception) and f"{found.__module__}.{found.__qualname__}" == name
