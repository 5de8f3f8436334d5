"""hearsay demo, doctor and export, as a person sees them."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from audio.ffmpeg import bounded_allocations
from bench.wer import normalize, rate
from commands import doctor
from commands.echo import WORDS_PER_SECOND
from commands.samples import sample
from tests.clips import DATA
from tests.commands.conftest import Run

TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What one run prints: the half that hears, the half that says it again."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEARSAY_")}
    environment = {**kept, "XDG_DATA_HOME": str(tmp_path_factory.mktemp("share")), "TERM": "dumb", "COLUMNS": "100"}
    command = [sys.executable, "-m", "commands.main", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    first, again, second = done.stdout.partition("\nNow ")
    return first, again + second


def captions(half: str) -> tuple[list[str], list[str]]:
    """Interim and final lines without a terminal."""
    lines = half.splitlines()
    interims = [line for line in lines if re.match(r" *[\d.]+ ~ ", line)]
    return interims, [line.partition(" = ")[2] for line in lines if re.match(r" *[\d.]+ = ", line)]


def facts(half: str) -> dict[str, str]:
    """What stands below the captions."""
    found = (re.match(r"([a-z ]+): +(.*)", line) for line in half.splitlines())
    return {match[1]: match[2] for match in found if match}


def test_the_demo_shows_captions_and_what_was_spoken(demo: tuple[str, str]):
    """Without a terminal or a sound library: plain lines, then spoken beside heard, errors counted, and the lags."""
    interims, finals = captions(demo[0])
    found = facts(demo[0])
    assert len(interims) > 5 and len(finals) > 1 and sum(" | " in line for line in interims) > 3
    assert found["heard"] == " ".join(finals) and found["spoken"] == sample("demo").text
    counted = re.match(r"(\d+) of (\d+) words \(([\d.]+) %\)", found["errors"])
    assert counted is not None
    wrong, words, share = counted.groups()
    expected = rate([(found["spoken"], found["heard"])])
    assert int(words) == len(normalize(found["spoken"])) and float(share) == pytest.approx(100 * expected, abs=0.06)
    assert int(wrong) == round(expected * int(words)) and expected < 0.3
    for name in ("captions", "finals"):
        median, most = map(int, re.findall(r"(\d+) ms", found[name]))
        assert 0 < median <= most


def test_the_demo_says_again_what_it_heard(demo: tuple[str, str]):
    """Every final is a sentence of what is said; it is spoken while it is written, heard again and compared."""
    first, again = facts(demo[0]), facts(demo[1])
    assert normalize(again["said"]) == normalize(first["heard"])
    assert again["said"].count(".") >= len(captions(demo[0])[1])
    assert again["heard"] == " ".join(captions(demo[1])[1])
    assert f"({100 * rate([(again['said'], again['heard'])]):.1f} %)" in again["errors"]
    assert rate([(again["said"], again["heard"])]) < 0.5
    # How soon and how evenly is the machine's affair; that it begins before the last word is written is ours.
    assert 0 < int(again["first sound"].split()[0]) < 1000 * len(again["said"].split()) / WORDS_PER_SECOND
    assert re.match(r"[\d.]+ s with", again["played"]) and float(again["played"].split()[0]) > 5


def test_the_demo_goes_through_a_given_daemon(hearsay: Run, url: str):
    """--url: that daemon is used; another recording has no reference; it says nothing again if it does not speak."""
    clip = min((DATA / "clips").iterdir(), key=lambda path: path.stat().st_size)
    done = hearsay("demo", "--url", url, "--file", clip)
    assert done.returncode == 0, done.stderr
    assert url in done.stdout and not {"spoken", "errors"} & facts(done.stdout).keys()
    assert "no speaking model is installed" in done.stdout.splitlines()[-1]


def test_the_bundled_recording_is_complete():
    """There, with its words, its source and a licence that allows it."""
    found = sample("demo")
    assert found.path.is_file() and len(normalize(found.text)) > 10
    assert re.search("CC0|CC-BY|public domain", found.credit, re.IGNORECASE)


def test_doctor_says_what_is_here_and_what_to_do(hearsay: Run):
    """Every finding has a state; each thing missing has a remedy; the default model and the thread budget are named."""
    done = hearsay("doctor", "--json")
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout
    assert {"hearsay", "packages", "providers", "kernels", "threads", "model", "sound", "extra"} <= {
        f["topic"] for f in findings
    }
    assert all(finding["remedy"] for finding in findings if finding["state"] != "ok")
    lacking = [f["remedy"] for f in findings if f["topic"] == "extra" and f["state"] != "ok"]
    assert all(re.fullmatch(r"pip install [a-z ]+", remedy) for remedy in lacking)
    assert any("pocket-asr-en" in f["found"] and "default" in f["found"] for f in findings if f["topic"] == "model")
    speed, voice = [f["found"] for f in findings if f["topic"] == "speed"]
    assert voice.startswith("pocket-tts-en ")
    assert re.match(r"[1-9]\d*( or more)? live sessions of pocket-asr-en|pocket-asr-en is not live here: .* s,", speed)
    plain = hearsay("doctor").stdout
    assert "onnxruntime 1" in plain and "CPU" in plain


def test_doctor_tells_what_takes_a_while(hearsay: Run, monkeypatch: pytest.MonkeyPatch):
    """On stderr, since what is found is not there yet."""
    monkeypatch.setattr("commands.progress.LATE_SECONDS", 0.02)
    assert "hearsay: speed: being looked at, which takes a while\n" in hearsay("doctor").stderr


def test_a_library_that_cannot_be_bounded_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once in the log, and by doctor with what to do."""
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    bounded_allocations.cache_clear()
    try:
        found = doctor._bounds()  # type: ignore[reportPrivateUsage]
        assert doctor._bounds() == found  # type: ignore[reportPrivateUsage]
    finally:
        bounded_allocations.cache_clear()
    assert "hides av_max_alloc" in found.found and found.remedy.startswith("pip install")
    assert [record.levelname for record in caplog.records if "av_max_alloc" in record.getMessage()] == ["WARNING"]


def test_doctor_names_packages_that_are_missing_or_of_another_version(hearsay: Run, monkeypatch: pytest.MonkeyPatch):
    """Whatever the project needs, and although what needs them cannot be imported."""

    def installed(name: str) -> str:
        if name == "gguf":
            raise metadata.PackageNotFoundError(name)
        return "0.9" if name == "wyoming" else metadata.version(name)

    def without() -> list[doctor.Finding]:
        raise ModuleNotFoundError("No module named 'gguf'")

    monkeypatch.setattr("commands.doctor.installed", installed)
    monkeypatch.setattr("commands.doctor._speed", without)
    done = hearsay("doctor", "--json")
    assert done.returncode == 1, done.stderr
    missing = [finding for line in done.stdout.splitlines() if (finding := json.loads(line))["state"] == "missing"]
    assert [finding["found"].partition(":")[0] for finding in missing] == [
        "not installed",
        "of another version",
        "not looked at",
    ]
    assert missing[0]["remedy"] == "pip install 'gguf>=0.17'" and missing[1]["remedy"] == "pip install 'wyoming>=1.10'"


def test_doctor_finds_a_damaged_model(hearsay: Run, tmp_path: Path):
    """A model that fails its checksums is named, with a remedy, and the exit code is 1."""
    broken = tmp_path / "models" / "broken"
    broken.mkdir(parents=True)
    (broken / "model.json").write_text("{}")
    done = hearsay("doctor", HEARSAY_MODELS=str(tmp_path / "models"))
    assert done.returncode == 1
    assert re.search(r"! model +.*broken", done.stdout)


@pytest.mark.skipif(TORCH, reason="torch is installed here")
def test_export_without_torch_is_one_sentence(hearsay: Run, tmp_path: Path):
    """Whatever is asked: what is missing and how to get it, or what is wrong with the checkpoint."""
    done = hearsay("export", "run", tmp_path, tmp_path / "out")
    assert done.returncode in (1, 2) and len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_inspecting_nothing_is_one_sentence(hearsay: Run, tmp_path: Path):
    """A directory without a checkpoint."""
    done = hearsay("export", "inspect", tmp_path)
    assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1
