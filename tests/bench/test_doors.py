"""The bench of the doors: every door is measured, and what it says is of the right order."""

import json
from pathlib import Path

import pytest

from bench.doors import main


def test_every_door_has_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No door answers before there is something to answer; a final over a socket waits for the silence that ends it."""
    file = tmp_path / "doors.json"
    assert main(["--rounds", "1", "--json", str(file)]) == 0
    found = json.loads(file.read_text(encoding="utf-8"))["milliseconds"]
    hearing = ("/v1/listen", "/v2/listen", "/v1/realtime", "wyoming, transcribe")
    speaking = ("/v1/speak", "/v2/speak", "/v1/audio/speech", "wyoming, synthesize")
    assert tuple(found) == hearing + speaking
    assert all(found[door]["final"] > 0 for door in hearing)
    assert all(found[door]["final"] > 400 for door in hearing[:3])
    assert all(found[door]["first audio"] > 0 for door in speaking)
    assert "first audio" in capsys.readouterr().out
