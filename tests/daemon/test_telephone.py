"""Calls as Twilio and Asterisk bring them, in frames of recorded speech."""

import asyncio
import base64
import json
import socket as sockets
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import soxr
from starlette.types import Message
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from daemon.config import ConfigError, Settings
from daemon.serve import Background
from daemon.telephone.audiosocket import Line
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import LONG, mulaw
from tests.daemon.support import PATIENT, RATE, Speech, eventually

SILENCE = b"\xff" * 8_000
"""A second of it in mulaw."""


@pytest.fixture(scope="module")
def call(speech: Speech) -> bytes:
    """What a caller says, in mulaw at 8 kHz, and a second of silence."""
    return mulaw(speech.pcm) + SILENCE


@contextmanager
def dialled(background: Background, path: str, **parameters: str) -> Generator[ClientConnection]:
    """A stream that has begun."""
    with connect(background.url.replace("http", "ws", 1) + path, proxy=None, **PATIENT) as socket:
        tell(socket, event="connected", protocol="Call", version="1.0.0")
        form = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
        start = {"streamSid": "MZ1", "callSid": "CA1", "mediaFormat": form, "customParameters": parameters}
        tell(socket, event="start", sequenceNumber="1", streamSid="MZ1", start=start)
        yield socket


def tell(socket: ClientConnection, **message: Any) -> None:
    socket.send(json.dumps(message))


def send(socket: ClientConnection, sound: bytes) -> None:
    """In frames of 20 ms, as Twilio sends them."""
    for chunk, start in enumerate(range(0, len(sound), 160)):
        media = {"track": "inbound", "chunk": str(chunk), "timestamp": str(20 * chunk)}
        payload = base64.b64encode(sound[start : start + 160]).decode()
        tell(socket, event="media", streamSid="MZ1", media={**media, "payload": payload})


def until(socket: ClientConnection, event: str) -> list[dict[str, Any]]:
    """Messages up to the next one of that kind, which is the last."""
    told: list[dict[str, Any]] = []
    while not told or told[-1]["event"] != event:
        told.append(json.loads(socket.recv(120)))
        assert told[-1]["streamSid"] == "MZ1"
    return told


def sound_of(told: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(one["media"]["payload"]) for one in told if one["event"] == "media")


def test_a_caller_is_answered(partner: Background, chat: ChatServer, call: bytes, speech: Speech) -> None:
    with dialled(partner, "/twilio/converse", instructions="You are on the telephone.") as socket:
        send(socket, call)
        told = until(socket, "mark")
        assert len(sound_of(told)) > 2_000 and told[-1]["mark"]["name"]
        tell(socket, event="mark", streamSid="MZ1", mark=told[-1]["mark"])
        tell(socket, event="stop", streamSid="MZ1", stop={"callSid": "CA1"})
        with pytest.raises(ConnectionClosed) as closed:
            until(socket, "nothing")
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1000
    asked = chat.seen.requests[0]["messages"]
    assert asked[0] == {"role": "system", "content": "You are on the telephone."}
    assert asked[1]["role"] == "user" and asked[1]["content"]


def test_a_caller_is_greeted_and_may_interrupt(partner: Background, chat: ChatServer, call: bytes) -> None:
    chat.script.parts, chat.script.pause = LONG, 0.1
    with dialled(partner, "/twilio/converse", greeting="".join(LONG[:20])) as socket:
        told = until(socket, "media")
        assert not chat.seen.requests  # A greeting is no answer.
        send(socket, call)
        told += until(socket, "clear")
        assert len(sound_of(told)) > 0
        until(socket, "media")  # the answer to what was said over it
        assert chat.seen.requests


def test_a_call_is_written_down(partner: Background, call: bytes, speech: Speech) -> None:
    with dialled(partner, "/twilio/hear") as socket:
        send(socket, call)
        told = until(socket, "transcript")[-1]["transcript"]
        assert told["text"] and told["text"] == " ".join(word["word"] for word in told["words"])


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"event": "start", "start": {"mediaFormat": {"encoding": "audio/l16", "sampleRate": 16000}}}, "mediaFormat"),
        ({"event": 5}, "event"),
    ],
)
def test_a_stream_that_cannot_be_heard_says_why(partner: Background, message: dict[str, Any], named: str) -> None:
    with connect(partner.url.replace("http", "ws", 1) + "/twilio/hear", proxy=None) as socket:
        tell(socket, **message)
        assert named in json.loads(socket.recv(60))["error"]["message"]
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


def test_where_nobody_would_answer_no_call_is_taken(talker: Background) -> None:
    for path in ("/twilio/converse", "/v1/agent/converse"):
        with pytest.raises(InvalidStatus) as error:
            connect(talker.url.replace("http", "ws", 1) + path, proxy=None)
        assert error.value.response.status_code == 501
    with pytest.raises(ConfigError, match="audiosocket_port: .*llm_url"):
        Settings(audiosocket_port=9092)


# ------------------------------------------------------------------------------------------------------------ Asterisk


@pytest.fixture
def line(partner: Background) -> Iterator[sockets.socket]:
    """A call's connection, which has told the call's id."""
    with sockets.create_connection(("127.0.0.1", partner.hub.settings.audiosocket_port), 60) as connection:
        connection.sendall(b"\x01\x00\x10" + bytes(16))
        yield connection


def frame(line: sockets.socket) -> tuple[int, bytes]:
    """The next frame: kind and payload."""
    head = taken(line, 3)
    return head[0], taken(line, int.from_bytes(head[1:], "big"))


def taken(line: sockets.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = line.recv(size - len(data))
        assert more, "the daemon hung up"
        data += more
    return data


def say(line: sockets.socket, speech: Speech) -> None:
    samples = np.frombuffer(speech.pcm, "<i2").astype(np.float32)
    pcm = soxr.resample(samples, RATE, 8_000).clip(-32768, 32767).astype("<i2").tobytes() + bytes(16_000)
    for start in range(0, len(pcm), 320):
        piece = pcm[start : start + 320]
        line.sendall(b"\x10" + len(piece).to_bytes(2, "big") + piece)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """The times before and after each frame of sound was sent. When it is read here says little of that."""
    times, send_one = list[tuple[float, float]](), Line.send

    async def noted(self: Line, message: Message) -> None:
        before = time.monotonic()
        await send_one(self, message)
        if "bytes" in message:
            times.append((before, time.monotonic()))

    monkeypatch.setattr(Line, "send", noted)
    return times


def test_a_call_of_asterisk_is_answered_as_it_plays(
    partner: Background, chat: ChatServer, sent: list[tuple[float, float]], line: sockets.socket, speech: Speech
) -> None:
    say(line, speech)
    sounds = list[bytes]()
    while len(sounds) < 30:
        kind, payload = frame(line)
        assert kind == 0x10 and len(payload) <= 320
        sounds.append(payload)
    assert eventually(lambda: len(sent) >= 30)
    # No faster than it is played: a frame at the end of what was made at once may be short.
    assert sent[29][1] - sent[0][0] > sum(map(len, sounds)) / 16_000 - 0.1
    assert np.frombuffer(b"".join(sounds), "<i2").any()
    line.sendall(b"\x00\x00\x00")
    assert eventually(lambda: partner.hub.listeners.taken == 0 and partner.hub.speakers.taken == 0)


@pytest.mark.anyio
async def test_sound_goes_out_as_it_is_played() -> None:
    """However fast it is made; a pause in it is not made up for."""
    ours, theirs = sockets.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    line = Line(reader, writer)
    for _ in range(2):
        began = time.monotonic()
        for _ in range(25):
            await line.send({"type": "websocket.send", "bytes": bytes(320)})
        assert 0.4 <= time.monotonic() - began
        await asyncio.sleep(0.2)
    await line.send({"type": "websocket.close"})
    assert len(theirs.recv(1 << 16)) == 50 * 323 + 3
    theirs.close()
    assert [(await line.receive())["type"] for _ in range(2)] == ["websocket.connect", "websocket.disconnect"]
    writer.close()
    await writer.wait_closed()


def test_a_caller_who_speaks_stops_the_answer(
    partner: Background, chat: ChatServer, line: sockets.socket, speech: Speech
) -> None:
    chat.script.parts, chat.script.pause = LONG, 0.1
    say(line, speech)
    frame(line)
    say(line, speech)
    assert eventually(lambda: chat.seen.broken_off == 1)


@pytest.mark.parametrize("data", [b"\x10\xff\xff" + bytes(70_000), b"GET / HTTP/1.1\r\n\r\n", b"\x01"])
def test_what_is_no_call_breaks_nothing(
    partner: Background, line: sockets.socket, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    line.sendall(data)
    line.close()
    assert eventually(lambda: partner.hub.listeners.taken == 0)
    assert not [record for record in caplog.records if record.exc_info]
