"""Recordings to text: the contract of --json, and the same words as live."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
import pytest
import soundfile
from websockets.asyncio.client import connect

from audio.recording import samples
from clients.stream import Stream
from commands import transcribe
from commands.console import Failure
from commands.interrupts import Interrupts, Progress
from tests.clients.conftest import Daemon, pcm
from tests.clips import DATA, RATE, Clip, dialogue
from tests.commands.conftest import Run
from tests.daemon.support import HTTP, PATIENT, Speech, damaged
from tests.golden_models import aligner


def objects(output: str) -> list[dict[str, Any]]:
    """The JSON objects of --json, one a line."""
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="module")
def short(clips: list[Clip]) -> list[Clip]:
    """A few short clips of different corpora."""
    chosen: dict[str, Clip] = {}
    for clip in clips:
        if 1.5 < clip.seconds < 7:
            chosen.setdefault(clip.corpus, clip)
    return list(chosen.values())[:4]


def test_json_is_as_promised(hearsay: Run, short: list[Clip]):
    """One object a line and file, in the order given, every field in range, words within the file."""
    files = [DATA / "clips" / clip.name for clip in short]
    done = hearsay("transcribe", "--json", *files)
    assert done.returncode == 0, done.stderr
    found = objects(done.stdout)
    assert [entry["file"] for entry in found] == [str(file) for file in files]
    for entry, clip in zip(found, short, strict=True):
        assert entry.keys() == {"file", "text", "language", "duration", "words", "segments"}
        assert entry["duration"] == pytest.approx(clip.seconds, abs=0.002)
        assert entry["text"] == " ".join(segment["text"] for segment in entry["segments"])
        assert entry["text"].split() == [part for word in entry["words"] for part in word["word"].split()]
        assert entry["language"] == ("en" if entry["text"] else None)
        times = [time for word in entry["words"] for time in (word["start"], word["end"])]
        assert times == sorted(times) and all(0 <= time <= entry["duration"] + 0.01 for time in times)
        assert all(0 <= word["confidence"] <= 1 for word in entry["words"])
        assert all(0 <= s["start"] < s["end"] <= entry["duration"] + 0.01 and s["text"] for s in entry["segments"])
    assert any(entry["words"] for entry in found)


def test_the_words_are_those_of_a_live_session(hearsay: Run, url: str, short: list[Clip], tmp_path: Path):
    """/v1/listen with default parameters, in ragged chunks, gives the words of the file; through a daemon too."""

    async def live(clip: Clip) -> str:
        audio, texts = pcm(clip.samples), list[str]()
        address = url.replace("http", "ws") + "/v1/listen?encoding=linear16&sample_rate=16000"
        async with connect(address, max_size=None, **PATIENT) as socket:
            sizes = np.random.default_rng(len(audio)).integers(1, 9000, 1000)
            position = 0
            for size in sizes:
                await socket.send(audio[position : position + int(size)])
                position += int(size)
                if position >= len(audio):
                    break
            assert position >= len(audio)
            await socket.send('{"type":"CloseStream"}')
            async for message in socket:
                event = json.loads(message)
                if event["type"] == "Results" and event["is_final"]:
                    texts.append(event["channel"]["alternatives"][0]["transcript"])
        return " ".join(text for text in texts if text)

    files = [tmp_path / f"{number}.wav" for number in range(len(short))]
    for file, clip in zip(files, short, strict=True):
        soundfile.write(file, np.frombuffer(pcm(clip.samples), "<i2"), 16000)
    here = objects(hearsay("transcribe", "--json", *files).stdout)
    assert [entry["text"] for entry in here] == [asyncio.run(live(clip)) for clip in short]
    there = objects(hearsay("transcribe", "--json", "--url", url, *files).stdout)
    assert there == here


def test_a_bad_file_is_a_line_on_stderr_and_the_rest_goes_on(hearsay: Run, short: list[Clip], tmp_path: Path):
    """Exit code 1 at the end; the good files' lines are all there."""
    good = DATA / "clips" / short[0].name
    text = tmp_path / "notes.wav"
    text.write_text("no audio")
    done = hearsay("transcribe", "--json", tmp_path / "none.wav", good, text, good)
    assert done.returncode == 1
    assert [entry["file"] for entry in objects(done.stdout)] == [str(good), str(good)]
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and "none.wav: there is no such file" in lines[0] and "notes.wav: it is no audio" in lines[1]


def test_what_a_daemon_warns_of_is_told_as_here(hearsay: Run, url: str, short: list[Clip], tmp_path: Path):
    """A line for each damage, the same through a daemon; and that another model than the one asked for heard it."""
    file = tmp_path / "speech.mp3"
    file.write_bytes(damaged(Speech.among(short)))
    here, there = hearsay("transcribe", file), hearsay("transcribe", "--url", url, file)
    assert here.stderr == there.stderr and here.stdout == there.stdout
    assert here.stderr.startswith(f"hearsay: {file}: 1 damaged packets of the audio were left out")
    other = hearsay("transcribe", "--url", url, "--model", "qwen3-asr-0.6b", file)
    assert other.returncode == 0
    assert other.stderr == f"hearsay: {file}: model: 'qwen3-asr-0.6b' is pocket-asr-en here\n{here.stderr}"


def test_a_full_daemon_is_waited_for(
    hearsay: Run, daemon: Daemon, start: Callable[..., Popen[str]], short: list[Clip], monkeypatch: pytest.MonkeyPatch
):
    """A line tells so, once; Ctrl-C ends it at once. One that stays full is an error with what to do."""
    file = DATA / "clips" / short[0].name
    with daemon(sessions=1) as background:
        command = ["transcribe", "--url", background.url, file]
        with Stream(background.url):
            interrupted, patient = start(*command), start(*command)
            for process in (interrupted, patient):
                assert process.stderr is not None
                told = process.stderr.readline()
                assert told.startswith(f"hearsay: {file}: the daemon refused with HTTP 429: all 1 sessions are taken")
                assert told.endswith("; waiting for room, 600 s at most\n")
            began = time.monotonic()
            interrupted.send_signal(signal.SIGINT)
            assert interrupted.wait(60) == 130 and time.monotonic() - began < 4  # It would ask again after 5.
            monkeypatch.setattr("commands.transcribe.MOST_WAITED", 4.0)
            full = hearsay(*command, file)
            assert full.returncode == 1 and "waiting" not in full.stderr and full.stderr.count("\n") == 2
            assert full.stderr.endswith(
                "(the daemon's setting sessions); try again later, or transcribe it here, without --url\n"
            )
        output, errors = patient.communicate(timeout=120)
        assert (patient.returncode, errors) == (0, "") and output == hearsay("transcribe", file).stdout


def test_who_does_not_say_for_how_long_is_not_waited_for(hearsay: Run, short: list[Clip]):
    """A proxy before a daemon that is away."""

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_error(503)

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.handle_request).start()
        done = hearsay("transcribe", "--url", f"127.0.0.1:{server.server_port}", DATA / "clips" / short[0].name)
    assert done.returncode == 1 and "HTTP 503" in done.stderr
    assert done.stderr.endswith("; try again later, or transcribe it here, without --url\n")


def test_a_folder_is_told_how_its_files_are_named(hearsay: Run, tmp_path: Path):
    """What it is, and what to write instead."""
    done = hearsay("transcribe", tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"hearsay: {tmp_path}: it is a directory; name its files: {tmp_path}/*\n"


def test_through_a_daemon_a_bad_file_is_told_too(hearsay: Run, url: str, short: list[Clip]):
    """The daemon's reason on stderr, the other file's text on stdout."""
    done = hearsay("transcribe", "--url", url, DATA / "none.wav", DATA / "index.jsonl", DATA / "clips" / short[0].name)
    assert done.returncode == 1
    assert f"{DATA / 'none.wav'}: No such file or directory" in done.stderr.splitlines()[0]
    assert "index.jsonl: the daemon refused with HTTP 400: file:" in done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_a_daemon_that_asks_for_a_key_is_told_how_to_give_it(hearsay: Run, daemon: Daemon):
    """Whatever asks it."""
    with daemon(api_key=("correct-horse",)) as background:
        for arguments in (["transcribe", DATA / "index.jsonl"], ["voices", "list"]):
            done = hearsay(*arguments, "--url", background.url, "--key", "wrong-horse")
            assert done.returncode == 1
            assert done.stderr.endswith("HTTP 401: the key is wrong (--key or HEARSAY_KEY)\n")


def test_what_comes_through_a_pipe_is_heard(
    environment: dict[str, str], hearsay: Run, url: str, short: list[Clip], tmp_path: Path
):
    """Standard input, by its name - or the system's, gives the words of the file, here and through a daemon."""
    file = tmp_path / "speech.wav"
    soundfile.write(file, short[0].samples, 16000)
    text = hearsay("transcribe", file).stdout
    assert text.strip()
    pipe = "/dev/stdin" if os.name == "posix" else "-"
    for name, *options in (["-"], [pipe, "--url", url]):
        command = [sys.executable, "-m", "commands.main", "transcribe", "--json", name, *options]
        done = subprocess.run(command, input=file.read_bytes(), capture_output=True, env=environment, timeout=600)
        assert done.returncode == 0, done.stderr
        (found,) = objects(done.stdout.decode())
        assert found["file"] == name and found["text"] == text.strip()


def test_a_closed_standard_input_is_one_line(environment: dict[str, str]):
    """Which Python makes None of: no traceback."""
    program = "import sys; sys.stdin = None; sys.argv[1:] = ['transcribe', '-']; from commands.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, timeout=600)
    assert (done.returncode, done.stderr.decode()) == (1, "hearsay: -: standard input is closed\n")


def test_plain_text_names_the_file_only_among_several(hearsay: Run, short: list[Clip]):
    """One file: its text alone; several: `file: text`, a line each."""
    files = [DATA / "clips" / clip.name for clip in short[:2]]
    one, two = hearsay("transcribe", files[0]), hearsay("transcribe", *files)
    assert one.stdout.count("\n") == 1 and str(files[0]) not in one.stdout
    assert [line.partition(": ")[0] for line in two.stdout.splitlines()] == [str(file) for file in files]
    assert two.stdout.splitlines()[0] == f"{files[0]}: {one.stdout.strip()}"


def test_the_exact_floor_changes_nothing_where_the_floor_is_fixed(hearsay: Run, short: list[Clip]):
    """--exact-floor says how many words differ; the embedded model's floor depends on no clip, so none does."""
    file = DATA / "clips" / short[0].name
    plain, exact = hearsay("transcribe", file), hearsay("transcribe", "--exact-floor", file)
    assert exact.returncode == 0 and exact.stdout == plain.stdout
    assert f": 0 of {len(plain.stdout.split())} words differ" in exact.stderr


def test_silence_is_no_words(hearsay: Run, tmp_path: Path):
    """Silence, and a file without a single sample: empty text, no language, the right duration."""
    soundfile.write(tmp_path / "silence.wav", np.zeros(48000, np.int16), 16000)
    soundfile.write(tmp_path / "nothing.wav", np.zeros(0, np.int16), 16000)
    done = hearsay("transcribe", "--json", tmp_path / "silence.wav", tmp_path / "nothing.wav")
    assert done.returncode == 0, done.stderr
    for entry, duration in zip(objects(done.stdout), (3.0, 0.0), strict=True):
        assert {**entry, "file": ""} == {
            "file": "", "text": "", "language": None, "duration": duration, "words": [], "segments": []
        }  # fmt: skip


@pytest.mark.parametrize("there", [False, True])
def test_what_takes_a_while_is_told_without_a_terminal(
    hearsay: Run, url: str, monkeypatch: pytest.MonkeyPatch, there: bool
):
    """Once a file."""
    long, daemon = DATA / "recordings" / "lj.opus", ["--url", url] if there else []
    assert hearsay("transcribe", DATA / "clips" / "3b6d9d766003.opus", *daemon).stderr == ""
    monkeypatch.setattr("commands.progress.LATE_SECONDS", 0.02)
    assert hearsay("transcribe", long, *daemon).stderr == f"hearsay: {long}: being heard, which takes a while\n"


def test_a_file_without_speech_is_no_line_of_text(hearsay: Run, tmp_path: Path):
    """A remark tells of it on stderr; with --output its file is there all the same, and empty."""
    silence, texts = tmp_path / "silence.wav", tmp_path / "texts"
    soundfile.write(silence, np.zeros(48000, np.int16), 16000)
    for options in ([silence], [silence, silence], ["--output", texts, silence]):
        done = hearsay("transcribe", *options)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == f"hearsay: {silence}: no speech was heard\n" * options.count(silence)
    assert (texts / "silence.txt").read_bytes() == b""


@pytest.mark.parametrize("there", [False, True])
def test_an_unknown_language_is_said_once(hearsay: Run, url: str, short: list[Clip], there: bool):
    """At the first file, naming the option."""
    files = [DATA / "clips" / clip.name for clip in short]
    done = hearsay("transcribe", "--language", "xx", *files, *(["--url", url] if there else []))
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "language" in done.stderr


def test_each_file_is_flushed_and_interrupting_is_quiet(start: Callable[..., Popen[str]], short: list[Clip]):
    """Whoever reads the pipe gets the first object while the second file is still being heard; Ctrl-C then is exit
    code 130 and no traceback."""
    long = next((DATA / "recordings").iterdir())
    process = start("transcribe", "--json", DATA / "clips" / short[0].name, *[long] * 40)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert json.loads(first)["text"] is not None
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors


class Pressing(io.BytesIO):
    """A file at whose use number ``at`` somebody presses Ctrl-C."""

    def __init__(self, content: bytes, at: int) -> None:
        super().__init__(content)
        self.left = at

    def _use(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGINT)

    def read(self, size: int | None = -1, /) -> bytes:
        """Count down."""
        self._use()
        return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Count down."""
        self._use()
        return super().seek(offset, whence)


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends a process there")
def test_ctrl_c_is_not_lost_while_a_file_is_read() -> None:
    """Whichever use of the file it comes in, a callback of FFmpeg's or not."""
    at = 1

    def hear(file: Path, progress: Progress) -> dict[str, Any]:
        pressing = Pressing(file.read_bytes(), at)
        for _ in samples(pressing, RATE):
            progress(0.0)
        return {"uses left": pressing.left}

    while True:
        try:
            with Interrupts() as interrupts:
                heard = interrupts.heeded(hear)(DATA / "clips" / "5b423ed81f90.opus", lambda _: None)
            break
        except KeyboardInterrupt:
            at += 1
    assert heard["uses left"] > 0, f"lost at use {at}"
    assert at > 5
    with pytest.raises(KeyboardInterrupt):  # The key is what it was.
        os.kill(os.getpid(), signal.SIGINT)


def test_an_aligner_tells_the_word_times(hearsay: Run, short: list[Clip], tmp_path: Path):
    """--aligner: the same words, other times; a directory that holds none is named."""
    file = DATA / "clips" / short[0].name
    plain, aligned = (
        objects(hearsay("transcribe", "--json", file, *option).stdout)[0]
        for option in ((), ("--aligner", aligner(tmp_path)))
    )
    assert [word["word"] for word in plain["words"]] == [word["word"] for word in aligned["words"]]
    assert [word["start"] for word in plain["words"]] != [word["start"] for word in aligned["words"]]
    refused = hearsay("transcribe", file, "--aligner", "pocket-asr-en")
    assert refused.returncode != 0 and "aligns no words" in refused.stderr
    misused = hearsay("transcribe", file, "--aligner", tmp_path, "--url", "http://127.0.0.1:1")
    assert misused.returncode == 2 and "--aligner" in misused.stderr


@pytest.mark.parametrize("format", ["txt", "srt", "vtt", "json"])
def test_each_format_is_what_the_daemon_writes(hearsay: Run, url: str, short: list[Clip], format: str) -> None:
    """In this process and through a daemon, on stdout; the subtitles are the daemon's own, letter for letter."""
    file = DATA / "clips" / max(short, key=lambda clip: clip.seconds).name
    width = ["--width", "20"] if format in ("srt", "vtt") else []
    here = hearsay("transcribe", "--format", format, *width, file)
    there = hearsay("transcribe", "--format", format, *width, "--url", url, file)
    assert here.returncode == there.returncode == 0, here.stderr + there.stderr
    assert here.stdout == there.stdout
    asked = {"response_format": format, "max_line_width": "20"}
    with file.open("rb") as sound:
        answer = HTTP.post(f"{url}/v1/audio/transcriptions", files={"file": sound}, data=asked)
    if format == "json":
        assert json.loads(here.stdout)["text"] == answer.json()["text"]
    else:
        assert here.stdout == answer.text
        assert format == "txt" or max(map(len, here.stdout.splitlines())) <= 30, "20, and 29 of the times"


def test_subtitles_of_several_files_go_into_a_folder(hearsay: Run, short: list[Clip], tmp_path: Path) -> None:
    """One file each; without a folder that is refused with what to do."""
    files = [DATA / "clips" / clip.name for clip in short[:2]]
    refused = hearsay("transcribe", "--format", "srt", *files)
    assert refused.returncode == 2 and "--output DIR" in refused.stderr
    done = hearsay("transcribe", "--format", "srt", "--output", tmp_path / "made", *files)
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == sorted(f"{file.stem}.srt" for file in files)
    assert all(" --> " in path.read_text() for path in (tmp_path / "made").iterdir())


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("format", ["txt", "vtt"])
def test_no_transcript_replaces_another(hearsay: Run, short: list[Clip], tmp_path: Path, format: str, there: bool):
    """Files of one name are refused before anything is heard or made, each named, and the path of both."""
    first, second = tmp_path / "a" / "talk.opus", tmp_path / "b" / "talk.ogg"
    for file in (first, second):
        file.parent.mkdir()
        file.write_bytes((DATA / "clips" / short[0].name).read_bytes())
    place, daemon = tmp_path / "made", ["--url", "http://127.0.0.1:1"] if there else []
    done = hearsay("transcribe", "-o", place, "--format", format, first, second, *daemon)
    assert (done.returncode, done.stdout) == (2, "") and not place.exists()
    assert f"{first} and {second} would both be written to {place / f'talk.{format}'}; name each" in done.stderr


@pytest.mark.parametrize("blind", [False, True])
def test_names_that_differ_in_case_are_apart_where_the_disk_keeps_them_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blind: bool
):
    """The disk is asked, once, and only where that matters; the disk of this test tells them apart."""
    asked, real = list[Path](), transcribe.one_for_both

    def ask(output: Path) -> bool:
        asked.append(output)
        return real(output) or blind

    monkeypatch.setattr(transcribe, "one_for_both", ask)
    output = tmp_path / "made"
    transcribe.check_apart([Path("talk.wav"), Path("tale.wav")], output, transcribe.Format.TXT)
    assert not asked
    files = [Path("caf\u00e9.wav"), Path("other/CAFE\u0301.wav")]
    with pytest.raises(Failure, match=f"{files[0]} and {files[1]} would both be") if blind else nullcontext():
        transcribe.check_apart(files, output, transcribe.Format.TXT)
    assert asked == [output] and not list(tmp_path.iterdir())
    with pytest.raises(Failure, match=r"other/CAFE.* and again/CAFE|caf.* and other/CAFE"):
        transcribe.check_apart([*files, Path("again/CAFE\u0301.wav")], output, transcribe.Format.TXT)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--width", "20"], "--width: only for subtitles; add --format srt or --format vtt"),
        (["--lines", "1", "--width", "20", "--json"], "--width, --lines: only for subtitles"),
        (["--json", "--format", "srt"], "--json and --format srt: one format is written; leave one of them out"),
        (["--url", "http://127.0.0.1:1", "--track", "2"], "hearsay: --track: only for transcribing here"),
        (["--url", "http://127.0.0.1:1", "--device", "cpu", "--threads", "1"], "hearsay: --threads, --device: only"),
    ],
)
def test_options_that_do_not_go_together_are_named(hearsay: Run, options: list[str], says: str):
    """Those that were given, and no others, with what to do."""
    done = hearsay("transcribe", DATA / "none.wav", *options)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1


def test_speakers_are_told_here_and_by_a_daemon(hearsay: Run, url: str, tmp_path: Path):
    """A line a turn as text, a mark in subtitles, a letter on each word of JSON; without the flag none of it."""
    file = tmp_path / "talk.flac"
    soundfile.write(file, dialogue(), RATE)
    told = hearsay("transcribe", "--speakers", file)
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert [line[:3] for line in lines[:2]] == ["A: ", "B: "] and {line[:3] for line in lines} == {"A: ", "B: "}
    [plain] = objects(hearsay("transcribe", "--json", file).stdout)
    assert " ".join(line[3:] for line in lines) == plain["text"] and "speaker" not in plain["words"][0]
    [here] = objects(hearsay("transcribe", "--json", "--speakers", file).stdout)
    [there] = objects(hearsay("transcribe", "--json", "--speakers", "--url", url, file).stdout)
    assert here == there and {word["speaker"] for word in here["words"]} == {"A", "B"}
    assert "<v B>" in hearsay("transcribe", "--format", "vtt", "--speakers", "--url", url, file).stdout
