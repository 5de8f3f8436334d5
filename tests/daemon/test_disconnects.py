"""Clients that vanish: nothing of theirs is left, and the others hear what they would hear alone."""

import json
import random
import socket as sockets
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

from daemon.serve import Background
from tests.daemon.support import RATE, Client, Counts, Speech, eventually, finals

Start = Callable[..., AbstractContextManager[Background]]

DISCONNECTS = 300


def vanish(url: str, pcm: bytes, how: random.Random) -> None:
    """Open a stream, send some audio, and go without a word: mostly with a reset, at times half way into a frame."""
    while not vanished(url, pcm, how):  # those who went before may hold all places for a moment
        time.sleep(0.05)


def vanished(url: str, pcm: bytes, how: random.Random) -> bool:
    """Whether there was a place to vanish from."""
    host, port = url.removeprefix("http://").split(":")
    with sockets.create_connection((host, int(port)), timeout=30) as raw:
        query = f"encoding=linear16&sample_rate={RATE}&interim_results=true"
        raw.sendall(
            f"GET /v1/listen?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        if how.random() < 0.1:  # not even waiting for the answer
            return True
        answer = raw.recv(4096)
        if b" 429 " in answer:
            return False
        assert b" 101 " in answer, answer
        start = how.randrange(0, len(pcm) // 2, 2)
        audio = pcm[start : start + how.randrange(2, len(pcm) // 2)]
        frame = struct.pack("!BBQ4x", 0x82, 0x80 | 127, len(audio)) + audio  # masked with zeros
        if how.random() < 0.2:
            frame = frame[: how.randrange(1, len(frame))]
        raw.sendall(frame)
        time.sleep(how.random() * 0.1)
        if how.random() < 0.7:
            raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
        return True


def workers() -> set[threading.Thread]:
    """Threads of the pools of all daemons in this process."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("hearsay-worker")}


def abrupt_disconnects(
    background: Background, speech: Speech, count: Callable[[Background], Counts], many: int
) -> None:
    """``many`` clients vanish, eight at a time, beside one that stays."""
    client, others = Client(background.url), workers()
    alone = finals(client.transcribe(speech.pcm, interim_results=True))
    assert eventually(lambda: background.hub.taken == 0)
    before = count(background)
    stop = threading.Event()
    heard: list[str] = []

    def stay() -> None:
        with client.open() as socket:
            for start in range(0, len(speech.pcm), 3200):
                socket.send(speech.pcm[start : start + 3200])
                stop.wait(0.05)
            stop.wait()
            socket.send('{"type": "CloseStream"}')
            heard.append(finals(json.loads(message) for message in socket))

    staying = threading.Thread(target=stay)
    staying.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: vanish(background.url, speech.pcm, random.Random(i)), range(many)))
    finally:
        stop.set()
        staying.join(120)
    assert heard == [alone]
    settings = background.hub.settings
    assert len(workers() - others) <= 2 * (settings.sessions + settings.speakers) + 1
    clean = eventually(lambda: count(background) <= before)
    assert clean, (before, count(background))


def test_hundreds_of_abrupt_disconnects(start: Start, speech: Speech, count: Callable[[Background], Counts]) -> None:
    with start() as background:
        abrupt_disconnects(background, speech, count, DISCONNECTS)
        registry = background.hub.metrics.registry
        opened = registry.get_sample_value("hearsay_sessions_opened_total", {"path": "/v1/listen"})
        assert opened is not None and opened > DISCONNECTS * 0.8
