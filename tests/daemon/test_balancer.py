"""Several daemons behind nginx, by the configuration that is handed out; and systemd's opinion of the unit."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket as sockets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from clients.events import Results
from clients.options import StreamOptions
from clients.resume import Reconnected
from clients.stream import listen
from commands.samples import sample
from tests.daemon.process import Process, ask, process
from tests.daemon.support import HTTP, PATIENT, Client, Speech, Voice, eventually, finals, free_port, send

ROOT = Path(__file__).parents[2]
WHOLE = """
daemon off; {user} pid {folder}/pid; error_log stderr crit; worker_processes 2;
events {{}}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    {configuration}
}}
"""

nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx (apt install nginx-light)")


@contextmanager
def balancer(folder: Path, replicas: list[str]) -> Iterator[str]:
    """The URL of nginx in front of daemons."""
    port = free_port()
    text = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    servers = "".join(f"server {url.removeprefix('http://')} max_fails=0;\n" for url in replicas)
    text, found = re.subn(r"(?:^ +server .*\n)+", servers, text, count=1, flags=re.MULTILINE)
    text, listens = re.subn(r"listen 8750;", f"listen 127.0.0.1:{port};", text)
    assert (found, listens) == (1, 1)
    user = "user root;" if os.geteuid() == 0 else ""  # who may write into the tests' folder
    whole = WHOLE.format(folder=folder, configuration=text, user=user)
    (folder / "whole.conf").write_text(whole, encoding="utf-8")
    running = subprocess.Popen(["nginx", "-c", folder / "whole.conf", "-p", folder], stderr=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{port}"
    try:
        assert eventually(lambda: ask(url, "/healthz") > 0 or running.poll() is not None), "nginx does not start"
        yield url
    finally:
        running.terminate()
        _, told = running.communicate(timeout=60)
        assert told == ""


@contextmanager
def replicated(folder: Path, count: int = 2, **settings: str) -> Iterator[tuple[str, list[Process]]]:
    """A URL and the daemons behind it."""
    with ExitStack() as stack:
        daemons = [stack.enter_context(process(**settings)) for _ in range(count)]
        yield stack.enter_context(balancer(folder, [daemon.url() for daemon in daemons])), daemons


@nginx
def test_one_address_takes_so_many_connections_and_no_more(tmp_path: Path) -> None:
    """429, as the daemon says it; others have their answer meanwhile."""
    with replicated(tmp_path, 1) as (url, _), ExitStack() as held:
        host, port = url.removeprefix("http://").split(":")

        def another() -> int:
            raw = held.enter_context(sockets.create_connection((host, int(port))))
            raw.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
            return ask(url, "/healthz")

        # nginx can still count requests by which the test found it ready, and refuses one in place of each.
        assert eventually(lambda: another() == 429)
        with sockets.create_connection((host, int(port)), source_address=("127.0.0.2", 0)) as other:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(12) == b"HTTP/1.1 200"
        held.close()
        assert eventually(lambda: ask(url, "/healthz") == 200)


@nginx
def test_every_door_is_open(tmp_path: Path, speech: Speech) -> None:
    """What a daemon says through it is what it says, and pages of its own address may call."""
    with replicated(tmp_path, tts_model="auto") as (url, daemons):
        alone = finals(Client(daemons[0].url()).transcribe(speech.pcm))
        assert finals(Client(url).transcribe(speech.pcm)) == alone != ""
        sound, messages = Voice(url).speak("Good evening.")
        assert len(sound) > 24_000 and messages
        for path in ("/v2/listen?model=flux-general-en&encoding=linear16&sample_rate=16000", "/v1/realtime"):
            with connect(url.replace("http", "ws", 1) + path, origin=url, proxy=None, **PATIENT) as socket:
                assert json.loads(socket.recv(60))["type"] in ("Connected", "session.created")
        form = {"stream": "true"}
        large = sample("demo").path.read_bytes()  # nginx keeps it on disk, for a second replica
        answer = HTTP.post(f"{url}/v1/audio/transcriptions", files={"file": large}, data=form)
        assert answer.headers["content-type"].startswith("text/event-stream") and "transcript.text.done" in answer.text
        assert (
            HTTP.post(f"{url}/v1/audio/speech", json={"input": "Good evening."}).headers["content-type"] == "audio/mpeg"
        )
        with pytest.raises(InvalidStatus) as error:
            connect(url.replace("http", "ws", 1) + "/v1/listen", origin="https://example.org", proxy=None, **PATIENT)
        assert error.value.response.status_code == 403


@nginx
def test_a_full_replica_is_passed_over(tmp_path: Path, speech: Speech) -> None:
    """Nobody is refused while one has a place; then 429 arrives as the daemon said it."""
    with replicated(tmp_path, sessions="1") as (url, _), ExitStack() as open_ones:
        client = Client(url)
        sockets = [open_ones.enter_context(client.open()) for _ in range(2)]
        for _ in range(2):
            with pytest.raises(InvalidStatus) as error, client.open():
                pass
            assert error.value.response.status_code == 429
            assert error.value.response.headers["retry-after"] == "5"
        files = {"file": speech.path.read_bytes()}
        assert HTTP.post(f"{url}/v1/audio/transcriptions", files=files).status_code == 429
        send(sockets[1], speech.pcm)
        sockets[1].send('{"type": "CloseStream"}')
        assert finals([json.loads(message) for message in sockets[1]]) != ""
        assert HTTP.post(f"{url}/v1/audio/transcriptions", files=files).status_code == 200


@nginx
def test_a_replica_drains_behind_it(tmp_path: Path, speech: Speech) -> None:
    """Whoever is there finishes, whoever comes is served elsewhere; without any replica it is 503."""
    with replicated(tmp_path, drain_seconds="600") as (url, daemons):
        client = Client(url)
        # Without endpointing no silence is assumed where a client sends nothing for a while.
        with client.open(endpointing="false") as one, client.open(endpointing="false") as other:
            half = len(speech.pcm) // 4 * 2
            for socket in (one, other):
                send(socket, speech.pcm[:half])
            daemons[0].process.send_signal(signal.SIGTERM)
            assert eventually(lambda: ask(daemons[0].url(), "/readyz") == 503)
            for _ in range(3):
                assert finals(client.transcribe(speech.pcm)) != ""
            for socket in (one, other):
                send(socket, speech.pcm[half:])
                socket.send('{"type": "CloseStream"}')
                said = finals([json.loads(message) for message in socket])
                assert said == finals(client.transcribe(speech.pcm, endpointing="false"))
        assert daemons[0].wait() == 0
        daemons[1].process.send_signal(signal.SIGTERM)
        assert daemons[1].wait() == 0
        answer = HTTP.get(f"{url}/v1/models")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


@nginx
@pytest.mark.anyio
async def test_a_killed_replica_loses_no_word(tmp_path: Path, speech: Speech) -> None:
    """Its sessions go on at the other one, at once."""
    with replicated(tmp_path) as (url, daemons):
        # Without endpointing no silence is assumed while a session goes over to the other one.
        expected = finals(Client(url).transcribe(speech.pcm, endpointing="false"))

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(speech.pcm), 3200):
                if start >= len(speech.pcm) // 2:
                    daemons[0].process.kill()
                yield speech.pcm[start : start + 3200]
                await asyncio.sleep(0.05)

        async def heard() -> tuple[str, bool]:
            options = StreamOptions(sample_rate=16_000, endpointing=False)
            events = [event async for event in listen(url, pieces(), options)]
            texts = [event.text for event in events if isinstance(event, Results) and event.is_final and event.text]
            return " ".join(texts), any(isinstance(event, Reconnected) for event in events)

        told = await asyncio.gather(*(heard() for _ in range(4)))
        assert [text for text, _ in told] == [expected] * 4 != [""] * 4
        assert {resumed for _, resumed in told} == {True, False}, "they stood at both"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Every line is known, and what it leaves open is little."""
    text = (ROOT / "deploy" / "hearsay@.service").read_text(encoding="utf-8")
    unit = tmp_path / "hearsay@8750.service"
    assert "\nLoadCredential=hearsay.toml:/etc/hearsay.toml\n" in text  # the service's own user reads no file of root's
    assert "--config ${CREDENTIALS_DIRECTORY}/hearsay.toml " in text
    unit.write_text(text.replace("/opt/hearsay/bin/hearsay", "/bin/true"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
