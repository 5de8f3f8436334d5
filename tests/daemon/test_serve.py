"""The daemon as a process: its address, its signals, its exit status."""

import io
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from websockets.exceptions import ConnectionClosed, InvalidStatus

from daemon.config import Settings
from daemon.loading import Models
from daemon.serve import Background
from engines.store import ModelNotFound
from tests.daemon.support import HTTP, LONG, RATE, Client, Counts, Speech, eventually, finals, send
from tests.lanes import held

UNHURRIED = "import engines.load; engines.load.USABLE, engines.load.LATE_SECONDS = 1e9, 0.0"
"""However slow or busy the machine is, it takes the tests' sessions."""
MAIN = "import sys; from daemon.config import load; from daemon.serve import serve; sys.exit(serve(load()))"


class Process:
    """A daemon in a process of its own."""

    def __init__(self, before: str, **settings: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEARSAY_") or k == "HEARSAY_MODELS"}
        environment |= {f"HEARSAY_{name.upper()}": value for name, value in settings.items()}
        # llama_cpp keeps /dev/null open till the end.
        null = "ignore:unclosed file <_io.TextIOWrapper name='/dev/null'"
        command = [sys.executable, "-X", "dev", "-W", "error", "-W", null, "-c", f"{before}\n{UNHURRIED}\n{MAIN}"]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            # Debug mode also tells of slow callbacks; on a busy machine any can be.
            self.lines.extend(line.rstrip() for line in stream if "Executing <" not in line)

    def url(self) -> str:
        """Its address, once it is ready."""
        assert eventually(lambda: any("is ready on" in line for line in self.lines), 120), self.lines
        line = next(line for line in self.lines if "is ready on" in line)
        return line.split(" on ")[1].split(" with ")[0]

    def wait(self, seconds: float = 120) -> int:
        """Its exit status."""
        status = self.process.wait(seconds)
        self._reading.join()
        return status


@contextmanager
def process(before: str = "", **settings: str) -> Iterator[Process]:
    """A daemon that ends with the block at the latest; its process runs ``before`` first."""
    running = Process(before, **{"port": "0", "sessions": "4", "tts_model": "none", **settings})
    try:
        yield running
    finally:
        running.process.kill()
        running.wait()


def ask(url: str, path: str) -> int:
    """The status of a GET; 0 if nobody answers."""
    try:
        return HTTP.get(url + path).status_code
    except httpx.TransportError:
        return 0


def test_sigterm_in_mid_sentence_lets_live_sessions_finish(speech: Speech) -> None:
    """New work is refused, the sentence is heard to its end, then the process ends with 0."""
    with process() as running:
        url = running.url()
        client = Client(url)
        expected = finals(client.transcribe(speech.pcm))
        half = len(speech.pcm) // 4 * 2
        with client.open() as socket:
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


def test_a_second_signal_ends_at_once(speech: Speech) -> None:
    with process(drain_seconds="600") as running:
        client = Client(running.url())
        with client.open() as socket:
            send(socket, speech.pcm)
            running.process.send_signal(signal.SIGINT)
            assert eventually(lambda: any("a second signal ends them" in line for line in running.lines))
            running.process.send_signal(signal.SIGINT)
            assert running.wait() == 1, "a session is lost"
        assert [line for line in running.lines if not line.startswith("hearsay ")] == []
        assert running.lines[-1] == "hearsay ends at once; 1 sessions are lost"


def test_an_idle_daemon_ends_with_the_first_signal() -> None:
    with process(drain_seconds="600") as running:
        running.url()
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0


def test_a_taken_port_and_a_missing_model_are_one_line_and_status_1(daemon: Background) -> None:
    port = daemon.url.rsplit(":", 1)[1]
    with process(port=port) as running:
        assert running.wait() == 1
        assert len(running.lines) == 1 and f"cannot listen on 127.0.0.1:{port}" in running.lines[0]
    with process(asr_model="unheard-of") as running:
        assert running.wait() == 1
        assert [line.split(":")[0] for line in running.lines[1:]] == ["hearsay ends"]
        assert "unheard-of" in running.lines[1]


@pytest.mark.parametrize("in_query", ["true", "false"])
def test_a_key_never_reaches_the_log(in_query: str) -> None:
    """Wherever it stands, and whether the request that brought it is served or refused; debug says what info does."""
    key = "a-key-of-our-own"
    with process(api_key=key, log_level="debug", key_in_query=in_query) as running:
        url = running.url()
        for headers in ({}, {"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            for path in ("/healthz", "/v1/models", "/nothing"):
                for name in ("api_key", "token"):
                    HTTP.get(f"{url}{path}?{name}={key}", headers=headers)
                    HTTP.get(url + path, headers={"Authorization": f"Bearer {key}", **headers})
        client = Client(url)
        for options in ({}, {"origin": "https://evil.example"}):
            for name in ("token", "api_key"):
                query: dict[str, Any] = {name: key}
                with suppress(InvalidStatus), client.open(**query, options=options):
                    pass
            with suppress(InvalidStatus), client.open(options={"subprotocols": ["token", key], **options}):
                pass
            asked = {"Authorization": f"Token {key}"}
            with suppress(InvalidStatus), client.open(options={"additional_headers": asked, **options}):
                pass
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0
        assert sum("/v1/models" in line for line in running.lines) >= 12
        assert [line for line in running.lines if key in line] == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows counts sockets apart from files")
@pytest.mark.parametrize("hard", [4096, 400])
def test_connections_fit_into_the_files_that_may_be_open(hard: int) -> None:
    """A soft limit is raised; within a hard one there are fewer connections, and one too many is reset as ever."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}))"
    with process(limit, max_connections="350") as running, ExitStack() as stack:
        url = running.url()
        host, port = url.removeprefix("http://").split(":")
        for _ in range(300):
            stack.enter_context(socket.create_connection((host, int(port)), 60))
        assert eventually(lambda: ask(url, "/healthz") == (200 if hard == 4096 else 0))
        time.sleep(1)
        others = [line for line in running.lines if not line.startswith("hearsay ")]
        assert others == [] if hard == 4096 else (len(others) == 1 and "max_connections: " in others[0])


def test_background_starts_and_stops_without_a_trace(
    models: Models, speech: Speech, count: Callable[[Background], Counts]
) -> None:
    """Even with sessions open, which are finalised and sent away."""
    background = Background(Settings(port=0), lambda _: models, owns_models=False)
    before = count(background)
    for _ in range(3):
        background = Background(Settings(port=0), lambda _: models, owns_models=False)
        with background:
            client = Client(background.url)
            assert finals(client.transcribe(speech.pcm))
            opened = client.open()
            socket = opened.__enter__()
            socket.send(speech.pcm)
        with pytest.raises(ConnectionClosed) as error:
            while True:
                socket.recv(timeout=60)
        assert error.value.rcvd is not None and error.value.rcvd.code == 1012
        opened.__exit__(None, None, None)
    assert eventually(lambda: count(background) <= before), (before, count(background))


def test_background_raises_what_the_loader_raises(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="not a model directory"):
        with Background(Settings(port=0, asr_model=str(tmp_path))):
            pass


def test_tls(models: Models) -> None:
    """With a certificate made for this test alone."""
    certificate, key = Path(__file__).parent / "tls" / "certificate.pem", Path(__file__).parent / "tls" / "key.pem"
    settings = Settings(port=0, tls_certificate=str(certificate), tls_key=str(key))
    with Background(settings, lambda _: models, owns_models=False) as background:
        assert background.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=certificate)
        assert httpx.get(background.url + "/readyz", verify=trusting).status_code == 200


def test_connections_count_before_they_shake_hands(models: Models) -> None:
    """Those that never do are bounded, and given up; the others are answered."""
    certificate, key = Path(__file__).parent / "tls" / "certificate.pem", Path(__file__).parent / "tls" / "key.pem"
    settings = Settings(port=0, tls_certificate=str(certificate), tls_key=str(key), max_connections=20)
    trusting = ssl.create_default_context(cafile=certificate)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr("daemon.tls.HANDSHAKE_SECONDS", 5.0)
        background = stack.enter_context(Background(settings, lambda _: models, owns_models=False))
        host, port = background.url.removeprefix("https://").split(":")
        silent = [stack.enter_context(socket.create_connection((host, int(port)), 60)) for _ in range(40)]

        def ended() -> int:
            return len(select.select(silent, [], [], 0)[0])

        assert eventually(lambda: ended() >= 20), "one too many is reset at once"
        assert ended() == 20
        assert eventually(lambda: ended() == 40), "the others are given up"
        assert eventually(lambda: httpx.get(background.url + "/healthz", verify=trusting).status_code == 200)


def test_sigterm_lets_an_upload_finish(speech: Speech) -> None:
    with process(drain_seconds="600") as running:
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
        uploading.join(300)
        assert answers[0].status_code == 200
        assert answers[0].json()["usage"]["seconds"] == pytest.approx(len(audio) / RATE, abs=0.01)
        assert running.wait() == 0


def test_at_the_drain_deadline_what_has_arrived_is_answered() -> None:
    """An upload that is not here yet is 503, a text is spoken to its end."""
    with process(drain_seconds="0.5", tts_model="auto") as running, ExitStack() as stack:
        host, port = running.url().removeprefix("http://").split(":")
        body = json.dumps({"input": LONG, "response_format": "pcm"})
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
        answer = b""
        while chunk := raws[1].recv(4096):
            answer += chunk
        assert answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 5" in answer
        while chunk := raws[0].recv(65_536):
            said = (said + chunk)[-5:]
        assert said[-5:] == b"0\r\n\r\n", "the last chunk"
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
def step(self):
    threading.Event().wait()
Listener.step = step
"""
"""A model whose calls never come back."""


def test_what_must_be_cut_is_named(speech: Speech) -> None:
    """Nothing moves: the stream is told what is lost, the log too, and the status is not 0."""
    with process(HANG, drain_seconds="0", stall_seconds="1") as running:
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


@pytest.mark.skipif(sys.platform == "win32", reason="nobody stops a process there")
def test_a_daemon_that_was_stopped_goes_on(speech: Speech) -> None:
    """A laptop sleeps and wakes: the stream is heard to its end, as if nothing had been."""
    with process(ping_interval_seconds="1", ping_timeout_seconds="1") as running:
        client = Client(running.url())
        expected = finals(client.transcribe(speech.pcm))
        half = len(speech.pcm) // 4 * 2
        with client.open() as socket:
            send(socket, speech.pcm[:half])
            running.process.send_signal(signal.SIGSTOP)
            send(socket, speech.pcm[half:])
            time.sleep(2.5)
            running.process.send_signal(signal.SIGCONT)
            socket.send('{"type": "CloseStream"}')
            assert finals(json.loads(message) for message in socket) == expected != ""
            assert socket.close_code == 1000


def test_it_needs_no_home(tmp_path: Path, speech: Speech) -> None:
    """A home that cannot be written, as a service has it: nothing is stored there, nothing is complained about."""
    home = f"import os; os.environ.update(HOME={str(tmp_path / 'none')!r}, XDG_DATA_HOME={str(tmp_path / 'none')!r})"
    with process(home, tts_model="auto") as running:
        assert finals(Client(running.url()).transcribe(speech.pcm))
        assert HTTP.post(running.url() + "/v1/audio/speech", json={"input": "Good day."}).status_code == 200
        assert not (tmp_path / "none").exists()
        assert [line for line in running.lines if not line.startswith("hearsay ")] == []


def test_a_call_that_hangs_is_told(
    start: Callable[..., AbstractContextManager[Background]], models: Models, speech: Speech
) -> None:
    """The lane is held up for real: a stream's call does not come back until it is let go."""
    with start(stall_seconds=1) as background:
        client = Client(background.url)
        with client.open() as socket:
            with held(models.hearing.model.engine.lane):
                send(socket, speech.pcm)
                assert eventually(lambda: HTTP.get(background.url + "/readyz").json() == {"status": "stalled"})
                assert HTTP.get(background.url + "/healthz").status_code == 200
                answer = HTTP.post(
                    background.url + "/v1/audio/transcriptions", files={"file": speech.path.read_bytes()}
                )
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "5"), "as /readyz says"
            assert eventually(lambda: HTTP.get(background.url + "/readyz").status_code == 200)
            socket.send('{"type": "CloseStream"}')
            assert finals(json.loads(message) for message in socket)
