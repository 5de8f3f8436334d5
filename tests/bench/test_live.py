"""The live bench: what it says is that of the wire, and its load is what it is said to be."""

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import SERVER, Protocol

from bench.flood import one_byte_frames
from bench.live import flat, main, table
from bench.sessions import ENDPOINTING_SECONDS, PAUSE_SECONDS, RATE, spread, timed_speech
from tests.clips import DATA
from tests.daemon.process import UNHURRIED

SYNTHETIC = DATA.parent / "synthetic"


@given(st.binary(max_size=40))
def test_frames_of_one_byte_are_binary_messages_of_one_byte(audio: bytes) -> None:
    """As a server's own protocol reads them."""
    server = Protocol(SERVER)
    server.receive_data(one_byte_frames(audio))
    frames = [event for event in server.events_received() if isinstance(event, Frame)]
    assert [(frame.opcode, bytes(frame.data), frame.fin) for frame in frames] == [
        (Opcode.BINARY, bytes([byte]), True) for byte in audio
    ]


def test_speech_goes_round_and_knows_its_ends() -> None:
    """Pieces of any length are the same audio; each clip's speech ends within the clip, before its pause."""
    speech = timed_speech(SYNTHETIC)
    whole = speech.piece(0.0, 2 * speech.seconds)
    assert whole == 2 * speech.pcm
    late = speech.seconds - 0.05
    assert speech.piece(late, 0.1) == whole[2 * round(late * RATE) :][: len(speech.piece(late, 0.1))]
    following = [*speech.starts[1:], speech.seconds]
    for start, end, after in zip(speech.starts, speech.ends, following, strict=True):
        assert start < end < after - PAUSE_SECONDS
    assert all(0 < end <= speech.seconds for _, end in speech.words)


def test_a_session_waits_for_finals_only_of_utterances_that_it_heard_whole() -> None:
    """From the clip it begins with to the last one whose silence was sent, the next round's included."""
    speech = timed_speech(SYNTHETIC)
    began, seconds = speech.starts[7], speech.seconds + 3.0
    ends = speech.utterances(began, seconds)
    assert ends[0] == pytest.approx(speech.ends[7] - began) and ends == sorted(ends)
    assert max(ends) + ENDPOINTING_SECONDS < seconds
    assert len(speech.starts) <= len(ends) <= len(speech.starts) + 2


def test_what_never_came_counts_and_is_not_shown() -> None:
    assert spread([0.1, 0.2, math.inf]) == {"p50": 200.0, "p95": None, "worst": None}
    assert spread([]) == {"p50": None, "p95": None, "worst": None}


def test_a_table_has_both_and_how_many_times_one_is_the_other() -> None:
    ours, theirs = {"lag_ms": {"p50": 100.0}, "lost": 0, "why": ["a", "b"]}, {"lag_ms": {"p50": 250.0}, "lost": 2}
    assert flat(ours) == {"lag_ms p50": 100.0, "lost": 0, "why": ["a", "b"]}
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table("row", ours, theirs).splitlines()]
    assert lines[0] == ["row", "here", "against", "against / here"]
    assert lines[2:] == [["lag_ms p50", "100.0", "250.0", "2.50"], ["lost", "0", "2", ""], ["why", "a; b", "–", ""]]
    assert len(table("row", ours, None).splitlines()[0].split("|")) == 4


def test_rows_and_checkouts_that_are_not_there_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--rows", "one,two"]) == 2
    assert "no rows named two" in capsys.readouterr().err
    assert main(["--against", str(tmp_path)]) == 2
    assert ".venv" in capsys.readouterr().err


def test_the_flood_is_measured_beside_a_speaker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one on a real daemon: the speaker heard both times, the flood sent what it says."""
    (tmp_path / "sitecustomize.py").write_text(UNHURRIED)  # the daemon takes all of it, however busy the machine is
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    found = tmp_path / "live.json"
    assert main(["--rows", "flood", "--seconds", "8", "--json", str(found)]) == 0
    here = json.loads(found.read_text())["flood"]["here"]
    assert here["alone"]["final_beyond_endpointing_ms"]["p50"] is not None
    assert here["fast_seconds_sent"] > 100 and here["one_byte_frames_sent"] > 1000
