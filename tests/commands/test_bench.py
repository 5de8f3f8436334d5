"""The measurements measure: their counts add up, their errors are counted, their figures are the promised ones."""

import io
import json
import math
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.size import dependencies
from bench.wer import distance, normalize, rate
from commands.samples import sample
from engines.manifest import read_asr
from engines.store import default, find
from tests.clips import DATA
from tests.commands.conftest import Run
from tests.daemon.process import UNHURRIED


def run_json(hearsay: Run, *arguments: object) -> dict[str, Any]:
    """A bench verb's JSON object."""
    done = hearsay("bench", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_hearing_at_once_counts_every_phase(hearsay: Run):
    """Frames, chunks, windows and rows follow from the length; every phase took time; the machine was probed."""
    found = run_json(hearsay, "asr", "--audio", sample("reading").path, "--threads", 1, "--force-tokens", 10)
    seconds = found["audio_seconds"]
    phases, counts = found["phases"], found["counts"]
    assert seconds == pytest.approx(14.91, abs=0.01)
    spec = read_asr(find(default())).encoder
    frames = int(seconds * 100)
    assert phases["stem"]["chunks"] == frames // spec.chunk_frames and phases["stem"]["tails"] == 1
    assert phases["body"] == {**phases["body"], "windows": 1, "tails": 1}
    audio_rows = frames // spec.chunk_frames * spec.chunk_rows + math.ceil(frames % spec.chunk_frames / 8)
    assert counts["window_rows"] + counts["tail_rows"] == audio_rows
    assert phases["prefill"]["rows"] == audio_rows + counts["head_rows"] + counts["text_rows"]
    assert phases["decode"]["tokens"] == counts["steps"] == 10
    assert all(phase["seconds"] > 0 for phase in phases.values())
    assert sum(phase["seconds"] for phase in phases.values()) <= found["wall_seconds"] * 1.05
    assert found["resident_bytes"] > 50e6 and found["machine"]["threads"] == 1
    assert found["machine"]["gemm_gflops"] > 0.1 and found["machine"]["read_gb_s"] > 0.1


@pytest.mark.parametrize("verb", ["bench asr --audio", "bench sessions --count 1 --seconds 5 --audio", "demo --file"])
def test_a_recording_that_cannot_be_heard_is_one_line_with_its_name(hearsay: Run, verb: str):
    """No traceback."""
    for path, reason in {DATA / "none.wav": "there is no such file", DATA / "index.jsonl": "it is no audio"}.items():
        done = hearsay(*verb.split(), path)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1 and f"{path}: {reason}" in done.stderr


def test_hearing_in_ticks_computes_each_chunk_once(hearsay: Run):
    """--stream: as many ticks as the tick's length gives, finished chunks and windows still once, tails each time."""
    found = run_json(hearsay, "asr", "--audio", sample("reading").path, "--stream", "--tick", 1.0)
    assert found["ticks"]["count"] == math.ceil(found["audio_seconds"])
    chunk = read_asr(find(default())).encoder.chunk_frames
    assert found["phases"]["stem"]["chunks"] == int(found["audio_seconds"] * 100) // chunk
    assert found["phases"]["body"]["windows"] == 1
    assert found["counts"]["ticks"] == found["ticks"]["count"]
    assert found["ticks"]["p50_ms"] <= found["ticks"]["p95_ms"] <= found["ticks"]["worst_ms"]


def test_word_starts_are_compared(hearsay: Run, tmp_path: Path):
    """Some of the utterances whose word starts are known, all of which tests/soak hears: counted, and near."""
    synthetic = DATA.parent / "synthetic"
    rows = (synthetic / "index.jsonl").read_text().splitlines()[:4]
    (tmp_path / "index.jsonl").write_text("\n".join(rows))
    for row in map(json.loads, rows):
        (tmp_path / row["file"]).write_bytes((synthetic / row["file"]).read_bytes())
    found = run_json(hearsay, "words", tmp_path)
    assert found["clips"] == 4 and found["starts_known"] == sum(len(json.loads(row)["words"]) for row in rows)
    assert 0 < found["starts_compared"] <= found["starts_known"] and found["approximate"] == 0
    assert abs(found["median_signed_ms"]) <= found["median_ms"] <= found["p95_ms"] <= found["worst_ms"] < 1000


@pytest.mark.parametrize("verb", ["words", "sessions --timed", "stability"])
def test_a_row_that_lacks_a_field_is_one_line_with_its_name(hearsay: Run, tmp_path: Path, verb: str):
    """File, row and field, before a model is loaded; a row that is no JSON is told too."""
    whole = {"file": "a.wav", "text": "a", "words": [[0, 0.1]], "end": 1.0}
    lacking, field = ({}, "file") if verb == "stability" else ({"file": "a.wav", "text": "a"}, "words")
    for row, said in (json.dumps(lacking), f"no field '{field}'"), ("a.wav", "is no JSON object"):
        (tmp_path / "index.jsonl").write_text(f"{json.dumps(whole)}\n{row}\n")
        done = hearsay("bench", *verb.split(), tmp_path)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        assert f"{tmp_path / 'index.jsonl'}: row 2" in done.stderr and said in done.stderr


def test_live_sessions_are_counted_and_timed(hearsay: Run, environment: dict[str, str], tmp_path: Path):
    """A short run of two: none lost, words came, lags are there, the generator's CPU is apart from the daemon's."""
    (tmp_path / "sitecustomize.py").write_text(UNHURRIED)  # the daemon takes both, however busy the machine is
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *environment.get("PYTHONPATH", "").split(os.pathsep)])
    found = run_json(hearsay, "sessions", "--count", 2, "--seconds", 6, "--timed", DATA.parent / "synthetic")
    assert found["lost_sessions"] == found["refused_sessions"] == 0, found["lost_because"]
    assert found["words"] > 0 and found["utterances"] > 0 and found["interims_a_second"] > 0
    for name in ("final_beyond_endpointing_ms", "word_in_captions_ms", "end_lag_ms", "generator_late_ms"):
        assert found[name]["p50"] <= found[name]["p95"] <= found[name]["worst"]
    assert 0 < found["generator_cores"] < found["daemon_cores"]
    assert found["daemon_resident_bytes"] > 50e6


def test_live_sessions_of_recordings_are_timed_by_the_words_heard(hearsay: Run):
    """Without known word ends the finals' own word times are what lags count from; the final that the end of the audio
    brings is none of an endpoint's."""
    found = run_json(hearsay, "sessions", "--count", 1, "--seconds", 10)
    assert found["words"] > 0 and found["utterances"] == 1
    assert found["final_beyond_endpointing_ms"]["p50"] > -200


def test_a_running_daemon_cannot_be_told_what_to_say(hearsay: Run):
    done = hearsay("bench", "sessions", "--url", "http://127.0.0.1:9", "--force-tokens", "3")
    assert done.returncode == 2 and "leave out --url" in done.stderr


def test_sessions_on_no_daemon_are_all_lost(hearsay: Run):
    """Nothing answers: every session is counted as lost, with the reason."""
    found = run_json(hearsay, "sessions", "--count", 2, "--seconds", 5, "--url", "http://127.0.0.1:9")
    assert found["lost_sessions"] == 2 and "no daemon answers" in found["lost_because"][0]


def test_speaking_is_measured_part_by_part(hearsay: Run, tts_directory: Path):
    """Frames, audio and calls agree; every part took time and their sum is within the whole; the machine was probed."""
    found = run_json(hearsay, "tts", "--model", tts_directory, "--frames", 60, "--threads", 1)
    counts, seconds = found["counts"], found["seconds"]
    assert 60 <= counts["frames"] < 60 + 12 and counts["codec_calls"] <= counts["frames"]
    assert found["audio_seconds"] == pytest.approx(counts["frames"] * 0.08, abs=0.001)
    assert found["real_time_factor"] == pytest.approx(found["wall_seconds"] / found["audio_seconds"], rel=0.01)
    assert set(seconds) == {"prefill", "talker", "predictor", "codec"} and all(part > 0 for part in seconds.values())
    assert sum(seconds.values()) + found["other_seconds"] == pytest.approx(found["wall_seconds"], abs=0.001)
    assert found["other_seconds"] > -0.001
    for name, milliseconds in found["ms_per_frame"].items():
        assert milliseconds == pytest.approx(1000 * seconds[name] / counts["frames"], abs=0.01)
    assert set(found["codec_ms_per_frame"]) == {"1", "4", "12"} and all(found["codec_ms_per_frame"].values())
    for first in found["first_audio_ms"].values():
        assert 0 < first["p50"] <= first["worst"]
    assert found["resident_bytes"] > 50e6 and found["machine"]["threads"] == 1


def test_live_voices_are_counted_and_timed(hearsay: Run, tts_directory: Path):
    """Two listeners on one daemon: none lost, no more audio than a listener keeps unplayed, what was late counted."""
    found = run_json(hearsay, "voices", "--model", tts_directory, "--count", 2, "--seconds", 5)
    assert found["lost_voices"] == 0, found["lost_because"]
    assert 0 < found["audio_seconds"] < 2 * 5 * 3
    first = found["first_audio_ms"]
    assert 0 < first["p50"] <= first["p95"] <= first["worst"]
    assert found["voices_with_under_runs"] <= found["under_runs"]
    assert (found["silent_seconds"] > 0) == (found["under_runs"] > 0)
    assert 0 < found["daemon_cores"] and found["daemon_resident_bytes"] > 50e6


def test_eval_counts_each_corpus(hearsay: Run, tmp_path: Path):
    """A shard of two corpora: their clips, and the error rates of the texts that transcribe gives."""
    rows = [json.loads(line) for line in (DATA / "index.jsonl").read_text().splitlines()]
    chosen = [row for row in rows if row["seconds"] < 4]
    first = chosen[0]["corpus"]
    picked = [r for r in chosen if r["corpus"] == first][:2] + [r for r in chosen if r["corpus"] != first][:1]
    (tmp_path / "speech").mkdir()
    with tarfile.open(tmp_path / "speech" / "en-test-00.tar", "w") as tar:
        index = "".join(json.dumps(row) + "\n" for row in picked).encode()
        info = tarfile.TarInfo("index.jsonl")
        info.size = len(index)
        tar.addfile(info, io.BytesIO(index))
        for row in picked:
            tar.add(DATA / row["file"], row["file"])
    wrong = hearsay("bench", "eval", tmp_path, "--corpus", "nope")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("hearsay: no corpus named 'nope'; found: ") and first in wrong.stderr
    found = run_json(hearsay, "eval", tmp_path)
    assert {name: corpus["clips"] for name, corpus in found["corpora"].items()} == {
        first: 2, picked[2]["corpus"]: 1
    }  # fmt: skip
    done = hearsay("transcribe", "--json", *(DATA / row["file"] for row in picked))
    texts = [json.loads(line)["text"] for line in done.stdout.splitlines()]
    pairs = list(zip([row["text"] for row in picked], texts, strict=True))
    assert found["corpora"][first]["wer"] == pytest.approx(rate(pairs[:2]), abs=1e-4)
    assert found["corpora"][picked[2]["corpus"]]["wer"] == pytest.approx(rate(pairs[2:]), abs=1e-4)
    only = run_json(hearsay, "eval", tmp_path, "--corpus", first, "--limit", 1)
    assert {name: corpus["clips"] for name, corpus in only["corpora"].items()} == {first: 1}


def test_size_adds_up_what_is_needed_at_run_time(hearsay: Run):
    """Every dependency and theirs, no test tools; the total is the sum."""
    found = run_json(hearsay, "size")
    packages = found["unpacked_mb"]
    assert {"numpy", "onnxruntime", "llama-cpp-python", "starlette", "h11", "av"} <= packages.keys()
    assert not {"pytest", "torch", "openai", "deepgram-sdk", "hearsay"} & packages.keys()
    assert found["unpacked_total_mb"] == pytest.approx(sum(packages.values()), abs=0.5)
    assert found["bundled_models_mb"] > 0


def test_a_package_that_is_not_installed_is_named():
    """No silent zero."""
    with pytest.raises(RuntimeError, match="no-such-package is not installed"):
        dependencies("no-such-package")


def test_words_are_compared_without_case_and_punctuation():
    """Apostrophes stay, of either shape."""
    assert normalize("Don’t—STOP, now! 3.5") == ["don't", "stop", "now", "3", "5"]


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_distance_is_a_metric_between_bounds(a: list[str], b: list[str]):
    """Symmetric, zero for equals only, between the difference and the maximum of the lengths."""
    found = distance(a, b)
    assert found == distance(b, a)
    assert (found == 0) == (a == b)
    assert abs(len(a) - len(b)) <= found <= max(len(a), len(b))


def test_rate_is_errors_over_reference_words():
    """All pairs together, not the mean of their rates."""
    assert rate([("a b c d", "a b c d"), ("x", "y z")]) == pytest.approx(2 / 5)
    assert rate([("", "")]) == 0.0
