"""Models come, are looked at, and go: the real command, the real hub client, a hub on this machine."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from engines import integrity, manifest
from engines.releases import RELEASES
from tests.commands.conftest import Run
from tests.export.checkpoints import train_tokenizer
from tests.hub import COMMIT, Hub, running

REPOSITORY = "someone/tiny-asr"


@pytest.fixture
def folder(asr_directory: Path, tmp_path: Path) -> Path:
    """A repository: the embedded model, a README, and a file that nobody asked for."""
    folder = tmp_path / "hub" / REPOSITORY
    shutil.copytree(asr_directory, folder)
    (folder / "README.md").write_text("a card\n")
    (folder / "pytorch_model.bin").write_bytes(bytes(1000))
    return folder


@pytest.fixture
def hub(folder: Path, tmp_path: Path) -> Iterator[Hub]:
    """A hub on this machine with that repository."""
    with running(tmp_path / "hub") as server:
        yield server


@pytest.fixture
def pull(process: Run, hub: Hub, tmp_path: Path) -> Run:
    """``pull(…)`` runs ``hearsay models pull … --no-try`` against that hub in a process of its own."""

    def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache"), **variables}
        return process("models", "pull", *arguments, "--no-try", **environment)

    return run


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The user's models."""
    return tmp_path / "share" / "hearsay" / "models"


def test_pull_verify_use_and_remove(hearsay: Run, process: Run, hub: Hub, models: Path, tmp_path: Path):
    """Fetched, checked, tried, found by name, and gone again; what the manifest does not list stays on the hub."""
    place = models / "mine"
    environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
    done = process("models", "pull", REPOSITORY, "--name", "mine", **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(place)
    assert "heard: Produced the block books" in done.stderr and "wrong words: " in done.stderr
    assert (place / "README.md").is_file() and not (place / "pytorch_model.bin").exists()
    assert hub.sent["pytorch_model.bin"] == 0
    assert [path.name for path in models.iterdir()] == ["mine"]
    assert hearsay("models", "path", "mine").stdout.strip() == str(place)
    verified = hearsay("models", "verify", "mine")
    assert verified.returncode == 0 and "all as the manifest says" in verified.stdout
    listed = [json.loads(line) for line in hearsay("models", "list", "--json").stdout.splitlines()]
    mine = next(entry for entry in listed if entry["name"] == "mine")
    assert mine["origin"] == "user" and mine["bytes"] > 1_000_000 and not mine["default"]
    assert hearsay("models", "remove", "mine").returncode == 0
    assert not place.exists()
    assert hearsay("models", "path", "mine").returncode == 2


def test_a_hub_that_is_busy_is_asked_again_in_silence(pull: Run, hub: Hub):
    hub.busy = 2
    done = pull(REPOSITORY)
    assert (done.returncode, hub.busy) == (0, 0)
    assert "503" not in done.stderr and "Retrying" not in done.stderr


def test_a_connection_that_breaks_is_gone_on_with(pull: Run, hub: Hub, folder: Path):
    """Three times within one pull: nothing is asked for twice."""
    hub.breaks = [200_000, 1_000_000, 50_000]
    done = pull(REPOSITORY)
    assert done.returncode == 0 and hub.breaks == [], done.stderr
    for file in ("decoder.gguf", "encoder.weights"):
        assert hub.sent[file] <= (folder / file).stat().st_size + len((200_000, 1_000_000, 50_000)) * 2**18


def test_a_link_is_replaced_by_what_is_pulled(pull: Run, folder: Path, models: Path, tmp_path: Path):
    """Somebody linked a model of their own into the place; it stays where it is."""
    own, place = tmp_path / "own", models / "tiny-asr"
    shutil.copytree(folder, own)
    models.mkdir(parents=True)
    place.symlink_to(own)
    done = pull(REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert not place.is_symlink() and (own / "model.json").is_file()
    assert [path.name for path in models.iterdir()] == ["tiny-asr"]


def test_a_model_that_differs_from_its_manifest_is_not_kept(pull: Run, folder: Path, models: Path):
    """One byte of the decoder differs on the hub: an error naming the file, and nothing left behind."""
    decoder = next(folder.glob("*.gguf"))
    content = bytearray(decoder.read_bytes())
    content[-1] ^= 1
    decoder.write_bytes(content)
    done = pull(REPOSITORY)
    assert done.returncode == 1
    assert decoder.name in done.stderr and "SHA-256" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(models.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["someone/none"], 1, "cannot pull someone/none: the hub has no repository of that name that you may see"),
        (["Qwen/Qwen3-ASR-0.6C"], 1, "did you mean qwen3-asr-0.6b"),
        (["https://huggingface.co/someone/none/tree/main"], 1, "cannot pull someone/none: the hub has no repository"),
        ([REPOSITORY, "--name", "../out"], 2, "model name"),
        (["qwen3-asr-06b"], 2, "did you mean qwen3-asr-0.6b"),
        (["./nothing/here"], 2, "./nothing/here: there is no such directory"),
        (["someone/else/tiny-asr"], 2, "cannot pull someone/else/tiny-asr: a repository is called OWNER/NAME"),
        ([" "], 2, "pull what?"),
    ],
)
def test_what_cannot_be_pulled_is_said(pull: Run, hearsay: Run, arguments: list[str], code: int, reason: str):
    """No such repository, an illegal name, a name of nothing: one line. For a name the hub is not asked, so that needs
    no process of its own."""
    done = pull(*arguments) if code == 1 else hearsay("models", "pull", *arguments, "--no-try")
    assert done.returncode == code, done.stderr
    assert reason in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_a_repository_without_anything_to_run_is_no_model(pull: Run, folder: Path, models: Path):
    """What is read is named; of another program's ONNX files, the pull that replaces them."""
    (folder / "model.json").unlink()
    (folder / "decoder.gguf").unlink()
    for file in folder.glob("*.onnx"):
        file.rename(file.with_suffix(".bin"))
    done = pull(REPOSITORY)
    assert done.returncode == 1 and "holds nothing that hearsay reads" in done.stderr and "Traceback" not in done.stderr
    (folder / "encoder.onnx").write_bytes(b"")
    done = pull(REPOSITORY)
    assert "is an ONNX export of another program" in done.stderr and "hearsay models pull qwen3-" in done.stderr
    (folder / "x.gguf").write_bytes(b"")
    done = pull(REPOSITORY)
    assert "a GGUF without its mmproj" in done.stderr
    assert not models.exists() or list(models.iterdir()) == []


@pytest.mark.parametrize("lacks", ["config.json", "merges.txt"])
def test_a_checkpoint_that_is_not_whole_is_told_before_its_weights_come(
    pull: Run, hub: Hub, models: Path, tmp_path: Path, lacks: str
):
    theirs = tmp_path / "hub" / "someone" / "partly"
    theirs.mkdir(parents=True)
    for name in {"config.json", "vocab.json", "merges.txt"} - {lacks}:
        (theirs / name).write_text('{"model_type": "qwen3_asr"}')
    (theirs / "model.safetensors").write_bytes(bytes(200_000))
    done = pull("someone/partly")
    assert done.returncode == 1 and f"someone/partly is no whole checkpoint, {lacks} is missing" in done.stderr
    assert not hub.sent["model.safetensors"] and list(models.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "without", "said"),
    [
        ("qwen3_asr", "<asr_text>", "lacks <asr_text>: it is another model's"),
        ("qwen3_tts", "<|im_end|>", "lacks <|im_end|>: it is another model's"),
        ("qwen3_asr", "", "has id 314, beyond text_config.vocab_size 300: it is another model's"),
        ("qwen3_asr", "{", "cannot be read"),
    ],
)
def test_another_models_tokenizer_is_told_before_the_weights_come(
    pull: Run, hub: Hub, models: Path, tmp_path: Path, kind: str, without: str, said: str
):
    theirs = tmp_path / "hub" / "someone" / "mixed"
    theirs.mkdir(parents=True)
    config = {"model_type": kind, "thinker_config": {"text_config": {"vocab_size": 300}}}
    (theirs / "config.json").write_text(json.dumps(config))
    text = train_tokenizer().to_str()
    (theirs / "tokenizer.json").write_text(text.replace(without, "<other>") if without else text)
    (theirs / "model.safetensors").write_bytes(bytes(200_000))
    done = pull("someone/mixed")
    assert done.returncode == 1 and f"the tokenizer of someone/mixed {said}" in done.stderr, done.stderr
    assert not hub.sent["model.safetensors"] and list(models.iterdir()) == []


def test_weights_that_cannot_be_converted_are_named_by_their_repository(
    pull: Run, hub: Hub, models: Path, tmp_path: Path
):
    """And what came of them is told, since it stays."""
    theirs = tmp_path / "hub" / "someone" / "pointers"
    theirs.mkdir(parents=True)
    (theirs / "config.json").write_text('{"model_type": "qwen3_asr"}')
    train_tokenizer().save(str(theirs / "tokenizer.json"))
    (theirs / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    done = pull("someone/pointers")
    assert done.returncode == 1 and "hearsay: someone/pointers/model.safetensors is a pointer" in done.stderr
    assert "hearsay models remove pointers deletes it" in done.stderr and ".pull-pointers" not in done.stderr
    assert (models / ".pull-pointers").is_dir()


def test_what_is_here_already_does_not_come_again(
    pull: Run, hub: Hub, asr_directory: Path, models: Path, tmp_path: Path
):
    """Of the same commit, in the precision asked for, and whole; anything else is asked of the hub."""
    theirs, mine = tmp_path / "hub" / "someone" / "known", models / "known"
    theirs.mkdir(parents=True)
    (theirs / "config.json").write_text('{"model_type": "whisper"}')
    (theirs / "model.safetensors").write_bytes(bytes(200_000))
    shutil.copytree(asr_directory, mine)
    model = manifest.read_asr(mine)
    manifest.write(msgspec.structs.replace(model, source=f"someone/known@{COMMIT}"), mine)
    done = pull("someone/known")
    assert done.returncode == 0 and "known is here already" in done.stderr and done.stdout.strip() == str(mine)
    assert pull("someone/known", "--precision", model.decoder.quantization).returncode == 0
    assert not hub.sent
    assert "'whisper'" in pull("someone/known", "--precision", "f32").stderr
    with (mine / model.decoder.file).open("r+b") as file:
        file.write(b"damaged")
    assert "'whisper'" in pull("someone/known").stderr


def test_another_architecture_is_told_before_its_weights_come(pull: Run, hub: Hub, models: Path, tmp_path: Path):
    theirs = tmp_path / "hub" / "openai" / "whisper-tiny"
    theirs.mkdir(parents=True)
    (theirs / "config.json").write_text('{"model_type": "whisper"}')
    (theirs / "model.safetensors").write_bytes(bytes(200_000))
    done = pull("openai/whisper-tiny")
    assert done.returncode == 1 and "openai/whisper-tiny/config.json: model_type is 'whisper'" in done.stderr
    assert hub.sent["model.safetensors"] == 0 and list(models.iterdir()) == []


def test_a_repository_that_is_closed_says_how_to_open_it(pull: Run, hub: Hub):
    hub.gated = True
    done = pull(REPOSITORY)
    assert done.returncode == 1 and f"accept the licence at {hub.url}/{REPOSITORY}" in done.stderr
    assert "hf auth login" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_without_a_network_the_hubs_cache_serves(pull: Run, hub: Hub, folder: Path, models: Path, tmp_path: Path):
    """HF_HUB_OFFLINE, or nobody who answers: what the cache has is taken by links and stays there; else it is said."""
    done = pull(REPOSITORY, HF_HUB_OFFLINE="1")
    assert done.returncode == 1 and "HF_HUB_OFFLINE is set" in done.stderr
    nobody = "http://127.0.0.1:9"
    done = pull(REPOSITORY, HF_ENDPOINT=nobody)
    assert done.returncode == 1 and f"{nobody} does not answer" in done.stderr
    place = tmp_path / "cache" / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    shutil.copytree(folder, place / "snapshots" / COMMIT)
    for variables in ({"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": nobody}):
        done = pull(REPOSITORY, **variables)
        assert done.returncode == 0, done.stderr
        assert (models / "tiny-asr" / "decoder.gguf").read_bytes() == (folder / "decoder.gguf").read_bytes()
    assert (place / "snapshots" / COMMIT / "decoder.gguf").is_file()
    assert not (models / "tiny-asr" / "decoder.gguf").is_symlink(), "whoever cleans the cache keeps the model"
    assert sum(hub.sent.values()) == 0


def test_the_second_of_two_pulls_at_once_says_so(pull: Run, hub: Hub, environment: dict[str, str], tmp_path: Path):
    hub.rate = 4e5  # a minute, however long the second one takes to start
    command = [sys.executable, "-m", "commands.main", "models", "pull", REPOSITORY, "--no-try"]
    variables = {**environment, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL) as first:
        until(lambda: hub.sent["encoder.weights"] + hub.sent["decoder.gguf"] > 0)
        second = pull(REPOSITORY)
        assert second.returncode == 1 and "is being pulled already" in second.stderr
        hub.rate = None
        assert first.wait(120) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals, and limits of a process")
def test_a_pull_that_is_interrupted_goes_on_where_it_stood(
    pull: Run, hub: Hub, folder: Path, models: Path, environment: dict[str, str], tmp_path: Path
):
    """Ten times, by Ctrl-C, by SIGKILL, by a broken connection, by a disk that is full, at random moments: each time
    the old model stays whole under its name, and all of it together sends little more than the files hold."""
    import resource

    random = Random(20261127)
    shutil.copytree(folder, models / "tiny-asr")
    (models / "tiny-asr" / "README.md").write_text("the old one\n")
    variables = {**environment, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "commands.main", "models", "pull", REPOSITORY, "--no-try"]
    size = sum(path.stat().st_size for path in folder.iterdir() if path.suffix != ".bin")
    sent, seen = 0, list[str]()
    for turn in range(10):
        how = ("SIGINT", "SIGKILL", "network", "disk")[turn % 4]
        aim = random.randrange(size // 12)
        sent = sum(hub.sent.values())
        full = sent + aim
        hub.rate = 30e6

        def limited(how: str = how, full: int = full) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if how == "disk":  # no file may be longer than what the largest has now and a little more
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                most = min(full, 30_000_000)
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        with subprocess.Popen(
            command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limited
        ) as pulling:
            if how in ("SIGINT", "SIGKILL"):
                until(lambda full=full: sum(hub.sent.values()) >= full)
                pulling.send_signal(signal.Signals[how])
            elif how == "network":
                until(lambda full=full: sum(hub.sent.values()) >= full)
                hub.down = True
            _, told = pulling.communicate(timeout=120)
            hub.down = False
        seen.append(f"{how}: {pulling.returncode}: {told.strip().splitlines()[-1:]}")
        assert pulling.returncode != 0, seen
        assert "Traceback" not in told, told
        assert (models / "tiny-asr" / "README.md").read_text() == "the old one\n", seen
        assert integrity.verify(models / "tiny-asr")
        assert sorted(path.name for path in models.iterdir()) == [".pull-tiny-asr", "tiny-asr"], seen
    hub.rate = None
    done = pull(REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert (models / "tiny-asr" / "README.md").read_text() == "a card\n"
    assert integrity.verify(models / "tiny-asr")
    assert [path.name for path in models.iterdir()] == ["tiny-asr"]
    # A block in flight is lost with each break, and what the sockets held.
    assert sum(hub.sent.values()) < size + 10 * 3_000_000, (sum(hub.sent.values()), size, seen)


def until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_home_that_cannot_be_written_is_said(pull: Run, tmp_path: Path):
    """Before anything is fetched."""
    (tmp_path / "file").write_bytes(b"")
    done = pull(REPOSITORY, XDG_DATA_HOME=str(tmp_path / "file"))
    assert done.returncode == 1 and f"cannot write to {tmp_path / 'file'}" in done.stderr


def test_a_disk_without_room_is_said_before_anything_is_fetched(hub: Hub, environment: dict[str, str], tmp_path: Path):
    full = "import shutil, types; shutil.disk_usage = lambda _: types.SimpleNamespace(free=150_000_000)"
    command = [sys.executable, "-c", f"{full}; from commands.main import main; main()", "models", "pull", REPOSITORY]
    variables = {**environment, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "0.2 GB on the disk of" in done.stderr and "0.1 GB is free" in done.stderr
    assert hub.sent["decoder.gguf"] == 0


def test_a_directory_is_pulled_by_its_path(process: Run, folder: Path, models: Path):
    """An export of somebody's own becomes one of the user's models; the directory stays."""
    done = process("models", "pull", folder, "--no-try")
    assert done.returncode == 0, done.stderr
    assert integrity.verify(models / "tiny-asr") and (folder / "model.json").is_file()


def test_releases_are_listed_with_what_they_cost(hearsay: Run):
    """Every one, with its download, its memory, and whether it would be live here."""
    listed = [json.loads(line) for line in hearsay("models", "list", "--available", "--json").stdout.splitlines()]
    assert {entry["name"] for entry in listed} == {one.alias for one in RELEASES}
    for entry in listed:
        assert entry["download"] > 1e9 and 5e8 < entry["memory"] < 6e9
        assert (entry["live"] is None) == (entry["kind"] == "aligner")
    small, large = (
        next(entry for entry in listed if entry["name"] == f"qwen3-asr-{size}") for size in ("0.6b", "1.7b")
    )
    assert small["cost"] < large["cost"]


def test_the_pace_of_a_model_is_told_in_words(hearsay: Run):
    """How many times as fast as the sound lasts it would be here, and whether that is live."""
    lines = [line for line in hearsay("models", "list", "--available").stdout.splitlines() if "beside one" not in line]
    for line in lines:
        found = re.search(r"(not )?live, ([0-9.]+) times real time", line)
        assert found and (found[1] is None or float(found[2]) <= 1), line


def test_the_default_is_listed_and_verifies(hearsay: Run, asr_directory: Path):
    """The embedded model is found, marked as the default, and whole; it is never removed."""
    lines = hearsay("models", "list").stdout.splitlines()
    assert sum(line.startswith("* pocket-asr-en ") for line in lines) == 1
    assert hearsay("models", "verify", "pocket-asr-en").returncode == 0
    removed = hearsay("models", "remove", "pocket-asr-en")
    assert removed.returncode == 2 and "is not removed" in removed.stderr
    assert (asr_directory / "model.json").is_file()


def test_a_broken_model_is_told_and_the_others_listed(hearsay: Run, asr_directory: Path, tmp_path: Path):
    """A manifest that cannot be read: a line on stderr, exit 1, the rest on stdout."""
    broken = tmp_path / "search" / "broken"
    broken.mkdir(parents=True)
    (broken / "model.json").write_text("{}")
    shutil.copytree(asr_directory, tmp_path / "search" / "whole")
    done = hearsay("models", "list", HEARSAY_MODELS=str(tmp_path / "search"))
    assert done.returncode == 1
    assert "broken" in done.stderr and " whole " in done.stdout and "search/broken" not in done.stdout
