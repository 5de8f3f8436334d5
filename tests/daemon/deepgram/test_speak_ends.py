"""Clients that leave or do not read while they are spoken to: nothing of theirs is left, and nobody else notices."""

import json
import socket as sockets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from codec.model import TtsModel
from daemon.serve import Background
from tests.daemon.disconnects import frame, upgrade
from tests.daemon.support import LONGEST, SHORT, Voice, eventually, taken, tell

Start = Callable[..., AbstractContextManager[Background]]


def raw_socket(url: str, receive_buffer: int | None = None) -> sockets.socket:
    """A TCP connection to the daemon."""
    host, port = url.removeprefix("http://").split(":")
    raw = sockets.socket()
    if receive_buffer is not None:
        raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, receive_buffer)
    raw.connect((host, int(port)))
    raw.settimeout(1)
    return raw


UPGRADE = upgrade("/v1/speak?encoding=float32&sample_rate=48000")


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
            assert eventually(lambda: tts_model.engine.taken == 0)
        assert tts_model.work.frames - before < whole / 10


def opened(background: Background) -> float:
    """Sessions that have begun."""
    sample = background.hub.metrics.registry.get_sample_value
    paths = ("/v1/speak", "/v1/audio/speech")
    return sum(sample("hearsay_sessions_opened_total", {"path": path}) or 0 for path in paths)


@pytest.mark.parametrize("way", ["socket", "post"])
def test_a_client_that_never_reads_holds_the_model_back_and_is_cut_off(
    talk: Start, tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """No more is made than fits the buffers on the way; after ``send_timeout_seconds`` the place is free."""
    monkeypatch.setattr("daemon.websocket_connection._ABORT_SECONDS", 0.5)
    monkeypatch.setattr("daemon.duplex._CLOSE_SECONDS", 0.5)
    with talk(send_timeout_seconds=1, max_text_characters=65_536) as background:
        voice = Voice(background.url)
        wanted, _ = voice.speak(SHORT)
        before, begun = tts_model.work.frames, opened(background)
        with raw_socket(background.url, 4096) as raw:
            raw.settimeout(60)
            if way == "socket":
                raw.sendall(UPGRADE)
                assert raw.recv(12) == b"HTTP/1.1 101"
                raw.sendall(frame({"type": "Speak", "text": " ".join([LONGEST] * 10)}))
            else:
                body = json.dumps({"input": " ".join([LONGEST] * 10), "response_format": "wav"})
                head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                raw.sendall((head + body).encode())
            assert eventually(lambda: opened(background) == begun + 1)
            assert len(voice.speak(SHORT)[0]) == len(wanted), "the others do not notice"
            assert eventually(lambda: background.hub.taken == 0)
            made = tts_model.work.frames - before
            assert made < 4_000, "a whole speech would be ten times that"
            if way == "socket":
                closes = background.hub.metrics.registry.get_sample_value("hearsay_closes_total", {"code": "1013"})
                assert closes == 1
        assert eventually(lambda: tts_model.engine.taken == 0)


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
