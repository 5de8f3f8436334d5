"""The daemon as a process: its address, its signals, its exit status."""

import io
import json
import os
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
from tests.daemon.support import HTTP, LONGEST, RATE, Client, Counts, Speech, eventually, finals, send
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
            assert running.wait() == 0
        assert [line for line in running.lines if not line.startswith("hearsay ")] == []


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


def test_at_the_drain_deadline_answers_end() -> None:
    """One that has not begun is 503, one that has breaks off; neither is a fault."""
    with process(drain_seconds="1", max_text_characters="65536", tts_model="auto") as running, ExitStack() as stack:
        host, port = running.url().removeprefix("http://").split(":")
        body = json.dumps({"input": " ".join([LONGEST] * 10), "response_format": "pcm"})
        asks = {"/v1/audio/speech": (len(body), body), "/v1/audio/transcriptions": (1000, "--X\r\n")}
        raws: list[socket.socket] = []
        for path, (length, part) in asks.items():
            raw = stack.enter_context(socket.create_connection((host, int(port)), 60))
            kind = "Content-Type: multipart/form-data; boundary=X"
            raw.sendall(f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n".encode())
            raw.sendall(part.encode())
            raws.append(raw)
        said = raws[0].recv(12)
        began = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        answer = b""
        while chunk := raws[1].recv(4096):
            answer += chunk
        assert answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 5" in answer
        with suppress(ConnectionError):
            while chunk := raws[0].recv(65_536):
                said = (said + chunk)[-5:]
        assert said[-5:] != b"0\r\n\r\n", "the last chunk never comes"
        assert running.wait() == 0
        assert time.monotonic() - began < 60
        assert "Traceback" not in "".join(running.lines)


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
            assert eventually(lambda: HTTP.get(background.url + "/readyz").status_code == 200)
            socket.send('{"type": "CloseStream"}')
            assert finals(json.loads(message) for message in socket)
