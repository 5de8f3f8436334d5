"""The commands that training/README.md prints are those that there are."""

import importlib
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from torch.distributed.run import get_args_parser as distributed

from training.stages import Share, asked

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Given:
    """What a stage is given."""

    codes: tuple[Path, ...]
    out: Path
    start: Path | None = None
    graphs: bool = True


def test_a_stage_is_called_with_what_the_command_line_gives(capsys: pytest.CaptureFixture[str]) -> None:
    called = list[Any]()

    def take(tars: tuple[Path, ...], /, *, voice_hours: float, share: Share = (0, 1), kind: str = "ogg") -> None:
        """Take tars (of .ogg files). All of them."""
        called.append((tars, voice_hours, share, kind))

    def learn(given: Given) -> None:
        """Learn."""
        called.append(given)

    stages: dict[str, Callable[..., None]] = {"take": take, "learn": learn}
    asked("it", None, stages, "take a b --voice-hours 2 --share 1/3 --kind flac".split())()
    asked("it", None, stages, "learn --codes a b --out c --no-graphs".split())()
    a, b = Path("a"), Path("b")
    assert called == [((a, b), 2.0, (1, 3), "flac"), Given((a, b), Path("c"), None, False)]
    with pytest.raises(SystemExit):
        asked("it", None, stages, ["learn", "--codes", "a"])
    assert "--out" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        asked("it", None, stages, ["--help"])
    assert re.search(r"take +Take tars \(of \.ogg files\)\n", capsys.readouterr().out), "a sentence a stage"


def commands() -> list[list[str]]:
    """Give module, stage and arguments of every command of the recipe, with its variables put in."""
    found, known = list[list[str]](), dict[str, str]()
    for block in re.findall(r"^```\n(.*?)^```$", (ROOT / "training/README.md").read_text(), re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", "").splitlines():
            known |= dict(re.findall(r'(\w)="([^"]*)"', line))
            line = re.sub(r"\$(\w)(?!\w)", lambda m: known[m[1]], line)
            if line.startswith("python -m training."):
                found.append(shlex.split(line.partition(";")[0])[2:])
    return found


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words[:2]))
def test_printed_commands_are_understood(words: list[str]) -> None:
    stages = importlib.import_module(f"{words[0]}.__main__").STAGES
    assert callable(asked(words[0], None, stages, words[1:]))


def test_printed_torchrun_gives_a_stage_all_its_options() -> None:
    [printed] = re.findall(r"`torchrun ([^`]*) …`", (ROOT / "training/README.md").read_text())
    given = distributed().parse_args([*printed.split(), "--start", "a", "--out", "b"])
    assert [given.training_script, *given.training_script_args] == [*printed.split()[-2:], "--start", "a", "--out", "b"]
