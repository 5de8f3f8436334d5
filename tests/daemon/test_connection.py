"""Connections that break where a server least expects it: each ends, is told why where it can be, and leaves no log."""

import json
import logging
import re
import socket as sockets
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from daemon.http_connection import HttpConnection
from daemon.serve import Background
from daemon.websocket_connection import WebSocketConnection
from tests.daemon.support import LONGEST, RATE, Client, Speech, eventually, finals

Start = Callable[..., AbstractContextManager[Background]]

LISTEN = f"/v1/listen?encoding=linear16&sample_rate={RATE}"
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
BROKEN = b"\xff" * 6
TLS = Path(__file__).parent / "tls"


def opened(url: str) -> sockets.socket:
    """A TCP connection, behind TLS where the daemon speaks it."""
    scheme, host, port = url.replace("//", "").split(":")
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.connect((host, int(port)))
    raw.settimeout(60)
    if scheme == "http":
        return raw
    return ssl.create_default_context(cafile=TLS / "certificate.pem").wrap_socket(raw, server_hostname=host)


def head(path: str = LISTEN, more: str = "") -> bytes:
    """A request for a WebSocket."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}{more}\r\n".encode()


def everything(raw: sockets.socket) -> bytes:
    """What the daemon says until it closes."""
    said = b""
    while chunk := raw.recv(65_536):
        said += chunk
    return said


def masked(opcode: int, payload: bytes) -> bytes:
    """A frame, masked with zeros."""
    return struct.pack("!BBH4x", 0x80 | opcode, 0x80 | 126, len(payload)) + payload


@pytest.mark.parametrize(
    ("request_head", "status", "says"),
    [
        (head(LISTEN + "&keyterm=" + "a" * 9000), b"414", b""),
        (head(more=f"X-Long: {'a' * 9000}\r\n"), b"431", b""),
        (head(more="".join(f"X-{i}: a\r\n" for i in range(200))), b"431", b"128 headers"),
        (head(more="Content-Length: 3\r\n") + b"abc", b"400", b"did not receive a valid HTTP request"),
        (head(more="Transfer-Encoding: chunked\r\n") + b"0\r\n\r\n", b"400", b"did not receive a valid HTTP request"),
    ],
)
def test_a_handshake_that_cannot_be_read_is_answered_and_closed(
    daemon: Background, request_head: bytes, status: bytes, says: bytes
) -> None:
    with opened(daemon.url) as raw:
        raw.sendall(request_head)
        said = everything(raw)
    assert said.startswith(b"HTTP/1.1 " + status)
    assert b"\r\n\r\nFailed to open a WebSocket connection: " in said
    assert says in said


def test_who_is_still_sending_a_frame_that_is_too_large_learns_why(
    daemon: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not reset meanwhile."""
    monkeypatch.setattr("daemon.websocket_connection._LINGER_SECONDS", 60.0)
    with opened(daemon.url) as raw:
        raw.sendall(head())
        assert raw.recv(12) == b"HTTP/1.1 101"
        raw.sendall(struct.pack("!BBQ4x", 0x82, 0x80 | 127, 1 << 40))
        assert eventually(lambda: daemon.hub.taken == 0)
        for _ in range(10):
            raw.sendall(bytes(65_536))
            time.sleep(0.02)
        assert struct.pack("!H", 1009) in everything(raw)


def test_frames_behind_the_request_are_heard(
    daemon: Background, speech: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same packet, as a client sends them that does not wait for the answer."""
    monkeypatch.setattr("daemon.websocket_connection._CLOSE_SECONDS", 0.5)  # it does not close either
    audio = [masked(2, speech.pcm[at : at + 32_000]) for at in range(0, len(speech.pcm), 32_000)]
    with opened(daemon.url) as raw:
        raw.sendall(head() + b"".join(audio) + masked(1, b'{"type": "CloseStream"}'))
        said = everything(raw)
    assert finals(Client(daemon.url).transcribe(speech.pcm)).split()[0].encode() in said
    assert struct.pack("!H", 1000) in said[-200:]


def test_requests_may_be_sent_together(daemon: Background) -> None:
    """They are answered one after the other; the last one asks for the connection's end."""
    asks = [f"{method} /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" for method in ("GET", "HEAD", "GET")]
    with opened(daemon.url) as raw:
        raw.sendall("".join([*asks, "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]).encode())
        said = everything(raw)
    assert re.findall(rb"HTTP/1.1 (\d+)", said) == 3 * [b"200"] + [b"404"]
    assert said.count(b'{"status":"ok"}') == 2, "an answer to HEAD has no body"


def test_a_client_that_waits_to_be_told_is_told_to_go_on(daemon: Background, speech: Speech) -> None:
    """curl sends large bodies so: an answer without the body would spare it the upload."""
    asks = f"POST {LISTEN} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(speech.pcm)}\r\nConnection: close\r\n"
    with opened(daemon.url) as raw:
        raw.sendall(f"{asks}Expect: 100-continue\r\n\r\n".encode())
        assert raw.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.sendall(speech.pcm)
        assert everything(raw).startswith(b"HTTP/1.1 200 ")


def test_what_is_no_http_is_told_so(daemon: Background) -> None:
    for asks, status in ((b"\x16\x03\x01\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\nX: " + 20_000 * b"x", b"431")):
        with opened(daemon.url) as raw:
            raw.sendall(asks)
            said = everything(raw)
        assert said.startswith(b"HTTP/1.1 " + status) and b"This is no HTTP request: " in said


def test_two_lengths_are_one_too_many(daemon: Background) -> None:
    """What follows the body by one length and belongs to it by the other is not taken for a request."""
    rest = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for path in ("/healthz", "/v1/audio/speech"):
        lengths = f"Transfer-Encoding: chunked\r\nContent-Length: {len(rest)}"
        with opened(daemon.url) as raw:
            raw.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\n".encode() + rest)
            said = everything(raw)
        assert said.startswith(b"HTTP/1.1 400 ") and b"Content-Length beside Transfer-Encoding" in said
        assert said.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("path", "status"), [("/nowhere", b"404"), ("/v1/audio/transcriptions", b"415"), ("/v1/audio/speech", b"400")]
)
@pytest.mark.parametrize("together", [False, True])
def test_a_body_that_is_no_http_ends_the_connection(
    talker: Background, caplog: pytest.LogCaptureFixture, path: str, status: bytes, together: bool
) -> None:
    """Before the answer, after it, or while it is made: the log does not call it a fault of ours."""
    asks = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with opened(talker.url) as raw:
        raw.sendall(asks + together * b"no chunk\r\n")
        said = b""
        if not together:
            if status != b"400":
                said = raw.recv(65_536)
            raw.sendall(b"no chunk\r\n")
        with suppress(ConnectionResetError):
            said += everything(raw)
    assert said.startswith(b"HTTP/1.1 " + (b"400" if together else status))
    assert said.count(b"HTTP/1.1 ") == 1
    assert eventually(lambda: talker.hub.taken == 0)
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.WARNING] == []


@pytest.mark.parametrize(
    "more", [masked(9, b"?"), masked(8, b"\x03\xe8"), masked(1, b"{}"), masked(1, b"\xff"), BROKEN]
)
@pytest.mark.parametrize("broken", [masked(1, b"\xff"), struct.pack("!BB4x", 1, 0x80) + masked(0, b"\xff"), BROKEN])
def test_what_comes_behind_broken_frames_is_not_answered(
    daemon: Background, caplog: pytest.LogCaptureFixture, broken: bytes, more: bytes
) -> None:
    """In the same packet: the client learns what was wrong, and the log does not call it a fault of ours."""
    with opened(daemon.url) as raw:
        raw.sendall(head())
        assert raw.recv(12) == b"HTTP/1.1 101"
        raw.sendall(broken + 3 * more)
        said = everything(raw)
    # A parser sees all frames of a packet before their messages are read: what ends those of the close comes first.
    code = 1002 if BROKEN in (broken, more) else 1000 if more[0] == 0x88 else 1007
    assert struct.pack("!H", code) in said
    assert eventually(lambda: daemon.hub.taken == 0)
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


def closes(background: Background, code: str) -> float:
    """How many streams ended with ``code``."""
    return background.hub.metrics.registry.get_sample_value("hearsay_closes_total", {"code": code}) or 0


@pytest.mark.parametrize("frame", [BROKEN, masked(1, b"\xff"), masked(8, b"\xff"), masked(9, b"?" * 126)])
def test_frames_that_are_broken_before_the_answer_end_the_connection(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, frame: bytes
) -> None:
    """While all places are taken, the answer takes a while: time for a frame that nobody may send yet."""
    asked, accept = threading.Semaphore(0), ServerProtocol.accept

    def noted(protocol: ServerProtocol, request: Request) -> Response:
        asked.release()
        return accept(protocol, request)

    monkeypatch.setattr(ServerProtocol, "accept", noted)
    monkeypatch.setattr("daemon.slots.PATIENCE_SECONDS", 60)
    with start(sessions=1) as background, opened(background.url) as first:
        first.sendall(head())
        assert first.recv(12) == b"HTTP/1.1 101" and asked.acquire(timeout=60)
        with opened(background.url) as raw:
            raw.sendall(head())
            assert asked.acquire(timeout=60)  # frames in one packet with the request never reach the parser
            raw.sendall(frame)
            with suppress(ConnectionResetError):
                assert everything(raw) == b""
        first.close()
        assert eventually(lambda: background.hub.taken == 0)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_client_that_vanishes_is_counted_as_1006(start: Start) -> None:
    with start() as background:
        with opened(background.url) as raw:
            raw.sendall(head())
            assert raw.recv(12) == b"HTTP/1.1 101"
        assert eventually(lambda: closes(background, "1006") == 1)


@pytest.mark.parametrize("way", ["socket", "post"])
def test_a_client_that_leaves_without_having_read_is_gone_at_once(talk: Start, way: str) -> None:
    """It closes its half of the connection while the buffers on the way to it are full."""
    with talk(send_timeout_seconds=600, idle_seconds=600, max_text_characters=65_536) as background:
        text = " ".join([LONGEST] * 10)
        with opened(background.url) as raw:
            if way == "socket":
                raw.sendall(head("/v1/speak"))
                assert raw.recv(12) == b"HTTP/1.1 101"
                raw.sendall(masked(1, json.dumps({"type": "Speak", "text": text}).encode()))
            else:
                body = json.dumps({"input": text, "response_format": "wav"})
                asks = f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                raw.sendall((asks + body).encode())
            assert eventually(lambda: full(background))
            raw.shutdown(sockets.SHUT_WR)
            assert eventually(lambda: background.hub.taken == 0, 30)


def test_a_client_that_leaves_with_a_request_begun_is_gone_at_once(start: Start, speech: Speech) -> None:
    """Nobody hears a long recording to its end."""
    body = 300 * speech.pcm
    with start() as background:
        with opened(background.url) as raw:
            raw.sendall(f"POST {LISTEN} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            raw.sendall(body)
            assert eventually(lambda: heard(background) > 0)
            raw.sendall(b"GET /healthz")
            time.sleep(0.5)  # until it is read
        assert eventually(lambda: background.hub.taken == 0, 30)
        assert heard(background) < 150 * speech.seconds


def heard(background: Background) -> float:
    """Seconds of recordings."""
    labels = {"path": "/v1/listen"}
    return background.hub.metrics.registry.get_sample_value("hearsay_audio_seconds_total", labels) or 0


def full(background: Background) -> bool:
    """Whether a voice has been held back for a while."""
    samples = background.hub.metrics.registry.get_sample_value
    paths = ("/v1/speak", "/v1/audio/speech")

    def spoken() -> float:
        return sum(samples("hearsay_spoken_seconds_total", {"path": path}) or 0 for path in paths)

    before = spoken()
    time.sleep(0.5)
    return before > 0 and spoken() == before


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    ("connection", "request_head", "tiny"),
    [
        (WebSocketConnection, head(), b"\x89\x80\0\0\0\0"),
        (HttpConnection, b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    ],
)
def test_who_floods_with_tiny_things_leaves_others_their_turn(
    start: Start, monkeypatch: pytest.MonkeyPatch, secure: bool, connection: Any, request_head: bytes, tiny: bytes
) -> None:
    """In a turn of the event loop little is worked off of one connection, whatever has come."""
    settings = {"tls_certificate": str(TLS / "certificate.pem"), "tls_key": str(TLS / "key.pem")} if secure else {}
    turns, taken, receive = [0], 0, connection.data_received

    def counted(self: Any, data: bytes) -> None:
        nonlocal taken
        turns[-1] += len(data)
        taken += len(data)
        self.loop.call_soon(turns.append, 0)
        receive(self, data)

    with start(**settings) as background, opened(background.url) as raw:
        raw.sendall(request_head)
        assert raw.recv(9) == b"HTTP/1.1 "
        monkeypatch.setattr(connection, "data_received", counted)
        flood = tiny * 50_000
        raw.sendall(flood)
        assert eventually(lambda: taken == len(flood))
        assert max(turns) <= 4096
