"""Clients that ask for answers and take it back, as fast as they can, beside one that behaves."""

import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from tests.clips import Clip
from tests.daemon.chat_server import ChatServer
from tests.daemon.process import process
from tests.daemon.support import Client, Speech, send

FINALS = int(os.environ.get("HEARSAY_SOAK_FINALS", "12"))
STORMERS = int(os.environ.get("HEARSAY_SOAK_STORMERS", "4"))
MORE_SECONDS = 0.3
"""How much later a final may come beside the storm."""
_STORM = """
import itertools, json, sys
from websockets.sync.client import connect
create, cancel = (json.dumps({"type": f"response.{kind}"}) for kind in ("create", "cancel"))
spoken = sys.argv[2] == "spoken"
update = json.dumps({"type": "session.update", "session": {"output_modalities": ["audio" if spoken else "text"]}})
with connect(sys.argv[1], proxy=None, max_size=None, ping_timeout=None) as socket:
    socket.send(update)
    done = 0
    for _ in itertools.count():
        for message in (create, cancel):
            socket.send(message)
        while True:
            try:
                done += '"response.done"' in socket.recv(0)
            except TimeoutError:
                break
"""


def seconds(client: Client, pcm: bytes) -> float:
    """How long after the end of the audio its final came."""
    with client.open() as socket:
        send(socket, pcm)
        socket.send('{"type": "Finalize"}')
        began = time.perf_counter()
        while True:
            message = json.loads(socket.recv(60))
            if message["type"] == "Results" and message["from_finalize"]:
                return time.perf_counter() - began


@pytest.mark.parametrize("how", ["written", "spoken"])
def test_a_storm_of_answers_asked_for_and_taken_back_delays_nobody_else(clips: list[Clip], how: str) -> None:
    """The median of finals beside four such clients, and without them in the same run."""
    speech = Speech.among(clips)
    settings = {"sessions": "16", "speakers": "8", "tts_model": "auto"}
    with ChatServer() as chat, process(**settings, llm_url=chat.url) as running, ExitStack() as storm:
        client = Client(running.url())
        seconds(client, speech.pcm)
        alone = [seconds(client, speech.pcm) for _ in range(FINALS)]
        stormers: list[subprocess.Popen[bytes]] = []
        for _ in range(STORMERS):
            command = [sys.executable, "-c", _STORM, client.socket_url + "/v1/realtime", how]
            one = storm.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            storm.callback(one.kill)
            stormers.append(one)
        time.sleep(1.0)
        beside = [seconds(client, speech.pcm) for _ in range(FINALS)]
        assert [one.poll() for one in stormers] == [None] * STORMERS, "the storm was over before its time"
        before, after = statistics.median(alone), statistics.median(beside)
        times = f"{after / before:.2f} times"
        print(f"\n{how}: finals alone {before:.3f} s, beside {STORMERS} clients {after:.3f} s ({times})")
        assert after < before + MORE_SECONDS
