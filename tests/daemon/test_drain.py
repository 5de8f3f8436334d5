"""How a daemon ends: what it does with the work it has when a signal comes."""

import io
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.daemon.process import ask, process
from tests.daemon.support import HTTP, LONGEST, RATE, SHORT, Client, Speech, eventually, finals, send


def test_sigterm_in_mid_sentence_lets_live_sessions_finish(speech: Speech) -> None:
    """New work is refused, the sentence is heard to its end, then the process ends with 0."""
    with process(drain_seconds="600") as running:
        url = running.url()
        client = Client(url)
        # Without endpointing no silence is assumed where a client sends nothing for a while.
        expected = finals(client.transcribe(speech.pcm, endpointing="false"))
        half = len(speech.pcm) // 4 * 2
        with client.open(endpointing="false") as socket:
            send(socket, speech.pcm[:half])
            running.process.send_signal(signal.SIGTERM)
            assert eventually(lambda: ask(url, "/readyz") == 503)
            assert ask(url, "/healthz") == 200
            with pytest.raises(InvalidStatus) as error, client.open():
                pass
            assert error.value.response.status_code == 503
            assert error.value.response.headers["retry-after"] == "5"
            time.sleep(0.5)
            send(socket, speech.pcm[half:])
            socket.send('{"type": "CloseStream"}')
            messages = [json.loads(message) for message in socket]
            assert socket.close_code == 1000
        assert finals(messages) == expected != ""
        assert running.wait() == 0
        others = [line for line in running.lines if not line.startswith("hearsay ")]
        assert others == []


def test_at_the_drain_deadline_sessions_are_finalised_and_sent_away(speech: Speech) -> None:
    with process(drain_seconds="1") as running:
        client = Client(running.url())
        expected = finals(client.transcribe(speech.pcm))
        with client.open() as socket:
            send(socket, speech.pcm)
            assert socket.ping().wait(60), "all of it has arrived"
            began = time.monotonic()
            running.process.send_signal(signal.SIGTERM)
            messages: list[dict[str, Any]] = []
            with pytest.raises(ConnectionClosed) as error:
                while True:
                    messages.append(json.loads(socket.recv(timeout=60)))
            assert 0.9 < time.monotonic() - began < 60
            assert error.value.rcvd is not None
            assert (error.value.rcvd.code, error.value.rcvd.reason) == (1012, "the daemon is shutting down")
        assert messages[-1]["type"] == "Metadata"
        assert finals(messages) == expected
        assert running.wait() == 0


def test_what_the_deadline_cuts_is_not_told_as_an_end_of_speech(speech: Speech) -> None:
    """Unlike the same cut by the client, which has no more to say."""
    cut = speech.pcm[: len(speech.pcm) // 4 * 2]
    with process(drain_seconds="0") as running:
        client = Client(running.url())
        closed = client.transcribe(cut, endpointing="false")
        with client.open(endpointing="false") as socket:
            send(socket, cut)
            assert socket.ping().wait(60), "all of it has arrived"
            running.process.send_signal(signal.SIGTERM)
            drained: list[dict[str, Any]] = []
            with pytest.raises(ConnectionClosed):
                while True:
                    drained.append(json.loads(socket.recv(timeout=60)))
        assert finals(drained) == finals(closed) != ""
        for messages, ended in ((closed, True), (drained, False)):
            assert [one["speech_final"] for one in messages if one.get("is_final")][-1] is ended
        assert running.wait() == 0


def test_who_reads_nothing_does_not_hold_the_end_up() -> None:
    """Neither what is being sent at the deadline nor what is sent after it waits for ``send_timeout_seconds``."""
    settings = {"drain_seconds": "1", "tts_model": "auto", "send_timeout_seconds": "600"}
    with process(**settings) as running, ExitStack() as stack:
        url = running.url()
        host, port = url.removeprefix("http://").split(":")
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        upgrade += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        body = json.dumps({"input": LONGEST, "response_format": "pcm"})
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        for asks, status in (
            (f"GET /v1/speak?sample_rate=48000 HTTP/1.1\r\nHost: {host}\r\n{upgrade}\r\n", b"HTTP/1.1 101"),
            (f"POST /v1/audio/speech HTTP/1.1\r\nHost: {host}\r\n{length}\r\n{body}", b"HTTP/1.1 200"),
        ):
            raw = stack.enter_context(socket.socket())
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect((host, int(port)))
            raw.sendall(asks.encode())
            assert raw.recv(12) == status
            if status == b"HTTP/1.1 101":
                for message in ({"type": "Speak", "text": LONGEST}, {"type": "Flush"}):
                    text = json.dumps(message).encode()
                    raw.sendall(struct.pack("!BBH4x", 0x81, 0x80 | 126, len(text)) + text)  # masked with zeros
        assert eventually(lambda: stands(url)), "nothing more is taken"
        began = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        running.wait()
        assert time.monotonic() - began < 200, "however busy the machine is"


def stands(url: str) -> bool:
    """Whether voices have begun and been held back for a second."""

    def spoken() -> list[str]:
        return re.findall(r"^hearsay_spoken_seconds_total.* ([\d.e+]+)$", HTTP.get(url + "/metrics").text, re.M)

    before = spoken()
    time.sleep(1)
    return len(before) == 2 and all(float(seconds) > 0 for seconds in before) and spoken() == before


IMPORTING = """
import runpy, sys, time
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            print("importing", flush=True)
            time.sleep(120)
sys.meta_path.insert(0, Finder())
sys.argv[1:] = ["serve", "--port", "0"]
runpy.run_module("hearsay", run_name="__main__", alter_sys=True)
"""
"""``python -m hearsay serve``, whose import of a large library takes as long as it needs to."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_imports_its_libraries_ends_it_in_good_order(number: signal.Signals) -> None:
    """It has no session yet."""
    with subprocess.Popen(
        [sys.executable, "-c", IMPORTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stdout.readline() == "importing\n"
        running.send_signal(number)
        told = running.communicate(timeout=60)
        assert (*told, running.returncode) == ("", "", 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the limits of another process are set")
def test_too_few_files_are_told_in_a_line() -> None:
    """Clients that come are not taken for a while, and the log stays short."""
    import resource

    with process() as running:
        host, port = running.url().removeprefix("http://").split(":")
        pid = running.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        open_now = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now + 1, before[1]))
        with ExitStack() as held:
            for _ in range(20):
                held.enter_context(socket.create_connection((host, int(port))))
            time.sleep(2)  # asyncio tries again each second
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert eventually(lambda: ask(f"http://{host}:{port}", "/healthz") == 200)
        running.process.terminate()
        assert running.wait() == 0
        log = [line for line in running.lines if not line.startswith("hearsay ")]
        assert len(log) == 1 and "no connection can be taken for now: Too many open files" in log[0], log[:9]


def test_a_second_signal_ends_at_once(speech: Speech) -> None:
    with process(drain_seconds="600") as running:
        client = Client(running.url())
        with client.open() as socket:
            send(socket, speech.pcm)
            running.process.send_signal(signal.SIGINT)
            assert eventually(
                lambda: any("1 sessions for 600 s; a second signal ends them" in line for line in running.lines)
            )
            running.process.send_signal(signal.SIGINT)
            assert running.wait() == 1, "a session is lost"
        assert [line for line in running.lines if not line.startswith("hearsay ")] == []
        assert running.lines[-1] == "hearsay ends at once; 1 sessions are lost"


def test_an_idle_daemon_ends_with_the_first_signal() -> None:
    with process(drain_seconds="600") as running:
        running.url()
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0


WAITING = """
import pathlib, time
from streaming.listener import Listener
inner = Listener.step
def step(self):
    while not pathlib.Path({path!r}).exists():
        time.sleep(0.01)
    return inner(self)
Listener.step = step
"""
"""A model whose calls wait for a file."""


def test_sigterm_lets_an_upload_finish(speech: Speech, tmp_path: Path) -> None:
    """The signal comes while it is heard, however fast that goes."""
    goes_on = tmp_path / "goes on"
    with process(WAITING.format(path=str(goes_on)), drain_seconds="600") as running:
        url = running.url()
        audio = np.frombuffer(speech.pcm * int(90 / speech.seconds), "<i2")
        file = io.BytesIO()
        soundfile.write(file, audio, RATE, format="WAV", subtype="PCM_16")
        answers: list[httpx.Response] = []

        def upload() -> None:
            files = {"file": ("speech.wav", file.getvalue())}
            answers.append(HTTP.post(url + "/v1/audio/transcriptions", files=files, timeout=300))

        uploading = threading.Thread(target=upload)
        uploading.start()
        busy = 'hearsay_sessions{path="/v1/audio/transcriptions"} 1.0'
        assert eventually(lambda: busy in HTTP.get(url + "/metrics", timeout=60).text)
        running.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: ask(url, "/readyz") == 503)
        goes_on.touch()
        uploading.join(300)
        assert answers[0].status_code == 200
        assert answers[0].json()["usage"]["seconds"] == pytest.approx(len(audio) / RATE, abs=0.01)
        assert running.wait() == 0


def test_at_the_drain_deadline_what_has_arrived_is_answered() -> None:
    """An upload that is not here yet is 503, a text is spoken to its end."""
    with process(drain_seconds="0.5", tts_model="auto") as running, ExitStack() as stack:
        host, port = running.url().removeprefix("http://").split(":")
        body = json.dumps({"input": " ".join([SHORT] * 12), "response_format": "pcm"})
        asks = {"/v1/audio/speech": (len(body), body), "/v1/audio/transcriptions": (1000, "--X\r\n")}
        raws: list[socket.socket] = []
        for path, (length, part) in asks.items():
            raw = stack.enter_context(socket.create_connection((host, int(port)), 60))
            kind = "Content-Type: multipart/form-data; boundary=X"
            raw.sendall(f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n".encode())
            raw.sendall(part.encode())
            raws.append(raw)
        said = raws[0].recv(12)
        running.process.send_signal(signal.SIGTERM)
        while chunk := raws[0].recv(65_536):  # first: who does not read for some seconds is not waited for
            said = (said + chunk)[-5:]
        assert said[-5:] == b"0\r\n\r\n", "the last chunk"
        answer = b""
        while chunk := raws[1].recv(4096):
            answer += chunk
        assert answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 5" in answer
        assert running.wait() == 0
        assert "Traceback" not in "".join(running.lines)


def test_at_the_drain_deadline_all_that_arrived_is_heard(speech: Speech) -> None:
    """However long that takes: the deadline passes while many seconds of audio of several sessions wait."""
    with process(drain_seconds="0", sessions="5") as running, ExitStack() as stack:
        client = Client(running.url())
        expected = finals(client.transcribe(4 * speech.pcm))
        sockets = [stack.enter_context(client.open()) for _ in range(5)]
        for socket_ in sockets:
            send(socket_, 4 * speech.pcm)
        for socket_ in sockets:
            assert socket_.ping().wait(60), "all of it has arrived"
        running.process.send_signal(signal.SIGTERM)
        for socket_ in sockets:
            messages: list[dict[str, Any]] = []
            with pytest.raises(ConnectionClosed) as error:
                while True:
                    messages.append(json.loads(socket_.recv(timeout=120)))
            assert error.value.rcvd is not None and error.value.rcvd.code == 1012
            assert finals(messages) == expected
            assert messages[-1]["type"] == "Metadata"
            assert messages[-1]["duration"] == pytest.approx(4 * speech.seconds, abs=0.01)
        assert running.wait() == 0


HANG = """
import threading
from streaming.listener import Listener
def hang(self):
    threading.Event().wait()
    yield
Listener._do = hang
"""
"""A model whose calls never come back."""


def test_what_must_be_cut_is_named(speech: Speech) -> None:
    """Nothing moves: the stream is told what is lost, the log too, and the status is not 0."""
    hurry = "import daemon.serve; daemon.serve._CUT_SECONDS = 3.0"
    with process(f"{HANG}\n{hurry}", drain_seconds="0", stall_seconds="1") as running:
        with Client(running.url()).open() as socket:
            send(socket, speech.pcm)
            assert socket.ping().wait(60)
            running.process.send_signal(signal.SIGTERM)
            messages: list[dict[str, Any]] = []
            with pytest.raises(ConnectionClosed) as error:
                while True:
                    messages.append(json.loads(socket.recv(timeout=60)))
        assert error.value.rcvd is not None and error.value.rcvd.code == 1012
        told = [message for message in messages if message["type"] == "Error"]
        assert len(told) == 1 and told[0]["variant"] == "Cut"
        lost = f"lost: what was said from 0.00 s to {speech.seconds:.2f} s of the audio"
        assert told[0]["description"] == f"the daemon is shutting down; {lost}"
        assert messages[-1]["type"] == "Metadata"
        assert running.wait() == 1
        assert any("cut, lost: " in line for line in running.lines), running.lines
        assert "Traceback" not in "".join(running.lines)
