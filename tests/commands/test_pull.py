"""Checkpoints that are pulled from a directory, and what is wrong with them: one sentence, and nothing is left."""

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
from tests.commands.conftest import Run

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


ASR = {"model_type": "qwen3_asr", "thinker_config": {"audio_config": {}, "text_config": {}}}
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
    assert cloned == [trial.REFERENCE_SECONDS] and found.sound, found.lines


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
