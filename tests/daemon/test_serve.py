"""The daemon as a process: its address, its log, its limits, its certificate."""

import json
import select
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from daemon.config import Settings
from daemon.loading import Models
from daemon.serve import Background
from engines.store import ModelNotFound
from tests.daemon.process import ask, process
from tests.daemon.support import HTTP, Client, Counts, Speech, eventually, finals, send
from tests.lanes import held

TLS = Path(__file__).parent / "tls"


def test_a_taken_port_is_one_line_and_status_1(daemon: Background) -> None:
    port = daemon.url.rsplit(":", 1)[1]
    with process(port=port) as running:
        assert running.wait() == 1
        assert len(running.lines) == 1 and f"cannot listen on 127.0.0.1:{port}" in running.lines[0]


def test_what_is_loaded_is_not_looked_through_for_garbage() -> None:
    """Small messages of a hundred thousand values make Python do that several times."""
    told = (
        "import daemon.serve, gc; daemon.serve._tell = lambda line: print(line, gc.get_freeze_count(), file=sys.stderr)"
    )
    with process(before=f"import sys; {told}") as running:
        running.url()
        assert int(running.lines[-1].split()[-1]) > 10_000


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
    certificate, key = TLS / "certificate.pem", TLS / "key.pem"
    settings = Settings(port=0, tls_certificate=str(certificate), tls_key=str(key))
    with Background(settings, lambda _: models, owns_models=False) as background:
        assert background.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=certificate)
        assert httpx.get(background.url + "/readyz", verify=trusting, timeout=60).status_code == 200


@pytest.mark.parametrize(("silent", "patience", "end"), [(40, 600.0, 20), (20, 0.5, 20)])
def test_connections_count_before_they_shake_hands(
    models: Models, monkeypatch: pytest.MonkeyPatch, silent: int, patience: float, end: int
) -> None:
    """Those that never do are bounded, one too many is reset at once; and they are given up, the others answered."""
    certificate, key = TLS / "certificate.pem", TLS / "key.pem"
    settings = Settings(port=0, tls_certificate=str(certificate), tls_key=str(key), max_connections=20)
    trusting = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr("daemon.tls.HANDSHAKE_SECONDS", patience)
    with Background(settings, lambda _: models, owns_models=False) as background:
        host, port = background.url.removeprefix("https://").split(":")
        with ExitStack() as stack:
            ones = [stack.enter_context(socket.create_connection((host, int(port)), 60)) for _ in range(silent)]
            assert eventually(lambda: len(select.select(ones, [], [], 0)[0]) >= end)
            assert len(select.select(ones, [], [], 0)[0]) == end
        monkeypatch.setattr("daemon.tls.HANDSHAKE_SECONDS", 600.0)

        def answered() -> bool:
            with suppress(httpx.TransportError):  # those that went may still count
                return httpx.get(background.url + "/healthz", verify=trusting, timeout=60).status_code == 200
            return False

        assert eventually(answered)


@pytest.mark.skipif(sys.platform == "win32", reason="nobody stops a process there")
def test_a_daemon_that_was_stopped_goes_on(speech: Speech) -> None:
    """A laptop sleeps and wakes: the stream is heard to its end, as if nothing had been. It sleeps longer than an
    answer to a ping may take, and that is longer than a machine keeps the client from giving one."""
    with process(ping_interval_seconds="1", ping_timeout_seconds="5") as running:
        client = Client(running.url())
        expected = finals(client.transcribe(speech.pcm))
        half = len(speech.pcm) // 4 * 2
        with client.open() as socket:
            send(socket, speech.pcm[:half])
            running.process.send_signal(signal.SIGSTOP)
            send(socket, speech.pcm[half:])
            time.sleep(6.5)
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
