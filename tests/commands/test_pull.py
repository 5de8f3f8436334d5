"""Checkpoints that are pulled from a directory, and what is wrong with them: one sentence, and nothing is left."""

import contextlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from codec.model import TtsModel
from commands import trial
from commands.pull import pair
from commands.trial import attempt
from engines.hub import fetch, look
from engines.store import StoreError
from export.stored import CheckpointError
from export.tokenizer import check_alone
from tests.commands.conftest import Run
from tests.export.checkpoints import write_checkpoint
from tests.hub import COMMIT, running
from tests.hub import Handler as HubHandler

HEADER = {"thinker.model.norm.weight": {"dtype": "BF16", "shape": [1024], "data_offsets": [0, 2048]}}


def checkpoint(folder: Path, config: object, weights: bytes) -> Path:
    """A directory with a configuration and one file of weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def safetensors(header: object, data: bytes) -> bytes:
    """A file of that form."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


ASR: dict[str, Any] = {"model_type": "qwen3_asr", "thinker_config": {"audio_config": {}, "text_config": {}}}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1880000000\n"


def test_of_many_ggufs_one_pair_is_taken() -> None:
    """The quantisation asked for, else q8_0, with an encoder; without one there is no pair."""
    decoders = ["Qwen3-ASR-0.6B-Q4_K_M.gguf", "Qwen3-ASR-0.6B-Q8_0.gguf", "Qwen3-ASR-0.6B-f16.gguf"]
    encoders = ["mmproj-Qwen3-ASR-0.6B-Q8_0.gguf", "mmproj-Qwen3-ASR-0.6B-f16.gguf"]
    assert pair([*decoders, *encoders], "auto") == {decoders[1], encoders[0]}
    assert pair([*decoders, *encoders], "q4_k_m") == {decoders[0], encoders[0]}
    assert pair([*decoders, *encoders], "f16") == {decoders[2], encoders[1]}
    assert pair(decoders, "auto") is None and pair(encoders, "auto") is None


@pytest.mark.parametrize(
    ("config", "weights", "reason"),
    [
        (ASR, POINTER, "LFS"),
        (ASR, safetensors(HEADER, bytes(100)), "cut off"),
        (ASR, b"", "safetensors"),
        ({"model_type": "whisper"}, safetensors(HEADER, bytes(2048)), "whisper"),
    ],
)
def test_what_is_no_checkpoint_is_said(
    hearsay: Run, tmp_path: Path, config: object, weights: bytes, reason: str
) -> None:
    folder = checkpoint(tmp_path / "theirs", config, weights)
    done = hearsay("models", "pull", folder)
    assert done.returncode == 1, done.stderr
    assert reason in done.stderr and "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("hearsay: ")]) == 1
    models = tmp_path / "share" / "hearsay" / "models"
    assert not any(models.iterdir())


DEEP = b'{"a":' * 100_000
NORM = HEADER["thinker.model.norm.weight"]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ([1], "no JSON object"),
        ({"a": 5}, "tensor a has no dtype, shape and data_offsets"),
        ({"a": {**NORM, "dtype": []}}, "tensor a has no dtype"),
        ({"a": {**NORM, "shape": [-1024]}}, "tensor a has no dtype"),
        ({"a": {**NORM, "data_offsets": [-2048, 0]}}, "tensor a has no dtype"),
        ({"a": {**NORM, "data_offsets": ["0", "2048"]}}, "tensor a has no dtype"),
        ({"a": {**NORM, "shape": [10**9]}}, "does not fit its 2048 bytes"),
        ({"a": {**NORM, "data_offsets": [2048, 0]}}, "does not fit its -2048 bytes"),
        ({"a": NORM, "b": {**NORM, "data_offsets": [1024, 3072]}}, "tensor b overlaps another"),
    ],
)
def test_a_header_that_lies_is_said(hearsay: Run, tmp_path: Path, header: object, reason: str) -> None:
    """Where tensors are said to lie is checked before anything is read from there."""
    done = hearsay("models", "pull", checkpoint(tmp_path / "theirs", ASR, safetensors(header, bytes(4096))))
    assert done.returncode == 1 and reason in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_header_of_gigabytes_is_not_read(hearsay: Run, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "theirs", ASR, struct.pack("<Q", 3 << 30))
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(4 << 30)
    done = hearsay("models", "pull", folder)
    assert done.returncode == 1 and "longer than the 100000000 that the format allows" in done.stderr, done.stderr


def test_json_that_is_nested_without_end_is_said(hearsay: Run, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "theirs", ASR, struct.pack("<Q", len(DEEP)) + DEEP)
    done = hearsay("models", "pull", folder)
    assert done.returncode == 1 and "nested too deeply" in done.stderr, done.stderr
    (folder / "config.json").write_bytes(DEEP)
    done = hearsay("models", "pull", folder)
    assert done.returncode == 1 and "config.json is no JSON" in done.stderr, done.stderr


@pytest.mark.parametrize("named", [{}, [], 5, {"a": 5}, {"a": "/dev/zero"}, {"a": "../x.safetensors"}, {"a": "\0"}])
def test_an_index_names_files_beside_it(hearsay: Run, tmp_path: Path, named: object) -> None:
    folder = checkpoint(tmp_path / "theirs", ASR, safetensors(HEADER, bytes(2048)))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": named}))
    done = hearsay("models", "pull", folder)
    assert done.returncode == 1 and "index.json names" in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("section", "key", "value", "reason"),
    [
        ("audio_config", "encoder_layers", 10**9, "is missing"),
        ("text_config", "num_hidden_layers", 10**9, "is missing"),
        ("text_config", "rope_theta", "x", "a value in it is not what it should be"),
        ("text_config", "head_dim", {"a": 1}, ""),
        (None, "support_languages", 5, "a value in it is not what it should be"),
        (None, "support_languages", ["Klingon"], "unknown Klingon"),
        (None, "hearsay", {"mel_floor": "x"}, "a value in it is not what it should be"),
    ],
)
def test_an_absurd_configuration_is_said_before_anything_is_converted(
    hearsay: Run, tmp_path: Path, section: str | None, key: str, value: object, reason: str
) -> None:
    """A thousand million layers are not counted either."""
    folder = write_checkpoint(tmp_path / "theirs")
    config = json.loads((folder / "config.json").read_text())
    (config if section is None else config["thinker_config"][section])[key] = value
    (folder / "config.json").write_text(json.dumps(config))
    done = hearsay("models", "pull", folder)
    assert done.returncode == 1 and reason in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert "converting" not in done.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("merges.txt", b"\xff\xfe"),
        ("vocab.json", b'{"a": "x"}'),
        ("vocab.json", b'{"a": 1000000000000}'),
        ("added_tokens.json", b'{"a": 1000000000000}'),
        ("added_tokens.json", b'{"a": -5}'),
        ("tokenizer_config.json", b'{"added_tokens_decoder": {"1000000000000": {"content": "a"}}}'),
        ("tokenizer_config.json", b'{"added_tokens_decoder": 5}'),
    ],
)
def test_a_tokenizer_of_absurd_ids_is_said(tmp_path: Path, name: str, content: bytes) -> None:
    """No list is made that is as long as the greatest id."""
    folder = write_checkpoint(tmp_path / "theirs")
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("\n".join(" ".join(merge) for merge in model["merges"]))
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match="theirs"):
        check_alone(folder, "qwen3_asr")


def key(kind: int, rest: bytes) -> bytes:
    """A GGUF of one key, ``a``, of that type."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a" + struct.pack("<I", kind) + rest


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0) + bytes(1 << 20), "1152921504606846976 tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60) + bytes(1 << 20), "1152921504606846976 keys"),
        (key(9, struct.pack("<IQ", 4, 2**60)), "leads beyond its end"),
        (key(8, struct.pack("<Q", 2**62)), "leads beyond its end"),
        (key(9, struct.pack("<IQ", 8, 2**60) + bytes(1000)), "m.gguf is damaged"),
        (key(9, struct.pack("<IQ", 9, 1) * 20_000), "a value of type 9"),
        (key(99, b""), "a value of type 99"),
    ],
)
def test_a_gguf_of_endless_counts_is_said(hearsay: Run, tmp_path: Path, content: bytes, reason: str) -> None:
    """No time and no memory is spent on them."""
    (tmp_path / "m.gguf").write_bytes(content)
    (tmp_path / "mmproj-m.gguf").write_bytes(content)
    done = hearsay("models", "pull", tmp_path / "m.gguf")
    assert done.returncode == 1 and reason in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["model-../../x.safetensors", "../x", "/etc/x", "a\nb", "a" * 300])
def test_a_name_that_leaves_its_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def answer(self: HubHandler, repository: str, *, tree: bool) -> None:
        respond = self._json  # pyright: ignore[reportPrivateUsage]
        listed = [{"type": "file", "path": name, "size": 5, "oid": ""}]
        respond(listed if tree else {"id": repository, "sha": COMMIT})

    monkeypatch.setattr(HubHandler, "_list", answer)
    with running(tmp_path) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        with pytest.raises(StoreError, match="no name of a file"):
            look("their/model")


def test_a_directory_of_nothing_is_no_checkpoint(hearsay: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = hearsay("models", "pull", tmp_path / "empty")
    assert done.returncode == 1 and "is no checkpoint: it holds neither safetensors nor" in done.stderr


def test_a_checkpoint_is_not_served_and_the_pull_is_named(hearsay: Run, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "theirs", ASR, POINTER)
    for verb in ("transcribe", "say"):
        option = "--model" if verb == "transcribe" else "--tts-model"
        more = ["-o", tmp_path / "x.wav"] if verb == "say" else []
        done = hearsay(verb, "nothing", option, folder, *more)
        assert done.returncode == 2 and f"hearsay models pull {folder} converts it" in done.stderr


@pytest.mark.parametrize(
    "listed",
    [
        None,
        5,
        {"id": 5},
        [],
        [{"type": "file"}],
        [5],
        [{"type": "file", "path": "config.json", "size": "x", "oid": ""}],
    ],
)
def test_what_answers_like_no_hub_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: object) -> None:
    """As a page that asks for a login does."""

    def answer(self: HubHandler, repository: str, *, tree: bool) -> None:
        respond = self._json  # pyright: ignore[reportPrivateUsage]
        respond({"id": repository, "sha": COMMIT} if tree is False and isinstance(listed, list) else listed)

    monkeypatch.setattr(HubHandler, "_list", answer)
    with running(tmp_path) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        if listed == []:
            assert look("their/model").entries == ()
            return
        with pytest.raises(StoreError, match="is no Hugging Face hub"):
            look("their/model")


def address(name: str, path: str, *, revision: str, endpoint: str) -> str:
    """That of a file, which the library makes of the endpoint that was set when it was imported."""
    return f"{endpoint}/{name}/resolve/{revision}/{path}"


def test_a_hub_that_sends_without_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the bytes are here that it listed."""

    def answer(self: HubHandler, repository: str, name: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            for _ in range(20_000):
                self.wfile.write(b"x" * (1 << 16))
            taken.append(name)

    taken: list[str] = []
    monkeypatch.setattr(HubHandler, "_file", answer)
    (tmp_path / "their" / "model").mkdir(parents=True)
    (tmp_path / "their" / "model" / "config.json").write_text("{}")
    with running(tmp_path) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.hf_hub_url", address)
        found = look("their/model")
        fetch(found, found.entries, tmp_path / "place", lambda path, more: None)
    assert (tmp_path / "place" / "config.json").read_bytes() == b"xx"
    assert not taken


@pytest.mark.parametrize("place", ["", "file:///etc/passwd"])
def test_a_hub_that_leads_nowhere_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def answer(self: HubHandler, repository: str, name: str) -> None:
        self.send_response(302)
        self.send_header("Location", place or self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    monkeypatch.setattr(HubHandler, "_file", answer)
    (tmp_path / "their" / "model").mkdir(parents=True)
    (tmp_path / "their" / "model" / "config.json").write_text("{}")
    with running(tmp_path) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.hf_hub_url", address)
        found = look("their/model")
        with pytest.raises(StoreError, match="leads nowhere for config.json"):
            fetch(found, found.entries, tmp_path / "place", lambda path, more: None)


def test_a_repository_of_endless_files_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.hub.MOST_FILES", 2)
    (tmp_path / "their" / "model").mkdir(parents=True)
    for name in "abc":
        (tmp_path / "their" / "model" / name).write_text(name)
    with running(tmp_path) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        with pytest.raises(StoreError, match="more than 2 files"):
            look("their/model")


def test_no_model_is_loaded_for_files_that_are_not_there(
    hearsay: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("streaming.model.AsrModel.__init__", loaded)
    done = hearsay("transcribe", tmp_path / "a.wav", tmp_path / "b.wav")
    assert done.returncode == 1 and done.stderr.count("there is no such file") == 2, done.stderr


def test_a_large_model_says_that_it_is_loaded(
    hearsay: Run, asr_directory: Path, tts_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commands.console.LARGE", 0)
    done = hearsay("say", "Yes.", "--tts-model", tts_directory, "-o", tmp_path / "yes.wav")
    assert done.returncode == 0 and f"loading {tts_directory.name}, 0.0 GB" in done.stderr, done.stderr
    done = hearsay("transcribe", "--model", asr_directory, tmp_path / "yes.wav")
    assert done.returncode == 0 and f"loading {asr_directory.name}, 0.0 GB" in done.stderr, done.stderr


def test_a_release_is_removed_by_each_of_its_names(hearsay: Run, tmp_path: Path) -> None:
    """As it is pulled."""
    begun = tmp_path / "share" / "hearsay" / "models" / ".pull-qwen3-tts-0.6b-customvoice"
    begun.mkdir(parents=True)
    done = hearsay("models", "remove", "qwen3-tts-0.6b")
    assert done.returncode == 0 and not begun.exists(), done.stderr


def test_a_model_of_a_directory_is_tried(hearsay: Run, asr_directory: Path, tmp_path: Path) -> None:
    """Words, wrong ones, speed; a model that hears nonsense is an error that names what to send."""
    done = hearsay("models", "try", asr_directory)
    assert done.returncode == 0, done.stderr
    assert "heard: Produced the block books" in done.stderr and "a live session takes" in done.stderr
    assert not (asr_directory / "measured.json").exists()
    broken = tmp_path / "share" / "hearsay" / "models" / "broken"
    shutil.copytree(asr_directory, broken)
    weights = bytearray((broken / "decoder.gguf").read_bytes())
    weights[len(weights) // 2 :] = weights[: len(weights) - len(weights) // 2]
    (broken / "decoder.gguf").write_bytes(weights)
    done = hearsay("models", "try", "broken")
    assert done.returncode == 1
    assert "does not do what it should" in done.stderr and "hearsay doctor --json" in done.stderr
    assert json.loads((broken / "measured.json").read_text())["failed"]


def test_a_voice_is_tried_and_heard(hearsay: Run, tts_directory: Path) -> None:
    done = hearsay("models", "try", tts_directory)
    assert done.returncode == 0, done.stderr
    assert "said: Good evening." in done.stderr and "heard by pocket-asr-en: Good evening" in done.stderr


def test_a_model_without_a_voice_is_tried_in_that_of_the_recording(
    tts_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cloned, and said with."""
    model = tmp_path / "clones"
    shutil.copytree(tts_directory, model)
    manifest = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps(manifest | {"voices": {}, "variant": "base"}))
    cloned: list[float] = []
    clone = TtsModel.clone

    def seen(self: TtsModel, name: str, samples: Any, rate: int) -> Any:
        cloned.append(len(samples) / rate)
        return clone(self, name, samples, rate)

    monkeypatch.setattr(TtsModel, "clone", seen)
    found = attempt(model)
    assert set(cloned) == {trial.REFERENCE_SECONDS} and found.sound, found.lines


def test_a_voice_that_finds_no_end_or_takes_too_long_is_cut_off(
    tts_directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first is judged by the whole sentence, the second by its beginning; of a word or two nothing is told."""
    monkeypatch.setattr(trial, "MOST_SPOKEN", 1.0)
    found = attempt(tts_directory)
    assert "cut off after 1 s of speech" in found.lines[1] and not found.sound, found.lines
    monkeypatch.setattr(trial, "MOST_SPOKEN", 10.0)
    monkeypatch.setattr(trial, "PATIENCE", 0.0)
    monkeypatch.setattr(trial, "TELL_SECONDS", -1.0)
    found = attempt(tts_directory)
    assert "cut off after 0 s, this machine being slow for it" in found.lines[1]
    assert found.sound and "made no sound" in found.lines[2], found.lines
    monkeypatch.setattr(trial, "PATIENCE", 60.0)
    assert attempt(tts_directory).sound
    assert "s of speech so far, in 0 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("heard", "begun"),
    [
        ("good evening the people", "Good evening. The people"),
        ("good evening the people of cross the river", "Good evening. The people across the river"),
        ("good evening", ""),
    ],
)
def test_what_was_cut_off_is_judged_by_the_beginning(heard: str, begun: str) -> None:
    assert trial.begun(trial.SENTENCE, heard) == begun


def test_a_voice_that_draws_badly_is_tried_once_more(tts_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more than that."""
    for sound_at, seeds in ((1, [1]), (2, [1, 2]), (3, [1, 2])):
        tried = list[int]()

        def speak(path: Path, threads: int | None, *, seed: int, sound_at: int = sound_at) -> trial.Trial:
            tried.append(seed)
            return trial.Trial(("said", "heard"), seed == sound_at)

        monkeypatch.setattr(trial, "_speak", speak)
        assert attempt(tts_directory).sound == (sound_at < 3)
        assert tried == seeds
