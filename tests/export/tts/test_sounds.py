"""The files that tell how words sound are copied from the checkpoint into the model directory."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from export.checkpoint import Checkpoint, CheckpointError
from export.tts.checkpoint import open_tts
from export.tts.description import text_rules
from export.tts.sounds import pronunciation, write_sounds
from tests.codec.sounds.voices import PARTS, RULES, shipped, write_guesses
from tests.export.tts.checkpoints import write_tts_checkpoint

NAMED = msgspec.to_builtins(PARTS)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """A checkpoint that has those files beside its config.json."""
    model = open_tts(write_tts_checkpoint(tmp_path / "checkpoint")).model
    for name in (PARTS.dictionary, PARTS.neighbours):
        shutil.copyfile(shipped() / name, model.directory / name)
    write_guesses(model.directory / PARTS.guesses)
    return model


def test_they_are_named_by_the_manifest_and_copied(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """The manifest names the files, which are copied unchanged."""
    out = tmp_path / "out"
    out.mkdir()
    text = {"alphabet": RULES.alphabet, "marks": RULES.marks, "ends": "", "sounds": NAMED}
    rules = text_rules(checkpoint, {"text": text})
    assert rules == msgspec.structs.replace(RULES, longest=120, clause=40) and rules.sounds == PARTS
    write_sounds(checkpoint, PARTS, out)
    for name in msgspec.structs.astuple(PARTS):
        assert (out / name).read_bytes() == (checkpoint.directory / name).read_bytes()


@pytest.mark.parametrize("extra", [{}, {"text": None}, {"text": {"alphabet": "abc"}}])
def test_a_model_that_reads_letters_has_none(checkpoint: Checkpoint, extra: dict[str, Any]) -> None:
    """A model that reads letters has no such files, nor has an official one."""
    assert pronunciation(checkpoint, extra) is None
    assert text_rules(checkpoint, extra).sounds is None


@pytest.mark.parametrize(
    ("named", "damage", "told"),
    [
        ({"dictionary": "dictionary.gz"}, None, "hearsay.text.sounds: .*neighbours"),
        (NAMED | {"guesses": "../guesses.npz"}, None, "'../guesses.npz' is no file beside it"),
        (NAMED | {"guesses": "none.npz"}, None, "none.npz cannot be read: No such file"),
        (NAMED, PARTS.dictionary, "dictionary.gz: the pronouncing dictionary"),
        (NAMED, PARTS.guesses, "guesses.npz: the model that guesses"),
    ],
)
def test_what_the_runtime_could_not_read_is_refused(
    checkpoint: Checkpoint, tmp_path: Path, named: dict[str, str], damage: str | None, told: str
) -> None:
    """The error names the key or the file."""
    if damage is not None:
        (checkpoint.directory / damage).write_bytes(b"damaged")
    (tmp_path / "out").mkdir()
    with pytest.raises(CheckpointError, match=told):
        parts = pronunciation(checkpoint, {"text": {"sounds": named}})
        assert parts is not None
        write_sounds(checkpoint, parts, tmp_path / "out")
