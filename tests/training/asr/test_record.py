"""What a run keeps of itself, and what its log says."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from training.asr.evaluate import Score
from training.asr.record import REPORT, Log, Record


def test_a_record_goes_on_from_its_state() -> None:
    record = Record(step=700, history=[[100.0, 2.0, 3.0]], scores=[{"step": 100}], heard=1.5, spent=42.0)
    again = Record()
    again.take(record.state() | {"model": {}})
    assert again == record
    with pytest.raises(KeyError, match="heard"):
        again.take({"step": 1, "history": [], "scores": []})


def test_an_evaluation_is_a_row_in_percent(tmp_path: Path) -> None:
    found = {"librispeech": Score(words=200, errors=47, ctc_errors=60)}
    raw = {"librispeech": Score(words=200, errors=50, ctc_errors=60)}
    record = Record(step=300, heard=12.34, spent=60.06)
    row = record.evaluated(120, found, None)
    assert row == {
        "step": 300, "seconds": 60.1, "hours": 12.3, "clips": 120,
        "wer": {"librispeech": 23.5}, "ctc_wer": {"librispeech": 30.0},
    }  # fmt: skip
    assert record.evaluated(120, found, raw)["wer_without_average"] == {"librispeech": 25.0}
    assert len(record.scores) == 2
    record.write(tmp_path, {"name": "tiny"}, {"librispeech": 9.5}, ["a.opus"], started=True)
    told = json.loads((tmp_path / "run.json").read_text())
    assert told["scores"] == record.scores and told["dev"] == ["a.opus"] and told["started_from"] is True
    assert told["steps"] == 300 and told["hours"] == {"librispeech": 9.5}


def test_a_line_tells_the_means_since_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(torch.device("cpu"), 10.0)
    # A run taken up again between two lines has fewer steps before the first of them.
    for _ in range(REPORT - 50):
        log.add(torch.tensor([1.0, 0.5, 2.0, 3.0, 4.0, 0.25]), 0.02)
    log.waited = 1.5
    means = log.means()
    assert means == [1.0, 0.5, 2.0, 3.0, 4.0, 0.25]
    assert log.line(means, 20.0, 0.75, 33.0) == (
        "ce 1.000 acc 0.500 views 2.000 ctc 3.000 inner 4.000 norm 0.25 rate 0.750 | "
        "200.0 ms/step, waited 1.5 s, 33 h heard, 360 x real time"
    )
    log.clear()
    assert log.means() == [0.0] * 6 and log.heard == log.waited == log.steps == 0
    assert capsys.readouterr().out == ""
