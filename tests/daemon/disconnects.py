"""Clients that vanish, at any byte of what they say, at every door of a daemon."""

import base64
import json
import random
import socket as sockets
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pytest
from websockets.exceptions import InvalidStatus

from daemon.loading import Models
from daemon.serve import Background
from tests.daemon.chat_server import ChatServer
from tests.daemon.support import (
    LONGEST,
    RATE,
    SHORT,
    Client,
    Counts,
    Speech,
    Voice,
    eventually,
    finals,
    free_port,
    running,
)

_AT_ONCE: Final = 8
_STORY: Final = tuple(f"This is sentence number {n} of a very long story. " for n in range(60))


@dataclass(frozen=True, slots=True)
class Door:
    """``said``: all bytes of a client, by chance and linear16 at 16 kHz; ``upgrade``: path and query of a WebSocket
    that is opened before; ``patience``: seconds that it listens before it goes."""

    said: Callable[[random.Random, bytes], bytes]
    upgrade: str = ""
    patience: float = 0.1
    wyoming: bool = False


def frame(payload: bytes | dict[str, Any]) -> bytes:
    """A WebSocket message, binary or JSON text, masked with zeros."""
    data = json.dumps(payload).encode() if isinstance(payload, dict) else payload
    return struct.pack("!BBQ4x", 0x81 if isinstance(payload, dict) else 0x82, 0x80 | 127, len(data)) + data


def upgrade(path: str) -> bytes:
    """The request for a WebSocket."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


def _some(how: random.Random, pcm: bytes) -> bytes:
    start = how.randrange(0, len(pcm) // 2, 2)
    return pcm[start : start + how.randrange(2, len(pcm) // 2)]


def _heard(how: random.Random, pcm: bytes) -> bytes:
    return frame(_some(how, pcm))


def _spoken(stop: str) -> Callable[[random.Random, bytes], bytes]:
    """A long text, mostly interrupted once or twice."""
    speak = frame({"type": "Speak", "text": LONGEST})
    return lambda how, pcm: speak + how.randrange(3) * (frame({"type": stop}) + speak)


def _asked(how: random.Random, pcm: bytes) -> bytes:
    form = how.choice(["mp3", "opus", "flac", "wav", "aac"])
    body = json.dumps({"input": LONGEST[:4000], "response_format": form})
    return f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def _conversed(how: random.Random, pcm: bytes) -> bytes:
    """Audio, or a question that the chat endpoint answers at length."""
    if how.random() < 0.5:
        audio = _some(how, pcm)
        pieces = [base64.b64encode(audio[at : at + 4800]).decode() for at in range(0, len(audio), 4800)]
        return b"".join(frame({"type": "input_audio_buffer.append", "audio": piece}) for piece in pieces)
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What happened?"}]}
    return frame({"type": "conversation.item.create", "item": item}) + frame({"type": "response.create"})


def _event(kind: str, payload: bytes = b"", **data: Any) -> bytes:
    line = {"type": kind, "data": data, **({"payload_length": len(payload)} if payload else {})}
    return json.dumps(line).encode() + b"\n" + payload


def _in_wyoming(how: random.Random, pcm: bytes) -> bytes:
    if how.random() < 0.5:
        return _event("describe") + _event("synthesize", text=LONGEST[:4000])
    form, audio = {"rate": RATE, "width": 2, "channels": 1}, _some(how, pcm)
    pieces = [audio[at : at + 2048] for at in range(0, len(audio), 2048)]
    return _event("audio-start", **form) + b"".join(_event("audio-chunk", piece, **form) for piece in pieces)


DOORS: Final = {
    "listen": Door(_heard, f"/v1/listen?encoding=linear16&sample_rate={RATE}&interim_results=true"),
    "listen-turns": Door(_heard, f"/v2/listen?encoding=linear16&sample_rate={RATE}&eager_eot_threshold=0.5"),
    "speak": Door(_spoken("Clear"), "/v1/speak?encoding=float32&sample_rate=48000", 1.0),
    "speak-turns": Door(_spoken("Interrupt"), "/v2/speak?encoding=float32&sample_rate=48000", 1.0),
    "speech": Door(_asked, patience=1.0),
    "realtime": Door(_conversed, "/v1/realtime", 1.0),
    "wyoming": Door(_in_wyoming, patience=0.5, wyoming=True),
}


@contextmanager
def whole(models: Models) -> Iterator[tuple[Background, ChatServer]]:
    """A daemon with every door open, which lets in whoever it has a slot for, and the chat endpoint behind it."""
    with (
        pytest.MonkeyPatch.context() as patch,
        ChatServer() as chat,
        running(models, speakers=8, wyoming_port=free_port(), llm_url=chat.url) as background,
    ):
        patch.setattr("engines.load.USABLE", 1e9)
        patch.setattr("engines.load.LATE_SECONDS", 0.0)
        chat.script.parts, chat.script.pause = _STORY, 0.05
        yield background, chat


def _vanish(background: Background, door: Door, pcm: bytes, how: random.Random) -> None:
    """Come, say some, and go without a word: mostly with a reset, often half way into a message."""
    while not _vanished(background, door, pcm, how):  # those who went before may hold all places for a moment
        time.sleep(0.05)


def _vanished(background: Background, door: Door, pcm: bytes, how: random.Random) -> bool:
    """Whether there was a place to vanish from."""
    port = background.hub.settings.wyoming_port if door.wyoming else int(background.url.rsplit(":", 1)[1])
    # What is half a request with more behind it is refused, and the connection reset.
    with sockets.create_connection(("127.0.0.1", port), 30) as raw, suppress(ConnectionError):
        if door.upgrade:
            request = upgrade(door.upgrade)
            if how.random() < 0.1:  # not even waiting for the answer
                raw.sendall(request[: how.randrange(1, len(request) + 1)])
                return True
            raw.sendall(request)
            answer = raw.recv(4096)
            if b" 429 " in answer:
                return False
            assert b" 101 " in answer, answer
        said = door.said(how, pcm)
        raw.sendall(said[: how.randrange(1, len(said))] if how.random() < 0.3 else said)
        wanted, until = how.randrange(60_000), time.monotonic() + how.random() * door.patience
        with suppress(TimeoutError):
            while wanted > 0 and (left := until - time.monotonic()) > 0:
                raw.settimeout(left)
                data = raw.recv(min(wanted, 4096))
                if not data:
                    break
                wanted -= len(data)
        if how.random() < 0.7:
            raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
    return True


def _workers() -> set[threading.Thread]:
    """Threads of the pools of all daemons in this process."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("hearsay-worker")}


def abrupt_disconnects(background: Background, models: Models, door: Door, speech: Speech, many: int) -> None:
    """``many`` clients vanish, eight at a time, beside one that is heard and one that is spoken to: these notice
    nothing, and nothing is left of the others."""
    client, voice, others = Client(background.url), Voice(background.url), _workers()
    # Without endpointing no silence is assumed where a thread stands still for a second.
    text = finals(client.transcribe(speech.pcm, interim_results=True, endpointing="false"))
    sound, _ = voice.speak(SHORT)
    assert text and sound and eventually(lambda: background.hub.taken == 0)
    before = Counts.of(models, background)
    stop, heard, spoken = threading.Event(), list[str](), list[bytes]()

    def listen() -> None:
        with client.open(endpointing="false") as socket:
            for start in range(0, len(speech.pcm), 3200):
                socket.send(speech.pcm[start : start + 3200])
                stop.wait(0.05)
            while not stop.wait(5):
                socket.send('{"type": "KeepAlive"}')
            socket.send('{"type": "CloseStream"}')
            heard.append(finals(json.loads(message) for message in socket))

    def be_spoken_to() -> None:
        while not stop.wait(0.2) or not spoken:
            try:
                spoken.append(voice.speak(SHORT)[0])
            except InvalidStatus as refused:  # who has just vanished may hold a place for a moment
                assert refused.response.status_code == 429

    staying = [threading.Thread(target=listen), threading.Thread(target=be_spoken_to)]
    for thread in staying:
        thread.start()
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda i: _vanish(background, door, speech.pcm, random.Random(i)), range(many)))
    finally:
        stop.set()
        for thread in staying:
            thread.join(120)
    assert heard == [text]
    assert spoken and set(map(len, spoken)) == {len(sound)}
    settings = background.hub.settings
    assert len(_workers() - others) <= 2 * (settings.sessions + settings.speakers) + 1
    clean = eventually(lambda: Counts.of(models, background) <= before)
    assert clean, (before, Counts.of(models, background))
