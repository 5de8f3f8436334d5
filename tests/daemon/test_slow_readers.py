"""Clients that take less than they are sent: bounded, cut off, told so where they still read; nobody else notices."""

import socket as sockets
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from daemon.duplex import Duplex, Ending
from daemon.serve import Background
from daemon.websocket_connection import WebSocketConnection
from tests.daemon.support import RATE, Client, Counts, eventually

Start = Callable[..., AbstractContextManager[Background]]


def flood(client: Client, limit: int) -> sockets.socket:
    """A raw client that makes the daemon talk with up to ``limit`` messages and does not read; its socket."""
    host, port = client.url.removeprefix("http://").split(":")
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 65_536)
    raw.connect((host, int(port)))
    raw.sendall(
        f"GET /v1/listen?encoding=linear16&sample_rate={RATE} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    assert raw.recv(12) == b"HTTP/1.1 101"
    payload = b"x" * 100
    frame = struct.pack("!BB4x", 0x81, 0x80 | len(payload)) + payload  # masked with zeros
    sent = 0
    while sent < limit:
        try:
            raw.sendall(frame * 100)
        except OSError:
            break
        sent += 100
    return raw


@pytest.mark.usefixtures("bystander")
def test_answers_to_pings_do_not_pile_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client pings for megabytes before it reads: it gets the latest answer, and few of the others."""
    taken, take = 0, WebSocketConnection.answer_ping

    def counted(self: WebSocketConnection) -> None:
        nonlocal taken
        take(self)
        taken += 1

    monkeypatch.setattr(WebSocketConnection, "answer_ping", counted)
    ping = struct.pack("!BB4x", 0x89, 0x80 | 125) + b"p" * 117
    with start() as background, flood(Client(background.url), 0) as raw:
        raw.settimeout(60)
        for first in range(0, 100_000, 100):
            raw.sendall(b"".join(ping + b"%8d" % i for i in range(first, first + 100)))
        assert eventually(lambda: taken == 100_000), "what is still under way when it reads would be answered"
        answers = b""
        while b"p%8d" % 99_999 not in answers[-1000:]:
            chunk = raw.recv(1 << 20)
            assert chunk, "closed"
            answers += chunk
        assert len(answers) < 12_700_000 / 3, "most were never written"


@pytest.mark.usefixtures("bystander")
def test_a_client_that_never_reads_is_cut_off(
    start: Start, count: Callable[[Background], Counts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session ends and leaves nothing behind, though the client keeps its socket open and its buffers are full."""
    monkeypatch.setattr("daemon.websocket_connection._ABORT_SECONDS", 0.5)
    monkeypatch.setattr("daemon.duplex._CLOSE_SECONDS", 0.5)
    with start(max_outbound_bytes=1 << 26, send_timeout_seconds=1.5) as background:
        client = Client(background.url)
        client.transcribe(b"")
        assert eventually(lambda: background.hub.taken == 0)
        before = count(background).descriptors
        with flood(client, 50_000):
            assert eventually(lambda: background.hub.taken == 0)
            closes = background.hub.metrics.registry.get_sample_value("hearsay_closes_total", {"code": "1013"})
            assert closes == 1
            assert eventually(lambda: count(background).descriptors <= before + 1), "only the client's own is left"


def test_a_client_that_reads_too_little_meets_the_bound(start: Start) -> None:
    with start(max_outbound_bytes=65_536, send_timeout_seconds=60) as background:
        with flood(Client(background.url), 50_000):
            assert eventually(lambda: background.hub.taken == 0)
            closes = background.hub.metrics.registry.get_sample_value("hearsay_closes_total", {"code": "1013"})
            assert closes == 1


def test_a_client_that_reads_too_late_sees_1013(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads once the daemon has given it up, and the daemon waits for that however slow both are."""
    monkeypatch.setattr("daemon.websocket_connection._ABORT_SECONDS", 600)
    monkeypatch.setattr("daemon.duplex._CLOSE_SECONDS", 600)
    closing, close = threading.Event(), Duplex._close

    async def noted(self: Duplex, ending: Ending) -> int:
        closing.set()
        return await close(self, ending)

    monkeypatch.setattr(Duplex, "_close", noted)
    with start(max_outbound_bytes=1 << 26, send_timeout_seconds=0.5) as background:
        with flood(Client(background.url), 10_000) as raw:  # its answers fill all buffers, it fits them itself
            assert closing.wait(60)
            raw.settimeout(60)
            data, frame = b"", struct.pack("!H", 1013) + b"the client does not read"
            while frame not in data:
                chunk = raw.recv(1 << 20)
                assert chunk, "closed without a close frame"
                data = (data + chunk)[-2_000_000:]
            assert data[data.index(frame) - 2] == 0x88, "a close frame"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere max_connections is the only bound")
def test_an_http_client_that_never_reads_is_cut_off(start: Start, count: Callable[[Background], Counts]) -> None:
    with start(send_timeout_seconds=0.3) as background:
        host, port = background.url.removeprefix("http://").split(":")
        before = count(background).descriptors
        with sockets.socket() as raw:
            raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
            raw.connect((host, int(port)))
            raw.settimeout(60)
            with pytest.raises(OSError):  # the daemon stops reading, then breaks the connection
                for _ in range(100_000):
                    raw.sendall(f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert eventually(lambda: count(background).descriptors <= before + 1)
