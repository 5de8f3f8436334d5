"""hearsay voices: listed, added and removed, here and at a daemon."""

import json
from pathlib import Path

import numpy as np
import pytest

from codec.voices import Voices
from engines.manifest import read_tts
from tests.clients.conftest import Daemon
from tests.clips import DATA
from tests.commands.conftest import Run


def test_the_voices_of_a_model_are_listed(hearsay: Run, tts_directory: Path):
    """Presets with their ids; without a verb the same; as JSON an object a line."""
    expected = list(read_tts(tts_directory).voices)
    plain = hearsay("voices", "list", "--tts-model", tts_directory)
    assert [line.split()[:2] for line in plain.stdout.splitlines()] == [[name, "preset"] for name in expected]
    assert hearsay("voices", "--tts-model", tts_directory).stdout == plain.stdout
    objects = [
        json.loads(line) for line in hearsay("voices", "--tts-model", tts_directory, "--json").stdout.splitlines()
    ]
    assert [entry["id"] for entry in objects] == expected and {entry["kind"] for entry in objects} == {"preset"}


def test_a_stored_voice_is_listed_spoken_with_and_removed(hearsay: Run, tts_directory: Path, tmp_path: Path):
    """What another model's encoder stored for this one; the user's directory is the tests' own."""
    manifest = read_tts(tts_directory)
    voices = Voices(manifest, tmp_path / "share" / "hearsay" / "voices")
    voices.store("grandma", np.full(manifest.talker.width, 0.1, np.float32))
    listed = hearsay("voices", "--tts-model", tts_directory).stdout.splitlines()
    assert listed[-1].split() == ["grandma", "cloned", "grandma"]
    said = hearsay("say", "Good evening.", "--voice", "grandma", "--tts-model", tts_directory, "-o", tmp_path / "a.wav")
    assert said.returncode == 0 and (tmp_path / "a.wav").stat().st_size > 44
    assert hearsay("voices", "remove", "grandma", "--tts-model", tts_directory).stdout == "removed grandma\n"
    assert "grandma" not in hearsay("voices", "--tts-model", tts_directory).stdout


def test_what_cannot_be_added_or_removed_is_one_line(hearsay: Run, tts_directory: Path):
    """A model without an encoder, a preset, a stranger."""
    manifest = read_tts(tts_directory)
    preset = next(iter(manifest.voices))
    clip = next((DATA / "clips").iterdir())
    calls = [("remove", preset, "cannot be deleted"), ("remove", "nobody", "no stored voice 'nobody'")]
    if manifest.speaker_encoder is None:
        calls.append(("add", "me", "cannot clone"))
    for verb, name, message in calls:
        done = hearsay("voices", verb, name, *([clip] if verb == "add" else []), "--tts-model", tts_directory)
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_voices_of_a_daemon(hearsay: Run, talking_url: str, tts_directory: Path):
    """The same list; what it refuses is told in its own words."""
    here = hearsay("voices", "--tts-model", tts_directory, "--json").stdout
    there = hearsay("voices", "--url", talking_url, "--json").stdout
    assert there == here
    preset = json.loads(here.splitlines()[0])["id"]
    for verb, name, message in (
        ("remove", preset, "HTTP 400"),
        ("remove", "a/b", "HTTP 404"),
        ("add", "me", "HTTP 400"),
    ):
        clip = [next((DATA / "clips").iterdir())] if verb == "add" else []
        done = hearsay("voices", verb, name, *clip, "--url", talking_url)
        assert done.returncode == 1 and message in done.stderr, done.stderr


def test_a_daemon_that_only_hears_says_so(hearsay: Run, daemon: Daemon):
    """No voices there, and nothing is said there either."""
    with daemon() as background:
        for verb in (["voices"], ["say", "Hello.", "-o", "a.wav"]):
            done = hearsay(*verb, "--url", background.url)
            assert done.returncode == 1 and "no speaking model" in done.stderr


@pytest.mark.parametrize("verb", [["voices"], ["say", "Hello.", "-o", "a.wav"]])
def test_no_daemon_is_one_line(hearsay: Run, verb: list[str]):
    """Nobody answers."""
    done = hearsay(*verb, "--url", "http://127.0.0.1:9")
    assert done.returncode == 1 and "no daemon answers at 127.0.0.1:9" in done.stderr
