"""The bench of the doors: every door is measured, and what it says is of the right order."""

import json
from pathlib import Path

import pytest

from bench.doors import main


def test_doors_have_their_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No door answers before there is something to answer; a final over a socket waits for the silence that ends it."""
    file = tmp_path / "doors.json"
    assert main(["--rounds", "1", "--doors", "/v1/", "--json", str(file)]) == 0
    found = json.loads(file.read_text(encoding="utf-8"))["milliseconds"]
    assert found["/v1/listen"]["final"] > 200 and found["/v1/realtime"]["final"] > 400
    assert found["/v1/speak"]["first audio"] > 0
    assert found["/v1/realtime/calls"] and found["/v1/audio/transcriptions"]
    assert all(figures[kind] > 0 for figures in found.values() for kind in figures if kind != "first interim")
    assert "first audio" in capsys.readouterr().out
