"""Replicas by the real Ray Serve: make cluster-check."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from clients.events import Results
from clients.options import StreamOptions
from clients.resume import Reconnected
from clients.stream import listen
from tests.clips import Clip
from tests.daemon.support import HTTP, PATIENT, Client, Speech, Voice, eventually, finals, free_port, send

ROOT = Path(__file__).parents[2]
TITLE = "ray::ServeReplica:hearsay"


@pytest.fixture(scope="module")
def speech(clips: list[Clip]) -> Speech:
    """A short recording in which the model hears words."""
    return Speech.among(clips)


class Cluster:
    """``hearsay cluster`` as a process."""

    def __init__(self, *arguments: str, **settings: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HEARSAY_")}
        chosen = {f"HEARSAY_{name.upper()}": value for name, value in {"port": str(self.port), **settings}.items()}
        command = [sys.executable, "-m", "hearsay", "cluster", "--cpus", "0.1", *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, env=kept | chosen, stderr=subprocess.PIPE, text=True)

    def status(self) -> dict[str, Any]:
        """What /readyz says; nothing where nobody answers."""
        with suppress(Exception):
            found: dict[str, Any] = HTTP.get(f"{self.url}/readyz").json()
            return found
        return {}

    def ready(self, replicas: int) -> bool:
        """Whether so many replicas take work, within minutes."""
        return eventually(lambda: self.status().get("replicas") == replicas, 180)

    def replicas(self) -> list[psutil.Process]:
        """The processes of its replicas."""
        found = list[psutil.Process]()
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.cmdline()[:1] and process.cmdline()[0].startswith(TITLE):
                    found += [process] * (process.environ().get("HEARSAY_PORT") == str(self.port))
        return found


@contextmanager
def cluster(*arguments: str, replicas: int, **settings: str) -> Iterator[Cluster]:
    """A cluster that ends with the block."""
    running = Cluster(*arguments, **settings)
    try:
        assert running.ready(replicas), running.process.poll()
        yield running
    finally:
        with suppress(ProcessLookupError):
            running.process.send_signal(signal.SIGTERM)
        try:
            running.process.communicate(timeout=120)
        finally:
            running.process.kill()
    assert eventually(lambda: not running.replicas())


def test_it_is_one_daemon_to_its_clients(speech: Speech) -> None:
    """Every door, the gate, the limits; and a replica that is killed loses no word."""
    with cluster("--replicas", "2", replicas=2, api_key="abcdefgh", max_frame_bytes="65536") as running:
        client, options = Client(running.url), {"additional_headers": {"Authorization": "Bearer abcdefgh"}}
        expected = finals(client.transcribe(speech.pcm, options=options))
        assert expected != ""
        sound, _ = Voice(running.url).speak("Good evening.", options=options)
        assert len(sound) > 24_000
        for path in ("/v2/listen?model=flux-general-en&encoding=linear16&sample_rate=16000", "/v1/realtime"):
            with connect(running.url.replace("http", "ws", 1) + path, proxy=None, **PATIENT, **options) as socket:
                assert json.loads(socket.recv(60))["type"] in ("Connected", "session.created")
        for more, status in (({}, 401), ({**options, "origin": "https://example.org"}, 403)):
            with pytest.raises(InvalidStatus) as error, client.open(options=more):
                pass
            assert error.value.response.status_code == status
        with client.open(options=options) as socket:
            socket.send(bytes(65538))
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    socket.recv(timeout=60)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        assert HTTP.get(f"{running.url}/metrics").status_code == 401

        def ready() -> dict[str, float]:
            text = HTTP.get(f"{running.url}/metrics", headers={"Authorization": "Bearer abcdefgh"}).text
            samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
            return {s.labels["replica"]: s.value for s in samples if s.name == "hearsay_ready"}

        # What a replica knows of another is up to two seconds old.
        assert eventually(lambda: list(ready().values()) == [1, 1], 10), ready()

        told = asyncio.run(_heard_while_one_dies(running, speech))
        assert [text for text, _ in told] == [expected] * 2
        assert any(resumed for _, resumed in told)
        time.sleep(11)  # till the dead one's report is old
        assert running.ready(2), "Ray started another"


async def _heard_while_one_dies(running: Cluster, speech: Speech) -> list[tuple[str, bool]]:
    """What two sessions heard, and whether they went on elsewhere."""
    killed = False

    def used(process: psutil.Process) -> float:
        return sum(process.cpu_times()[:2])

    before = {process: used(process) for process in running.replicas()}

    def kill() -> None:
        """The replica that hears most: two may have begun at the same moment, so nothing else tells them apart."""
        max(before, key=lambda process: used(process) - before[process]).kill()

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal killed
        for start in range(0, len(speech.pcm), 3200):
            if start >= len(speech.pcm) // 2 and not killed:
                killed = True
                await asyncio.to_thread(kill)
            yield speech.pcm[start : start + 3200]
            await asyncio.sleep(0.05)

    async def heard() -> tuple[str, bool]:
        stream = listen(running.url, pieces(), StreamOptions(sample_rate=16_000), key="abcdefgh", attempts=60)
        events = [event async for event in stream]
        texts = [event.text for event in events if isinstance(event, Results) and event.is_final and event.text]
        return " ".join(texts), any(isinstance(event, Reconnected) for event in events)

    return await asyncio.gather(heard(), heard())


def test_it_grows_and_shrinks_and_drains(speech: Speech) -> None:
    """More replicas where places are taken, fewer when they are free; one that is stopped hears its session to the end
    of what arrived, and sends it away."""
    arguments = ("--replicas", "1", "--max-replicas", "2", "--downscale-seconds", "1")
    with cluster(*arguments, replicas=1, sessions="1", drain_seconds="5", idle_seconds="600") as running:
        client = Client(running.url)
        expected = finals(client.transcribe(speech.pcm))
        with ExitStack() as open_ones:
            sockets = [open_ones.enter_context(client.open())]
            assert running.ready(2), "its only place is taken"
            assert eventually(lambda: _opens(open_ones, client, sockets))
            for socket in sockets:
                send(socket, speech.pcm)
                socket.send('{"type": "CloseStream"}')
            for socket in sockets:
                assert finals(json.loads(message) for message in socket) == expected
        assert running.ready(1)
        with client.open() as socket:
            send(socket, speech.pcm)
            running.process.send_signal(signal.SIGTERM)  # replicas are stopped as one is that is not needed
            messages = list[dict[str, Any]]()
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    messages.append(json.loads(socket.recv(timeout=120)))
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        assert finals(messages) == expected


def _opens(stack: ExitStack, client: Client, sockets: list[ClientConnection]) -> bool:
    """Whether there is a place; a proxy hears of a new replica a little later than we do."""
    try:
        sockets.append(stack.enter_context(client.open()))
    except InvalidStatus as error:
        assert error.response.status_code == 429
        return False
    return True
