"""The command on a terminal: a bar while it works, captions that redraw, nothing broken behind."""

import json
import os
import re
import select
import signal
import sys
import time
from pathlib import Path

import pytest

from commands.samples import sample
from tests.clips import DATA
from tests.test_data import ROWS

pty = pytest.importorskip("pty", reason="needs pseudo-terminals (not on Windows)")


def on_terminal(arguments: list[str], environment: dict[str, str], *, interrupt_after: str = "") -> tuple[int, str]:
    """Run the command on a pseudo-terminal of 30 columns; its exit code and everything it drew.

    ``interrupt_after``: press Ctrl-C when this has been drawn.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**environment, "COLUMNS": "30", "LINES": "10", "TERM": "xterm"}
        os.execve(sys.executable, [sys.executable, "-m", "commands.main", *arguments], environment)
    drawn, deadline = b"", time.monotonic() + 600
    try:
        while True:
            assert time.monotonic() < deadline, drawn
            if not select.select([terminal], [], [], 1.0)[0]:
                continue
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # Linux's way of saying that the other side has gone
                break
            if not piece:
                break
            drawn += piece
            if interrupt_after and interrupt_after.encode() in drawn:
                interrupt_after = ""
                os.write(terminal, b"\x03")
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), drawn.decode("utf-8", "replace")
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(terminal)


def test_transcribe_shows_a_bar_and_takes_it_away(environment: dict[str, str]):
    """The file's name and the seconds heard are drawn while it works; the text stands alone in the end."""
    recording = sample("reading").path
    code, drawn = on_terminal(["transcribe", str(recording)], environment)
    assert code == 0, drawn
    assert recording.name[:8] in drawn and "\x1b[2K" in drawn
    assert drawn.rstrip().splitlines()[-1].strip()
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h")  # the cursor is shown as often as it is hidden


def test_say_counts_what_it_writes_and_takes_the_count_away(environment: dict[str, str], tmp_path: Path):
    """Nothing of it with --json, whose only line is the object."""
    text, file = "The tide was coming in, and the boats rocked gently. " * 4, tmp_path / "a.wav"
    code, drawn = on_terminal(["say", text, "-o", str(file), "--threads", "1"], environment)
    assert code == 0, drawn
    while_it_spoke = drawn[: drawn.rindex("\x1b[?25h")]
    assert "a.wav" in while_it_spoke and re.search(r"[1-9]\d* s", while_it_spoke) and "\x1b[2K" in drawn
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h") > 0
    code, drawn = on_terminal(["say", text, "-o", str(file), "--threads", "1", "--json"], environment)
    assert code == 0 and json.loads(drawn)["seconds"] > 1


def test_what_shows_nothing_until_its_end_says_so(environment: dict[str, str]):
    code, drawn = on_terminal(["bench", "tts", "--frames", "5", "--threads", "1"], environment)
    assert code == 0 and drawn.startswith("hearsay: measuring, which takes ten seconds or more"), drawn


def test_the_demo_redraws_and_leaves_what_it_heard(environment: dict[str, str]):
    """Thirty columns are enough; after it the cursor is back."""
    short = str(DATA / next(row["file"] for row in ROWS if 2 < row["seconds"] < 4))
    code, drawn = on_terminal(["demo", "--no-sound", "--file", short], environment)
    assert code == 0, drawn
    assert "\x1b[2m" in drawn or "NO_COLOR" in environment
    assert "heard" in drawn and "captions" in drawn and "first sound" in drawn
    assert drawn.rfind("\x1b[?25h") > drawn.rfind("\x1b[?25l") >= 0


def test_ctrl_c_ends_the_demo_at_once(environment: dict[str, str]):
    """Exit code 130, no traceback, the cursor is back; the recording is not heard to its end."""
    code, drawn = on_terminal(["demo", "--no-sound"], environment, interrupt_after="\x1b[?25l")
    assert code == 130, drawn
    assert "Traceback" not in drawn and "finals" not in drawn
    assert drawn.rfind("\x1b[?25h") >= drawn.rfind("\x1b[?25l")
