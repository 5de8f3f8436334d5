"""What clients do wrong: each gets a clear answer, and nobody else notices."""

import io
import json
import socket as sockets
import struct
import time
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
import soundfile
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from daemon.serve import Background
from streaming.model import AsrModel
from tests.daemon.support import RATE, Client, Speech, eventually, finals, send
from tests.lanes import held

Start = Callable[..., AbstractContextManager[Background]]


@contextmanager
def ends_with(code: int, says: str = "") -> Generator[list[dict[str, Any]]]:
    """Collects the messages of a socket that the daemon closes with ``code``; its Error or reason contains ``says``."""
    messages: list[dict[str, Any]] = []
    with pytest.raises(ConnectionClosed) as error:
        yield messages
    assert error.value.rcvd is not None, "closed without a close frame"
    errors = [m["description"] for m in messages if m["type"] == "Error"]
    assert error.value.rcvd.code == code
    assert says in " ".join([*errors, error.value.rcvd.reason])


def pour(socket: ClientConnection, *pieces: bytes) -> None:
    """Send, also into a connection that the daemon is closing: what it said stays readable."""
    with suppress(ConnectionClosed):
        for piece in pieces:
            send(socket, piece, 32_000)


def collect(socket: ClientConnection, messages: list[dict[str, Any]]) -> None:
    """Read until the daemon closes, which raises."""
    while True:
        messages.append(json.loads(socket.recv(timeout=120)))


@pytest.mark.parametrize(
    "query",
    [{"sample_rate": 1}, {"sample_rate": "16 kHz"}, {"endpointing": "soon"}, {"channels": 99}, {"keyterm": "a" * 999}],
)
@pytest.mark.usefixtures("bystander")
def test_a_wrong_query_is_refused_before_the_upgrade(client: Client, query: dict[str, Any]) -> None:
    with pytest.raises(InvalidStatus) as error, client.open(**query):
        pass
    body = json.loads(error.value.response.body or b"{}")
    assert error.value.response.status_code == 400
    assert body["err_msg"].startswith(f"{next(iter(query))}: ")
    assert body["request_id"]


def test_raw_audio_without_a_format_names_both(client: Client) -> None:
    """It begins with no container's mark."""
    with (
        client.open(raw=False, model="nova-3") as socket,
        ends_with(1008, "needs encoding and sample_rate") as messages,
    ):
        pour(socket, bytes(64_000))
        collect(socket, messages)
    assert [message["type"] for message in messages[-2:]] == ["Error", "Metadata"]


@pytest.mark.usefixtures("bystander")
def test_a_wrong_rate_in_a_header_is_told(client: Client, speech: Speech) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.frombuffer(speech.pcm, "<i2"), 44_100, format="WAV", subtype="PCM_16")
    with client.open() as socket, ends_with(1008, "header says encoding=linear16 sample_rate=44100") as messages:
        pour(socket, file.getvalue())
        collect(socket, messages)
    assert messages[-1]["type"] == "Metadata"


@pytest.mark.usefixtures("bystander")
def test_a_container_is_not_raw_audio(client: Client, speech: Speech) -> None:
    with client.open() as socket, ends_with(1008, "this is Ogg, not raw linear16") as messages:
        pour(socket, speech.path.read_bytes())
        collect(socket, messages)


@pytest.mark.usefixtures("bystander")
def test_text_where_audio_belongs(client: Client, speech: Speech) -> None:
    """An Error for each, naming what is known; the stream goes on."""
    with client.open() as socket:
        wrong = [
            "UklGRiQAAABXQVZF",
            "{",
            "",
            '{"x":' * 100_000,
            '{"type": "Speak"}',
            '{"audio": "AAAA"}',
            '["KeepAlive"]',
            '{"type": 5}',
        ]
        for text in wrong:
            socket.send(text)
            answer = json.loads(socket.recv(timeout=60))
            assert (answer["type"], answer["variant"], answer["message"]) == ("Error", "SchemaError", text[:200])
            assert "KeepAlive, Finalize, CloseStream, Configure; audio goes in binary messages" in answer["description"]
        send(socket, speech.pcm)
        socket.send('{"type": "CloseStream"}')
        assert finals(json.loads(message) for message in socket) == finals(client.transcribe(speech.pcm))


@pytest.mark.usefixtures("bystander")
def test_odd_byte_counts_only_matter_at_the_end(client: Client, speech: Speech) -> None:
    messages = client.transcribe(speech.pcm, piece=333)
    assert finals(messages) == finals(client.transcribe(speech.pcm))
    assert messages[-1]["warnings"] == []
    cut = client.transcribe(speech.pcm[:-1], piece=333)
    assert cut[-1]["warnings"] == ["the audio ended within a sample: 1 bytes dropped"]


@pytest.mark.usefixtures("bystander")
def test_an_oversize_frame_is_1009(client: Client) -> None:
    with client.open() as socket, ends_with(1009) as messages:
        with suppress(ConnectionClosed):
            socket.send(bytes((1 << 20) + 2))
        collect(socket, messages)


@pytest.mark.usefixtures("bystander")
def test_text_that_is_not_utf8_is_1007(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Whole or in fragments; the log does not call it a fault of ours."""
    for frames in (b"\x81\x82\0\0\0\0\xc3\x28", b"\x01\x81\0\0\0\0\xc3" + b"\x80\x81\0\0\0\0\x28"):
        with client.open() as socket, ends_with(1007, "a text message is not UTF-8") as messages:
            socket.socket.sendall(frames)
            collect(socket, messages)
    assert not [record for record in caplog.records if record.exc_info]


def test_fragments_cost_what_they_hold(client: Client) -> None:
    """However many a message has, and with no byte or one in each; it is understood."""
    text = b'{"type": "Finalize"}'
    empty, space = b"\x00\x80\0\0\0\0", b"\x00\x81\0\0\0\0 "
    first, last = (struct.pack("!BB4x", kind, 0x80 | 10) for kind in (0x01, 0x80))
    with client.open() as socket:
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            socket.socket.sendall(first + b" " * 10)
            for _ in range(20):
                socket.socket.sendall((empty + space) * 1000)
            socket.ping().wait(60)
            held = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert held < 400_000, "20 000 bytes; as fragments they would be more than a million"
        socket.socket.sendall(last + b" " * 10 + b"\x81\x94\0\0\0\0" + text)
        assert json.loads(socket.recv(timeout=60))["type"] == "Error", "of spaces"
        assert json.loads(socket.recv(timeout=60))["from_finalize"]


def test_finalizes_wait_up_to_a_bound(client: Client, speech: Speech, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is told, and the stream goes on."""
    monkeypatch.setattr("daemon.hearing.MOST_FINALIZES", 0)
    with client.open() as socket:
        socket.send('{"type": "Finalize"}')
        answer = json.loads(socket.recv(timeout=60))
        assert (answer["type"], answer["variant"]) == ("Error", "FinalizeLimit")
        send(socket, speech.pcm)
        socket.send('{"type": "CloseStream"}')
        assert finals(json.loads(message) for message in socket)


def test_an_idle_stream_is_finalised_and_closed(start: Start, client: Client, speech: Speech) -> None:
    expected = finals(client.transcribe(speech.pcm))
    with start(idle_seconds=6) as background:  # much more than a machine stands still
        idle = Client(background.url)
        with idle.open() as socket, ends_with(1011, "NET-0001: no audio and no KeepAlive for 6 s") as messages:
            pour(socket, speech.pcm)
            collect(socket, messages)
        assert finals(messages) == expected, "nothing that was sent is lost"
        with idle.open() as socket, ends_with(1011, "(idle_seconds)") as messages:
            for _ in range(600):  # text that is not understood does not count as life
                with suppress(ConnectionClosed):
                    socket.send("still here")
                messages.append(json.loads(socket.recv(timeout=120)))
                time.sleep(0.1)


def test_a_stream_has_a_longest_length(start: Start, speech: Speech) -> None:
    with start(max_session_seconds=6) as background:
        client = Client(background.url)
        with client.open() as socket, ends_with(1008, "longer than 6 s (max_session_seconds)") as messages:
            pour(socket, speech.pcm)
            collect(socket, messages)
        assert finals(messages)


def test_a_sender_far_ahead_of_real_time_is_heard(client: Client, asr_model: AsrModel, speech: Speech) -> None:
    """Minutes of audio in a moment: buffered and heard, as long as they fit."""
    minute = speech.pcm * int(60 / speech.seconds)
    with client.open() as socket:
        with ExitStack() as busy:
            for lane in [asr_model.engine.lane]:
                busy.enter_context(held(lane))
            send(socket, minute, 32_000)
            assert socket.ping().wait(60), "the reader always reads"
        socket.send('{"type": "CloseStream"}')
        messages = [json.loads(message) for message in socket]
    assert messages[-1]["duration"] == pytest.approx(len(minute) / 32_000, abs=0.01)


@pytest.mark.usefixtures("bystander")
def test_beyond_the_unheard_limit_what_arrived_is_finalised(start: Start, speech: Speech) -> None:
    with start(max_unheard_seconds=2 * speech.seconds) as background:
        client = Client(background.url)
        with client.open() as socket, ends_with(1008, "not heard yet (max_unheard_seconds)") as messages:
            pour(socket, *[speech.pcm] * 100)
            collect(socket, messages)
        kinds = [m["type"] for m in messages]
        assert kinds[-2:] == ["Error", "Metadata"]
        assert messages[-1]["duration"] >= speech.seconds
        assert finals(messages)


def idle_connection(url: str) -> sockets.socket:
    """A TCP connection that asks for nothing."""
    host, port = url.removeprefix("http://").split(":")
    raw = sockets.create_connection((host, int(port)))
    raw.settimeout(60)
    return raw


def ended(raw: sockets.socket) -> bool:
    """Whether the daemon has broken the connection, waiting for it if need be."""
    try:
        return raw.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_what_waits_is_bounded_in_bytes_too(start: Start) -> None:
    """A tenth of a second of eight channels of 48 kHz float32 is as much as two seconds of speech: too much for one."""
    wire = {"encoding": "float32", "sample_rate": 48_000, "channels": 8}
    with start(max_unheard_seconds=1) as background:
        says = "or 64000 bytes, of audio arrived that is not heard yet (max_unheard_seconds)"
        with Client(background.url).open(raw=False, **wire) as socket, ends_with(1008, says) as messages:
            socket.send(bytes(150_000))
            collect(socket, messages)


@pytest.mark.usefixtures("bystander")
def test_samples_that_are_no_numbers_are_silence(client: Client, speech: Speech) -> None:
    """NaN and infinity, beside a healthy stream; speech between them is heard as ever."""
    nothing = np.full(RATE, np.nan, "<f4").tobytes() + np.full(RATE, np.inf, "<f4").tobytes()
    talk = (np.frombuffer(speech.pcm, "<i2") / np.float32(32768)).astype("<f4").tobytes()
    said = finals(client.transcribe(bytes(8 * RATE) + talk, encoding="float32"))
    assert finals(client.transcribe(nothing + talk + nothing, encoding="float32")) == said != ""
    assert finals(client.transcribe(10 * nothing, encoding="float32")) == ""


def test_a_connection_too_many_is_reset(start: Start, speech: Speech) -> None:
    with start(max_connections=8) as background, ExitStack() as stack:
        client = Client(background.url)
        idle = [stack.enter_context(idle_connection(background.url)) for _ in range(8)]
        with idle_connection(background.url) as one_more:
            assert ended(one_more)
        idle.pop().close()
        assert eventually(lambda: finals(client.transcribe(speech.pcm)) != "")


@pytest.mark.parametrize(
    "requests", [[b""], [b"GET /healthz HT"], [b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /he"]]
)
def test_a_connection_that_asks_for_nothing_is_given_up(
    start: Start, monkeypatch: pytest.MonkeyPatch, requests: list[bytes]
) -> None:
    """Also one that stops in the middle of its next request."""
    *whole, rest = requests
    hurry = partial(monkeypatch.setattr, "daemon.http_connection._REQUEST_SECONDS", 0.5)
    if not whole:
        hurry()
    with start() as background, idle_connection(background.url) as raw:
        for request in whole:  # as long as it asks for something it has its time
            raw.sendall(request)
            answer = b""
            while not answer.endswith(b"}"):
                chunk = raw.recv(4096)
                assert chunk, "closed"
                answer += chunk
        hurry()
        raw.sendall(rest)
        assert ended(raw)
