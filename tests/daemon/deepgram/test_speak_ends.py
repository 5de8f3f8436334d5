"""Clients that vanish or do not read while they are spoken to: nothing of theirs is left, and nobody else notices."""

import gc
import json
import os
import random
import socket as sockets
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import astuple, dataclass

import pytest
from websockets.exceptions import InvalidStatus

from codec.model import TtsModel
from daemon.serve import Background
from tests.daemon.support import LONGEST, SHORT, Voice, eventually, taken, tell

Start = Callable[..., AbstractContextManager[Background]]

DISCONNECTS = 120


@dataclass(frozen=True, slots=True)
class Left:
    """What a session must not leave behind."""

    threads: int
    descriptors: int
    speakers: int
    sequences: int
    places: int

    @classmethod
    def of(cls, model: TtsModel, background: Background) -> "Left":
        """What is in use now."""
        gc.collect()
        return cls(
            threads=sum(not thread.name.startswith("hearsay-worker") for thread in threading.enumerate()),
            descriptors=len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
            speakers=model.live,
            sequences=model.taken,
            places=background.hub.taken,
        )

    def __le__(self, other: "Left") -> bool:
        """Nothing more than in ``other``."""
        return all(mine <= theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True))


def masked(text: str) -> bytes:
    """A WebSocket text frame, masked with zeros."""
    payload = text.encode()
    return struct.pack("!BBH4x", 0x81, 0x80 | 126, len(payload)) + payload


def raw_socket(url: str, receive_buffer: int | None = None) -> sockets.socket:
    """A TCP connection to the daemon."""
    host, port = url.removeprefix("http://").split(":")
    raw = sockets.socket()
    if receive_buffer is not None:
        raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, receive_buffer)
    raw.connect((host, int(port)))
    raw.settimeout(1)
    return raw


UPGRADE = (
    b"GET /v1/speak?encoding=float32&sample_rate=48000 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def vanish(url: str, how: random.Random) -> None:
    """Ask for a long speech by one of the two ways, and go at any byte of the request or of the answer."""
    body = json.dumps({"input": LONGEST[:4000], "response_format": how.choice(["mp3", "opus", "flac", "wav", "aac"])})
    post = f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    speak = masked(json.dumps({"type": "Speak", "text": LONGEST}))
    for _ in range(how.randrange(3)):
        speak += masked('{"type": "Clear"}' + " " * 120) + masked(json.dumps({"type": "Speak", "text": LONGEST}))
    # What is half an upgrade with more behind it is refused, and the connection reset.
    with raw_socket(url) as raw, suppress(ConnectionResetError, BrokenPipeError):
        request = post
        if how.random() < 0.5:
            raw.sendall(UPGRADE[: how.randrange(1, len(UPGRADE))] if how.random() < 0.1 else UPGRADE)
            request = speak
            if how.random() < 0.9 and b" 101 " not in raw.recv(4096):
                return
        if how.random() < 0.3:
            raw.sendall(request[: how.randrange(1, len(request))])
        else:
            raw.sendall(request)
            wanted = how.randrange(0, 60_000)
            while wanted > 0 and (data := raw.recv(min(wanted, 4096))):
                wanted -= len(data)
        if how.random() < 0.6:
            raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))


def leave(url: str, how: random.Random) -> None:
    """Vanish, at the latest after a second: of some answers nothing comes for longer."""
    with suppress(TimeoutError):
        vanish(url, how)


def abrupt_ends(background: Background, model: TtsModel, many: int) -> None:
    """``many`` clients vanish, six at a time, beside a voice that says the same as alone."""
    voice = Voice(background.url)
    alone, _ = voice.speak(SHORT)
    assert eventually(lambda: background.hub.taken == 0)
    before = Left.of(model, background)
    stop, heard = threading.Event(), list[bytes]()

    def stay() -> None:
        while not stop.is_set() or len(heard) < 2:
            try:
                heard.append(voice.speak(SHORT)[0])
            except InvalidStatus as refused:  # who has just vanished may hold a place for a moment
                assert refused.response.status_code == 429

    staying = threading.Thread(target=stay)
    staying.start()
    try:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda i: leave(background.url, random.Random(i)), range(many)))
    finally:
        stop.set()
        staying.join(120)
    assert len(heard) > 1 and set(map(len, heard)) == {len(alone)}
    clean = eventually(lambda: Left.of(model, background) <= before)
    assert clean, (before, Left.of(model, background))


def test_vanishing_at_any_byte_leaves_nothing(talk: Start, tts_model: TtsModel) -> None:
    with talk(speakers=8) as background:
        abrupt_ends(background, tts_model, DISCONNECTS)


def test_a_client_that_leaves_ends_the_work_at_once(talk: Start, tts_model: TtsModel) -> None:
    """Of ten long texts next to nothing is made, though nobody waits for a client to play."""
    with talk() as background:
        before = tts_model.work.frames
        Voice(background.url).speak(SHORT)
        whole = 10 * 100 * (tts_model.work.frames - before)
        before = tts_model.work.frames
        for _ in range(10):
            with Voice(background.url).open() as socket:
                tell(socket, "Speak", text=LONGEST)
                while not isinstance(socket.recv(120), bytes):
                    pass
            assert eventually(lambda: tts_model.taken == 0)
        assert tts_model.work.frames - before < whole / 10


@pytest.mark.parametrize("way", ["socket", "post"])
def test_a_client_that_never_reads_holds_the_model_back_and_is_cut_off(
    talk: Start, tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """No more is made than fits the buffers on the way; after ``send_timeout_seconds`` the place is free."""
    monkeypatch.setattr("daemon.connection._ABORT_SECONDS", 0.5)
    monkeypatch.setattr("daemon.duplex._CLOSE_SECONDS", 0.5)
    with talk(send_timeout_seconds=1, max_text_characters=65_536) as background:
        voice = Voice(background.url)
        wanted, _ = voice.speak(SHORT)
        before = tts_model.work.frames
        with raw_socket(background.url, 4096) as raw:
            raw.settimeout(60)
            if way == "socket":
                raw.sendall(UPGRADE)
                assert raw.recv(12) == b"HTTP/1.1 101"
                raw.sendall(masked(json.dumps({"type": "Speak", "text": " ".join([LONGEST] * 10)})))
            else:
                body = json.dumps({"input": " ".join([LONGEST] * 10), "response_format": "wav"})
                head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                raw.sendall((head + body).encode())
            assert eventually(lambda: background.hub.taken == 1)
            assert len(voice.speak(SHORT)[0]) == len(wanted), "the others do not notice"
            assert eventually(lambda: background.hub.taken == 0)
            made = tts_model.work.frames - before
            assert made < 4_000, "a whole speech would be ten times that"
            if way == "socket":
                closes = background.hub.metrics.registry.get_sample_value("hearsay_closes_total", {"code": "1013"})
                assert closes == 1
        assert eventually(lambda: tts_model.taken == 0)


def test_a_client_that_reads_slowly_hears_everything(talk: Start) -> None:
    """Slower than its audio plays and much slower than it is made, with a bound that holds a second of it."""
    text = " ".join([SHORT] * 4)
    with talk(max_outbound_bytes=50_000) as background:
        voice = Voice(background.url)
        wanted, _ = voice.speak(text)
        with voice.open(options={"max_queue": 1}) as socket:
            tell(socket, "Speak", text=text)
            tell(socket, "Close")

            def slowly() -> Iterator[str | bytes]:
                for message in socket:
                    time.sleep(0.02)
                    yield message

            audio, _ = taken(slowly())
            assert socket.close_code == 1000
        assert len(audio) == len(wanted)
