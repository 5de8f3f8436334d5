"""The chain of stages: when each ends, and what a failed one leaves to the rest."""

import time
from pathlib import Path

import pytest

from training.tts.chain import CODES, ends
from training.tts.stages import StageFailed, Stages

CONFIG = Path(__file__).parents[3] / "training/tts/pocket-tts-en.toml"


def test_a_late_start_shortens_every_stage_alike() -> None:
    early, late = ends(1000.0, 2600.0), ends(1800.0, 2600.0)
    assert early[0] - 1000 == pytest.approx(CODES * 1600) and late[0] - 1800 == pytest.approx(CODES * 800)
    assert early[0] < early[1] < early[2] < 2600 and early[2] == late[2]
    with pytest.raises(ValueError, match="at least 60"):
        ends(1000.0, 1050.0)


def test_a_failed_stage_is_tried_once_more_and_then_left(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stages = Stages(CONFIG, "a")
    failing = ["--text", tmp_path / "missing", "--out", tmp_path / "tokenizer"]
    assert not stages.attempt("tokenizer", failing, None, time.time() + 600, [])
    said = capfd.readouterr()
    assert said.out.count("tokenizer: ended with 1") == 2 and "FileNotFoundError" in said.err
    assert not stages.attempt("tokenizer", failing, None, time.time(), [])  # no time is left for a second try
    assert capfd.readouterr().out.count("ended with 1") == 1
    with pytest.raises(StageFailed, match="tokenizer"):
        stages.run("tokenizer", failing)


def test_the_second_try_has_its_own_arguments(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("One sentence that is long enough to be spoken by a voice.\n" * 50)
    stages = Stages(CONFIG, "a")
    first = ["--text", tmp_path / "missing", "--out", tmp_path / "tokenizer"]
    # The later of two values counts.
    assert stages.attempt("tokenizer", first, None, time.time() + 600, ["--text", tmp_path / "text"])
    assert (tmp_path / "tokenizer/tokenizer.json").exists()
