"""The microphone and the loudspeaker: through PortAudio and a virtual device where there is PortAudio, and without."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from clients.microphone import SoundError, missing, portaudio
from tests.clients.conftest import virtual


@pytest.mark.parametrize(
    ("platform", "remedy"),
    [("linux", "apt install libportaudio2"), ("darwin", "brew install portaudio"), ("win32", "Reinstall sounddevice")],
)
def test_without_portaudio_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, platform: str, remedy: str
):
    """The message names the system's package."""
    monkeypatch.setitem(sys.modules, "sounddevice", None)  # what Python itself does for a module that cannot be had
    monkeypatch.setattr("sys.platform", platform)
    with pytest.raises(SoundError, match=remedy) as caught:
        portaudio()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("device", [None, "desk"])
@pytest.mark.parametrize("said", ["Error querying device -1", "No input device matching 'desk'"])
def test_without_a_microphone_the_next_step_is_told(device: str | None, said: str):
    """What lists those that are there, and what needs none; of a loudspeaker the command tells its own."""
    told = str(missing("microphone", device, ValueError(said)))
    assert told.startswith("no microphone") and ("was found" in told) == (device is None and "-1" in said)
    assert "; hearsay doctor lists them; of a recording hearsay demo --file FILE shows live captions, " in told
    assert told.endswith(", hearsay transcribe FILE the text")
    assert "hearsay" not in str(missing("loudspeaker", device, ValueError(said)))


def speak(path: Path, audio: bytes, stop: threading.Event) -> None:
    """Write ``audio``, then silence, into the FIFO at the pace of a 16 kHz microphone."""
    with path.open("r+b", buffering=0) as fifo:
        os.set_blocking(fifo.fileno(), False)
        start, position = time.monotonic(), 0
        while not stop.is_set():
            piece = audio[position : position + 1600].ljust(1600, b"\0")
            if fifo.write(piece) is None:  # full: nobody reads yet
                time.sleep(0.01)
                continue
            position += 1600
            time.sleep(max(0.0, start + position / 32000 - time.monotonic()))


@virtual
def test_what_the_microphone_records_arrives_bit_for_bit(sound: dict[str, str]):
    """PortAudio records the virtual device; the pieces joined are what was written into it."""
    audio = bytes((i * 7 + i // 251) % 256 for i in range(48000))
    code = (
        "import asyncio, sys\n"
        "from clients.microphone import Microphone, devices\n"
        "async def main():\n"
        "    async with Microphone('virtual_sound') as microphone:\n"
        "        print('open', file=sys.stderr, flush=True)\n"
        "        got = b''\n"
        "        async for piece in microphone:\n"
        "            got += piece\n"
        "            if len(got) >= 48000: break\n"
        "        assert microphone.sample_rate == 16000 and microphone.dropped == 0, microphone.dropped\n"
        "    sys.stdout.buffer.write(got[:48000])\n"
        "assert 'virtual_sound' in [device.name for device in devices()]\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], env=sound, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        stop = threading.Event()
        voice = threading.Thread(target=speak, args=(Path(sound["FOLDER"]) / "recorded.raw", audio, stop))
        voice.start()
        try:
            got, errors = process.communicate(timeout=240)
        finally:
            process.kill()
            stop.set()
            voice.join()
    assert process.returncode == 0, errors.decode()
    assert got == audio


@virtual
def test_captions_of_the_microphone_are_those_of_the_file(
    sound: dict[str, str], url: str, speech: bytes, offline: list[str]
):
    """`hearsay captions` on the virtual microphone prints the finals that the same samples give at once."""
    seconds = len(speech) / 32000
    command = [sys.executable, "-m", "commands.main", "captions", "--url", url, "--device", "virtual_sound"]
    command += ["--seconds", f"{seconds:.6f}"]
    with subprocess.Popen(command, env=sound, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        stop = threading.Event()
        voice = threading.Thread(target=speak, args=(Path(sound["FOLDER"]) / "recorded.raw", speech, stop))
        voice.start()
        try:
            out, errors = process.communicate(timeout=240)
        finally:
            process.kill()
            stop.set()
            voice.join()
    assert process.returncode == 0, errors.decode()
    lines = out.decode().splitlines()
    assert [line.partition(" = ")[2] for line in lines if " = " in line] == offline


@virtual
def test_ctrl_c_ends_captions_after_the_last_words(sound: dict[str, str], url: str, speech: bytes, offline: list[str]):
    """Pressed in the middle of the second utterance: what was said so far becomes final, exit code 0."""
    command = [sys.executable, "-m", "commands.main", "captions", "--url", url, "--device", "virtual_sound"]
    with subprocess.Popen(command, env=sound, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        stop = threading.Event()
        voice = threading.Thread(target=speak, args=(Path(sound["FOLDER"]) / "recorded.raw", speech * 20, stop))
        voice.start()
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            while not (any(" = " in line for line in lines) and " ~ " in lines[-1]):
                lines.append(process.stdout.readline())
                assert lines[-1], "captions ended early"
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=240)
        finally:
            process.kill()
            stop.set()
            voice.join()
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    finals = [line.partition(" = ")[2] for line in (*lines, *out.splitlines(keepends=True)) if " = " in line]
    assert finals[0].strip() == offline[0] and len(finals) > 1
    assert " = " in (out.splitlines() or [""])[-1]


@virtual
def test_what_the_loudspeaker_plays_arrives_bit_for_bit(sound: dict[str, str]):
    """PortAudio plays to the virtual device; the file it writes holds every sample, in order."""
    audio = bytes((i * 11 + i // 241) % 256 for i in range(64000))
    code = (
        "import asyncio, sys\n"
        "from clients.playback import Loudspeaker\n"
        "async def main():\n"
        "    audio = sys.stdin.buffer.read()\n"
        "    async with Loudspeaker(16000) as loudspeaker:\n"
        "        for offset in range(0, len(audio), 1600):\n"
        "            await loudspeaker.write(audio[offset : offset + 1600])\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=sound, input=audio, capture_output=True, timeout=240
    )
    assert done.returncode == 0, done.stderr.decode()
    played = (Path(sound["FOLDER"]) / "played.raw").read_bytes()
    assert audio in played
    assert not played.replace(audio, b"").strip(b"\0")


def test_nothing_else_needs_a_sound_library():
    """Importing the clients and every verb leaves sounddevice alone."""
    code = "import sys, clients.stream, clients.captions, clients.microphone, clients.playback, commands.main\n"
    code += "assert 'sounddevice' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


def test_pieces_that_nobody_takes_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch):
    """The queue is bounded: the oldest goes, the newest stays, the count tells."""
    from clients import microphone

    monkeypatch.setattr(microphone, "MAX_WAITING", 3)
    one = microphone.Microphone.__new__(microphone.Microphone)
    one.dropped = 0
    one._pieces = asyncio.Queue(3)
    for number in range(5):
        one._take(bytes([number]), lost=False)
    one._take(b"\x05", lost=True)
    assert [one._pieces.get_nowait() for _ in range(3)] == [b"\x03", b"\x04", b"\x05"]
    assert one.dropped == 4
