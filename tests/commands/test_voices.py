"""hearsay voices: listed, added and removed, here and at a daemon."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from codec.clone import LONGEST_SECONDS, SHORTEST_SECONDS
from engines.manifest import read_tts
from streaming.people import LEAST_SECONDS, MOST_SECONDS
from tests.clients.conftest import Daemon
from tests.clips import DATA, RATE, dialogue
from tests.commands.conftest import Run

CLIP = min((DATA / "clips").iterdir())
GOLDEN = Path(__file__).parents[1] / "golden" / "speaking"


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


def test_a_voice_is_added_spoken_with_and_removed(hearsay: Run, tts_directory: Path, tmp_path: Path):
    """From a recording; the user's directory is the tests' own."""
    assert hearsay("voices", "add", "grandma", CLIP, "--tts-model", tts_directory).stdout == "added grandma\n"
    assert hearsay("voices", "add", "Grandma", CLIP, "--tts-model", tts_directory).stdout == "replaced grandma\n"
    listed = hearsay("voices", "--tts-model", tts_directory).stdout.splitlines()
    assert listed[-1].split() == ["grandma", "cloned", "grandma"]
    said = hearsay("say", "Good evening.", "--voice", "grandma", "--tts-model", tts_directory, "-o", tmp_path / "a.wav")
    assert said.returncode == 0 and (tmp_path / "a.wav").stat().st_size > 44
    assert hearsay("voices", "remove", "grandma", "--tts-model", tts_directory).stdout == "removed grandma\n"
    assert "grandma" not in hearsay("voices", "--tts-model", tts_directory).stdout


def test_what_cannot_be_added_or_removed_is_one_line(hearsay: Run, tts_directory: Path, tmp_path: Path):
    """A preset, a stranger, a model without an encoder, and a recording that is too short or too long."""
    preset = next(iter(read_tts(tts_directory).voices))
    for verb, name, model, message in (
        ("remove", preset, tts_directory, "cannot be deleted"),
        ("remove", "nobody", tts_directory, "no stored voice 'nobody'; stored: "),
        ("add", preset, tts_directory, "is a preset"),
        ("add", "me", GOLDEN, "cannot clone"),
    ):
        done = hearsay("voices", verb, name, *([CLIP] if verb == "add" else []), "--tts-model", model)
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1
    for seconds in (0.5, 63.0):
        file = tmp_path / "sound.wav"
        soundfile.write(file, np.zeros(round(seconds * 16_000)), 16_000)
        done = hearsay("voices", "add", "me", file, "--tts-model", tts_directory)
        told = f"hearsay: {file}: {seconds} s of audio, it must be 1 to 30 s"
        told += ": cut a stretch out of it in which one person speaks\n" if seconds > 30 else "\n"
        assert (done.returncode, done.stderr) == (1, told)


def test_help_tells_the_bounds_of_both_kinds(hearsay: Run):
    told = " ".join(hearsay("voices", "add", "--help").stdout.split())
    assert f"{SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} s; with --listen {LEAST_SECONDS:g} s or more" in told
    assert f"the first {MOST_SECONDS:g} s of each" in told


def test_who_is_known_by_voice(hearsay: Run, tts_directory: Path, tmp_path: Path):
    """Added from several recordings, listed, told in transcripts and forgotten, all on this machine."""
    anna = [DATA / "clips/9460fd864aba.opus", DATA / "clips/dd4c95f6ad9b.opus"]
    assert hearsay("voices", "add", "--listen", "Anna Lee", *anna).stdout == "added Anna Lee\n"
    assert hearsay("voices", "add", "--listen", "Anna Lee", *anna).stdout == "replaced Anna Lee\n"
    listed = hearsay("voices", "--tts-model", tts_directory).stdout.splitlines()
    assert listed[-1].split() == ["Anna", "Lee", "known", "Anna", "Lee"]
    assert json.loads(hearsay("voices", "--json").stdout.splitlines()[-1])["kind"] == "known"
    soundfile.write(tmp_path / "talk.flac", dialogue(), RATE)
    lines = hearsay("transcribe", "--speakers", tmp_path / "talk.flac").stdout.splitlines()
    assert lines[0].startswith("Anna Lee: ") and lines[1].startswith("B: ")
    subtitles = hearsay("transcribe", "--speakers", "--format", "vtt", tmp_path / "talk.flac").stdout
    assert "<v Anna Lee>" in subtitles and "<v B>" in subtitles
    assert hearsay("voices", "remove", "--listen", "anna lee").stdout == "removed anna lee\n"
    assert "Lee" not in hearsay("voices", "--tts-model", tts_directory).stdout


def test_who_cannot_be_known_is_one_line(hearsay: Run, tmp_path: Path):
    """What is wrong, the limit and what to do; nothing is kept."""
    silent = tmp_path / "silent.wav"
    soundfile.write(silent, np.zeros(48_000), 16_000)
    for code, message, name, *files in (
        (1, f"{silent}: 0.0 s of speech in it, at least 1.5 s is needed: record", "me", silent),
        (1, "index.jsonl: it is no audio", "me", DATA / "index.jsonl"),
        (1, "there is no such file; give up to 30 s of one person", "me", tmp_path / "none.wav"),
        (2, "name: 'B' is what a speaker without a name is called", "B", CLIP),
        (2, "on this machine, so leave --url", "me", CLIP, "--url", "http://127.0.0.1:9"),
    ):
        done = hearsay("voices", "add", "--listen", name, *files)
        assert done.returncode == code and message in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    several = hearsay("voices", "add", "me", CLIP, CLIP)
    assert several.returncode == 2 and "--listen takes several" in several.stderr
    nobody = hearsay("voices", "remove", "--listen", "me")
    assert nobody.returncode == 2 and "no voice print of 'me' is stored" in nobody.stderr


def test_the_voices_of_a_daemon(hearsay: Run, talking_url: str, tts_directory: Path):
    """The same list, one more while it is kept there; what it refuses is told in its own words."""
    here = hearsay("voices", "--tts-model", tts_directory, "--json").stdout
    assert hearsay("voices", "--url", talking_url, "--json").stdout == here
    assert hearsay("voices", "add", "me", CLIP, "--url", talking_url).stdout == "added me\n"
    assert hearsay("voices", "add", "me", CLIP, "--url", talking_url).stdout == "replaced me\n"
    assert hearsay("voices", "--url", talking_url).stdout.splitlines()[-1].split() == ["me", "cloned", "me"]
    assert hearsay("voices", "remove", "me", "--url", talking_url).stdout == "removed me\n"
    assert hearsay("voices", "--url", talking_url, "--json").stdout == here
    preset = json.loads(here.splitlines()[0])["id"]
    for verb, name, message in (
        ("remove", preset, "HTTP 400"),
        ("remove", "a/b", "HTTP 404"),
        ("remove", "", "voice: the name is empty"),
        ("add", preset, "HTTP 400"),
    ):
        done = hearsay("voices", verb, name, *([CLIP] if verb == "add" else []), "--url", talking_url)
        assert done.returncode == 2 and message in done.stderr, done.stderr
    done = hearsay("voices", "add", "me", DATA / "index.jsonl", "--url", talking_url)
    assert done.returncode == 1 and "audio_sample: " in done.stderr, "the recording's fault"


def test_a_daemon_that_only_hears_says_so(hearsay: Run, daemon: Daemon):
    """No voices there, and nothing is said there either."""
    with daemon() as background:
        for verb in (["voices"], ["say", "Hello.", "-o", "a.wav"]):
            done = hearsay(*verb, "--url", background.url)
            assert done.returncode == 2 and "no speaking model" in done.stderr


@pytest.mark.parametrize("option", [["--url", "http://127.0.0.1:9"], ["--json"], ["--tts-model", "none"]])
def test_options_before_a_verb_are_refused(hearsay: Run, option: list[str]):
    """They would not hold for it."""
    done = hearsay("voices", *option, "list")
    assert (done.returncode, done.stdout) == (2, "") and "behind the verb: hearsay voices list" in done.stderr


@pytest.mark.parametrize("verb", [["voices"], ["say", "Hello.", "-o", "a.wav"]])
def test_no_daemon_is_one_line(hearsay: Run, verb: list[str]):
    """Nobody answers."""
    done = hearsay(*verb, "--url", "http://127.0.0.1:9")
    assert done.returncode == 1 and "no daemon answers at 127.0.0.1:9" in done.stderr
