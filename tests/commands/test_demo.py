"""hearsay demo, doctor and export, as a person sees them."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from bench.wer import normalize, rate
from commands.samples import sample
from engines import store
from tests.clips import DATA
from tests.commands.conftest import Run

TORCH = importlib.util.find_spec("torch") is not None


def test_the_demo_shows_captions_text_and_latencies(hearsay: Run):
    """Without a terminal or a sound library: plain lines, then the text, its reference, errors and lags."""
    done = hearsay("demo")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.partition("said again by")[0].splitlines()
    interims = [line for line in lines if re.match(r" *[\d.]+ ~ ", line)]
    finals = [line.partition(" = ")[2] for line in lines if re.match(r" *[\d.]+ = ", line)]
    assert len(interims) > 5 and finals
    facts = dict(line.split(":", 1) for line in lines if re.match(r"[a-z ]+: ", line))
    assert facts["final text"].strip() == " ".join(finals)
    assert facts["reference"].strip() == sample("demo").text
    expected = 100 * rate([(sample("demo").text, " ".join(finals))])
    assert facts["word errors"].strip() == f"{expected:.1f} %"
    assert "p50" in facts["partial lag"] and "p50" in facts["final lag"]
    assert "\x1b" not in done.stdout


def test_the_demo_says_again_what_it_heard(hearsay: Run, talking_url: str, tts_directory: Path):
    """Every final is a sentence of what is said; it is spoken while it is written, heard again and compared."""
    done = hearsay("demo", "--url", talking_url)
    assert done.returncode == 0, done.stderr
    first, _, second = done.stdout.partition("said again by ")
    heard = dict(line.split(":", 1) for line in first.splitlines() if re.match(r"[a-z ]+: ", line))
    finals = [line.partition(" = ")[2] for line in first.splitlines() if re.match(r" *[\d.]+ = ", line)]
    found = dict(line.split(":", 1) for line in second.splitlines() if re.match(r"[a-z -]+: ", line))
    assert normalize(found["said"]) == normalize(heard["final text"]) == normalize(" ".join(finals))
    assert found["said"].count(".") >= len(finals) > 1
    again = [line.partition(" = ")[2] for line in second.splitlines() if re.match(r" *[\d.]+ = ", line)]
    assert found["heard again"].strip() == (" ".join(again) or "(nothing)")
    agreement = max(0.0, 100 * (1 - rate([(found["said"], " ".join(again))])))
    assert found["word agreement"].strip() == f"{agreement:.1f} %"
    latency = re.match(r" +(\d+) ms after the first of (\d+) words was written, (\d+) were", found["first audio"])
    assert latency is not None
    milliseconds, words, written = map(int, latency.groups())
    assert words == len(found["said"].split()) and 0 < written < words / 2 and milliseconds < 2000
    under_runs, seconds = re.match(r" +(\d+) in ([\d.]+) s", found["under-runs"]).groups()  # type: ignore[union-attr]
    assert float(seconds) > 1
    if tts_directory == store.BUNDLED / "pocket-tts-en":
        # Random weights end a sentence with its text; a voice speaks on, and has a word ready when it is due.
        assert under_runs == "0" and agreement > 50


def test_the_demo_goes_through_a_given_daemon(hearsay: Run, url: str):
    """--url: that daemon is used; another recording has no reference; it says nothing again if it does not speak."""
    clip = min((DATA / "clips").iterdir(), key=lambda path: path.stat().st_size)
    done = hearsay("demo", "--url", url, "--file", clip)
    assert done.returncode == 0, done.stderr
    assert url in done.stdout and "reference" not in done.stdout
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
    assert {"hearsay", "packages", "providers", "threads", "model", "sound", "extra"} <= {f["topic"] for f in findings}
    assert all(finding["remedy"] for finding in findings if finding["state"] != "ok")
    assert any("pocket-asr-en" in f["found"] and "default" in f["found"] for f in findings if f["topic"] == "model")
    plain = hearsay("doctor").stdout
    assert "onnxruntime 1" in plain and "CPU" in plain


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
