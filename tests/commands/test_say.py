"""hearsay say, in this process: real text, a real model, real files, a virtual loudspeaker."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from commands.console import Failure
from commands.speech import speaking_model
from engines import store
from tests.clients.conftest import virtual
from tests.codec.sounds.voices import sounding
from tests.commands.conftest import Run
from tests.daemon.support import eventually

TEXT = "The museum opens at ten and closes at five."
FRAME = 1920
"""Samples of a frame: audio comes in whole ones."""
NAMES = ("argument", "file", "piped")
WORDS = "A cold wind blew in from the sea and the old man fed the birds in the park.".split()


@pytest.fixture
def say(hearsay: Run, tts_directory: Path) -> Run:
    """``hearsay say …`` with the speaking model of the tests."""

    def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return hearsay("say", *arguments, "--tts-model", tts_directory, **options)

    return run


def facts(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What ``--json`` printed."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def same(one: npt.NDArray[np.int16], other: npt.NDArray[np.int16]) -> bool:
    """Whether samples are the same; the last bit may differ, since the codec's calls may be cut differently."""
    return len(one) == len(other) and int(np.abs(one.astype(int) - other).max()) <= 1


def silences(played: npt.NDArray[np.int16], expected: npt.NDArray[np.int16]) -> int:
    """How often ``played`` is silent between two frames of ``expected``; every frame must be there, in order."""
    found = at = 0
    for start in range(0, len(expected), FRAME):
        frame = expected[start : start + FRAME]
        if not same(played[at : at + FRAME], frame):
            quiet = np.flatnonzero(np.append(played[at:], 1))[0]
            at = next(p for p in range(at, at + quiet + 1) if same(played[p : p + FRAME], frame))
            found += 1
        at += FRAME
    assert not played[at:].any()
    return found


def test_a_text_becomes_a_file(say: Run, tmp_path: Path):
    """Whole frames of sound; the JSON object tells what the file holds; nothing is printed without it."""
    path = tmp_path / "a.wav"
    found = facts(say(TEXT, "-o", path, "--json", "--seed", 7))
    samples, rate = soundfile.read(path, dtype="int16")
    assert rate == found["sample_rate"] == 24000 and len(samples) % 1920 == 0 and samples.any()
    assert found["seconds"] == pytest.approx(len(samples) / rate, abs=1e-3) and found["file"] == str(path)
    assert 0 < found["first_audio"] < found["wall"] and found["seed"] == 7
    quiet = say(TEXT, "-o", tmp_path / "b.wav", "--seed", 7)
    assert quiet.returncode == 0 and quiet.stdout == ""
    assert same(*(soundfile.read(file, dtype="int16")[0] for file in (tmp_path / "b.wav", path)))


def test_a_drawn_seed_is_told_and_gives_the_same_again(say: Run, tmp_path: Path):
    """Without a seed each run draws its own; tests/codec/test_codes.py hears that another seed is another speech."""
    drawn = [facts(say(TEXT, "-o", tmp_path / f"{i}.wav", "--json")) for i in range(2)]
    again = facts(say(TEXT, "-o", tmp_path / "again.wav", "--json", "--seed", drawn[0]["seed"]))
    assert drawn[0]["seed"] != drawn[1]["seed"] and again["seed"] == drawn[0]["seed"]
    assert same(*(soundfile.read(tmp_path / name, dtype="int16")[0] for name in ("again.wav", "0.wav")))


def test_the_suffix_says_the_format(say: Run, tmp_path: Path):
    """Each is what it claims to be and as long as the WAV."""
    expected = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG", ".opus": "OGG", ".mp3": "MP3"}
    for suffix, kind in expected.items():
        path = tmp_path / f"a{suffix}"
        seconds = facts(say("At ten.", "-o", path, "--json", "--seed", 3))["seconds"]
        found = soundfile.info(path)
        assert found.format == kind
        assert found.duration == pytest.approx(seconds, abs=0.11), suffix  # lossy codecs pad


def test_speed_shortens(say: Run, tmp_path: Path):
    """Twice as fast, half as long."""
    slow = facts(say(TEXT, "-o", tmp_path / "a.wav", "--json", "--seed", 3))
    fast = facts(say(TEXT, "-o", tmp_path / "b.wav", "--json", "--seed", 3, "--speed", 2))
    assert fast["seconds"] == pytest.approx(slow["seconds"] / 2, rel=0.1)


def test_pauses_and_the_times_of_words(say: Run, tmp_path: Path):
    """``--pauses`` as in the sessions; the JSON object has each word with its times, in order and inside the file."""
    text = f"{TEXT}\n\n{TEXT}"
    short = facts(say(text, "-o", tmp_path / "a.wav", "--json", "--seed", 3, "--pauses", 0))
    long = facts(say(text, "-o", tmp_path / "b.wav", "--json", "--seed", 3, "--pauses", 3))
    assert short["seconds"] + 1 < long["seconds"]
    assert len(long["words"]) == len(text.split())
    times = [word[key] for word in long["words"] for key in ("start", "end")]
    assert times == sorted(times) and times[-1] <= long["seconds"]
    assert "pauses: 9 lies outside" in say(TEXT, "-o", tmp_path / "c.wav", "--pauses", 9).stderr


def test_a_file_and_standard_input_say_what_the_argument_says(
    say: Run,
    start: Callable[..., subprocess.Popen[str]],
    tts_directory: Path,
    tmp_path: Path,
):
    """However the text arrives: the same samples. Letters of two bytes are cut by the pipe, too."""
    text = TEXT + " Café, naïve, façade: twelve boats. "
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    say(text, "-o", tmp_path / "argument.wav", "--seed", 1)
    say("-f", tmp_path / "text.txt", "-o", tmp_path / "file.wav", "--seed", 1)
    piped = start("say", "-", "-o", tmp_path / "piped.wav", "--seed", 1, "--tts-model", tts_directory, stdin=True)
    assert piped.stdin is not None
    for byte in text.encode():
        os.write(piped.stdin.fileno(), bytes([byte]))
        time.sleep(0.002)
    _, errors = piped.communicate(timeout=300)
    assert piped.returncode == 0, errors
    expected, file, piped_in = (soundfile.read(tmp_path / f"{name}.wav", dtype="int16")[0] for name in NAMES)
    assert same(file, expected) and same(piped_in, expected)


@virtual
def test_words_are_heard_while_they_are_still_being_written(
    sound: dict[str, str],
    start: Callable[..., subprocess.Popen[str]],
    tts_directory: Path,
):
    """No line end in the pipe, and its last word is written only when the loudspeaker has sounded."""
    played = Path(sound["FOLDER"]) / "played.raw"
    process = start(
        "say", "-", "--seed", 1, "--tts-model", tts_directory, "--device", "virtual_sound", "--json",
        stdin=True, ALSA_CONFIG_PATH=sound["ALSA_CONFIG_PATH"],
    )  # fmt: skip
    assert process.stdin is not None
    *before, last = WORDS
    for word in before:
        os.write(process.stdin.fileno(), f"{word} ".encode())
        time.sleep(0.02)
    assert eventually(lambda: played.exists() and played.read_bytes().strip(b"\0") != b"", seconds=120)
    os.write(process.stdin.fileno(), last.encode())
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found = json.loads(out)
    assert 0 < found["before_text_ended"] < found["seconds"]


@virtual
def test_the_loudspeaker_plays_what_the_file_holds(
    sound: dict[str, str], process: Run, say: Run, tts_directory: Path, tmp_path: Path
):
    """Sample by sample, with silence before it, and wherever the machine was late: as often as it says."""
    say(TEXT, "-o", tmp_path / "a.wav", "--seed", 4)
    # PortAudio looks at the devices once a process.
    aloud = ("--tts-model", tts_directory, "--device", "virtual_sound")
    found = facts(process("say", TEXT, "--seed", 4, *aloud, "--json", **_alsa(sound)))
    played = np.fromfile(Path(sound["FOLDER"]) / "played.raw", "<i2")
    expected = soundfile.read(tmp_path / "a.wav", dtype="int16")[0]
    start = np.flatnonzero(played)[0] - np.flatnonzero(expected)[0]
    assert start >= 0.1 * 24000
    assert silences(played[start:], expected) == found["under_runs"] and found["file"] is None


@virtual
def test_aloud_takes_its_time_and_stops_at_once(
    sound: dict[str, str], start: Callable[..., subprocess.Popen[str]], tts_directory: Path, tmp_path: Path
):
    """A text of hours on a device that takes audio at its pace: the voice waits for it, and Ctrl-C does not."""
    (tmp_path / "long.txt").write_text(f"{TEXT} " * 3000)
    process = start(
        "say", "-f", tmp_path / "long.txt", "--tts-model", tts_directory, "--device", "paced_sound", **_alsa(sound)
    )
    played = Path(sound["FOLDER"]) / "paced.raw"
    assert eventually(lambda: played.exists() and played.stat().st_size > 48_000, seconds=120)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors
    assert played.stat().st_size < 48_000 * 180, "hours would have been played"


def test_without_a_device_a_file_is_recommended(say: Run):
    """No such loudspeaker, or no PortAudio at all: one line, before any model is loaded."""
    done = say(TEXT, "--device", "no-such-loudspeaker")
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(r"hearsay: no (loudspeaker|sound).*\(-o FILE\.wav writes a file instead\)\n", done.stderr)


def test_without_a_speaking_model_the_message_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch):
    """The pull that brings one, and how to name another."""
    monkeypatch.setitem(store.DEFAULTS, "tts", "no-such-model")
    with pytest.raises(Failure, match="hearsay models pull qwen3-tts-0.6b brings one.*--tts-model"):
        speaking_model(None)
    with pytest.raises(store.ModelNotFound, match="another"):
        speaking_model("another")


@pytest.mark.parametrize("source", ["a long file", "a pipe that waits"])
def test_ctrl_c_leaves_a_valid_file(
    start: Callable[..., subprocess.Popen[str]], tts_directory: Path, tmp_path: Path, source: str
):
    """In the middle of 130 kB, read as they are spoken, and while text is awaited: at once, with what was said."""
    path, long = tmp_path / "a.wav", tmp_path / "long.txt"
    long.write_text(f"{TEXT} " * 3000)
    what = ["-f", long] if source == "a long file" else ["-"]
    process = start("say", *what, "-o", path, "--tts-model", tts_directory, stdin=True)
    assert process.stdin is not None and process.stderr is not None
    os.write(process.stdin.fileno(), f"{TEXT} ".encode())
    assert eventually(lambda: path.exists() and path.stat().st_size > 20_000, seconds=120)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)  # the text would take longer to say, the pipe would wait for ever
    assert process.returncode == 130 and "Traceback" not in errors, errors
    samples, _ = soundfile.read(path, dtype="int16")
    assert samples.any() and 44 + samples.nbytes == path.stat().st_size


def test_text_without_words_leaves_no_file(say: Run, tmp_path: Path):
    """Nothing, spaces, control characters, marks: one reason, exit code 1."""
    for text in ("", "   ", "\x00\x1b\x07", "…!?"):
        path = tmp_path / "a.wav"
        done = say(text, "-o", path) if "\0" not in text else _through_a_file(say, text, path)
        assert done.returncode == 1 and not path.exists()
        assert done.stderr.startswith("hearsay: nothing was said") and done.stderr.count("\n") == 1, text


@pytest.mark.skipif(os.name != "posix", reason="limits and odd names of POSIX")
def test_a_file_that_cannot_grow_is_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    """As on a full disk: what it is about, and no traceback."""
    line = f"ulimit -f 20; exec {sys.executable} -m commands.main say 'A sentence of some length.' -o {tmp_path}/o.wav"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert f"{tmp_path}/o.wav cannot be written to its end" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="limits and odd names of POSIX")
def test_a_name_that_is_no_text_is_written_and_heard(say: Run, hearsay: Run, talking_url: str, tmp_path: Path) -> None:
    """Bytes that are no UTF-8: in the file's name, in what is printed, on the way to a daemon."""
    odd = tmp_path / os.fsdecode(b"o\xff.wav")
    assert say("The tide comes in.", "-o", odd).returncode == 0
    for options in ([], ["--url", talking_url]):
        done = hearsay("transcribe", "--json", odd, *options)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["file"] == str(odd)


def test_what_cannot_be_read_or_written_is_one_line(say: Run, tmp_path: Path):
    """Not UTF-8, no such file, no such directory, no model."""
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait. " * 5)
    out = tmp_path / "a.wav"
    for arguments, code, message in (
        (["-f", tmp_path / "latin.txt", "-o", out], 1, "latin.txt is not UTF-8 text.*at byte 3"),
        (["-f", tmp_path / "none.txt", "-o", out], 1, "none.txt cannot be read"),
        ([TEXT, "-o", tmp_path / "none" / "a.wav"], 1, "there is no directory"),
        ([TEXT, "-o", tmp_path / "a.xyz"], 2, "suffix.*\\.wav"),
        ([TEXT, "-o", out, "--voice", "nobody"], 2, "voice: .*'nobody'"),
        ([TEXT, "-o", out, "--speed", "9"], 2, "speed: 9"),
        ([TEXT, "-o", out, "--seed", "-1"], 2, "seed: -1"),
        ([TEXT, "-o", out, "--language", "tlh"], 2, "language: "),
        (["-o", out], 2, "say what"),
        ([TEXT, "-f", tmp_path / "latin.txt"], 2, "say what"),
        ([TEXT, "-o", out, "--url", "http://127.0.0.1:9", "--threads", "1"], 2, "--threads"),
    ):
        done = say(*arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert done.stdout == "" and re.search(message, done.stderr), (arguments, done.stderr)
        assert "Traceback" not in done.stderr


def _alsa(sound: dict[str, str]) -> dict[str, str]:
    return {"ALSA_CONFIG_PATH": sound["ALSA_CONFIG_PATH"]}


def _through_a_file(say: Run, text: str, path: Path) -> subprocess.CompletedProcess[str]:
    file = path.with_suffix(".txt")
    file.write_text(text)
    return say("-f", file, "-o", path)


def test_a_dry_run_prints_the_words_as_they_would_be_read(say: Run, tmp_path: Path) -> None:
    """A piece a line, from any source, without a loudspeaker; what has no sound is named on stderr."""
    (tmp_path / "a.txt").write_text("The BBC has 42 chefs. 你 are here.", encoding="utf-8")
    words = "The BBC has forty two chefs.\nare here.\n"
    for source in (("-f", tmp_path / "a.txt"), ((tmp_path / "a.txt").read_text(encoding="utf-8"),)):
        done = say(*source, "--dry-run")
        assert (done.returncode, done.stdout) == (0, words)
        assert "there are no sounds for 你: they are left out" in done.stderr
    done = say("你", "--dry-run")
    assert done.returncode == 1 and "holds nothing that can be spoken" in done.stderr
    at = {"words": "At five kilometers.", "sounds": "æt fˈIv kəlˈɑmˌʌTəɹz.", "pause": 0.0}
    assert facts(say("At 5 km.", "--dry-run", "--json")) == {"pieces": [at], "unread": ""}
    text = "One after another. Two at a time.\n\nThree of them follow. <break time='2s'/> Five."
    pieces = facts(say(text, "--dry-run", "--json", "--pauses", "2"))["pieces"]
    assert [piece["pause"] for piece in pieces] == [0.9, 1.6, 2.0, 0.0]
    for option, value in (("--voice", "nobody"), ("--speed", "9"), ("--pauses", "5")):
        done = say("Hello.", "--dry-run", option, value)
        assert done.returncode == 2 and option.removeprefix("--") in done.stderr
    for option, value, told in (("--pauses", "5", "pauses: 5 lies outside 0…4"), ("--speed", "9", "0.25…4")):
        done = say("Hello.", "--url", "http://127.0.0.1:1", option, value)
        assert done.returncode == 2 and told in done.stderr


def test_a_dry_run_shows_sounds_and_ones_own_pronunciations(hearsay: Run, tts_directory: Path, tmp_path: Path) -> None:
    """Of a model that reads sounds; a bad line is one line on stderr; a daemon has its own."""
    model, own = sounding(tts_directory, tmp_path / "sounding"), tmp_path / "words.txt"
    own.write_text("choir KOY-er\n")
    dry = ("say", "The choir.", "--dry-run", "--tts-model", model, "--lexicon", own)
    assert facts(hearsay(*dry, "--json"))["pieces"] == [{"words": "The choir.", "sounds": "ðə kˈYəɹ.", "pause": 0.0}]
    own.write_text("choir KOY-er\nchef sh5f\n")
    done = hearsay(*dry)
    assert done.returncode == 2 and "line 2, 'chef': '5' is no letter of a respelling" in done.stderr
    done = hearsay(*dry, "--url", "http://127.0.0.1:1")
    assert done.returncode == 2 and "hearsay serve --lexicon" in done.stderr
