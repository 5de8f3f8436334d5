"""A new session is refused while the machine would not keep it live, by its measured speed."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from daemon.serve import Background
from engines.scheduling import Priority
from streaming.listener import Listener
from streaming.model import AsrModel
from tests.daemon.support import HTTP, Client, Speech, eventually, finals

Start = Callable[..., AbstractContextManager[Background]]

TRANSCRIPTIONS = "/v1/audio/transcriptions"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, asr_model: AsrModel) -> None:
    """Live sessions may plan with next to none of the machine: one fits, and it has to be the first."""
    monkeypatch.setattr("engines.load.USABLE", 1e-9)
    assert eventually(lambda: asr_model.live == 0)


@pytest.fixture
def background(slow: None, start: Start) -> Iterator[Background]:
    """A daemon on such a machine."""
    with start() as background:
        yield background


def test_one_that_would_not_stay_live_is_refused_before_the_upgrade(background: Background, speech: Speech) -> None:
    """Whatever ``sessions`` says. The first is always let in, and heard; a file gets what live sessions leave."""
    client = Client(background.url)
    assert HTTP.get(background.url + "/readyz").json()["headroom"] == 1
    with client.open() as socket:
        socket.send(speech.pcm)
        assert HTTP.get(background.url + "/readyz").json()["headroom"] == 0
        with pytest.raises(InvalidStatus) as error, client.open():
            pass
        response = error.value.response
        assert (response.status_code, response.headers["retry-after"]) == (429, "5")
        reason = "this machine hears as many sessions as it keeps live"
        assert json.loads(response.body or b"{}")["err_msg"] == reason
        answer = HTTP.post(background.url + TRANSCRIPTIONS, files={"file": speech.path.read_bytes()})
        assert answer.status_code == 200
        metrics = HTTP.get(background.url + "/metrics").text
        assert "hearsay_session_headroom 0.0" in metrics
        assert 'hearsay_denials_total{code="headroom"} 1.0' in metrics
        socket.send('{"type": "CloseStream"}')
        assert finals(json.loads(message) for message in socket)
    assert eventually(lambda: background.hub.taken == 0), "a refused request leaves no slot taken"
    assert HTTP.post(background.url + TRANSCRIPTIONS, files={"file": speech.path.read_bytes()}).status_code == 200


@pytest.mark.parametrize("path", [TRANSCRIPTIONS, "/v1/listen"])
def test_a_file_takes_no_room_from_live_sessions(
    background: Background, speech: Speech, asr_model: AsrModel, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Neither while it is uploaded nor while it is heard; nothing of it counts as live work."""
    client, rooms = Client(background.url), list[int]()
    boundary = "multipart/form-data; boundary=x" if path == TRANSCRIPTIONS else "audio/ogg"
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.ogg"\r\n\r\n', b"\r\n--x--\r\n"
    before, after = form if path == TRANSCRIPTIONS else (b"", b"")

    def look() -> None:
        rooms.append(HTTP.get(background.url + "/readyz").json()["headroom"])
        with client.open() as socket:
            socket.send('{"type": "CloseStream"}')
        assert eventually(lambda: asr_model.live == asr_model.files)

    def slowly() -> Iterator[bytes]:
        yield before
        assert eventually(lambda: background.hub.taken == 1)
        look()
        yield speech.path.read_bytes() + after

    fed = Listener.feed

    def feed(listener: Listener, *args: Any, **more: Any) -> None:
        if not listener.live and len(rooms) == 1:
            look()
        fed(listener, *args, **more)

    monkeypatch.setattr(Listener, "feed", feed)
    for lane in [asr_model.engine.lane]:
        monkeypatch.setattr(lane, "_stopwatch", time.thread_time)  # a busy machine may stop the lane anywhere
    spent = {lane: dict(lane.busy) for lane in [asr_model.engine.lane]}
    answer = HTTP.post(background.url + path, content=slowly(), headers={"content-type": boundary})
    assert answer.status_code == 200 and rooms == [1, 1]
    for lane, busy in spent.items():
        took = {kind: lane.busy[kind] - busy[kind] for kind in Priority}
        assert took[Priority.BACKLOG] > 0 and took[Priority.FINAL] == took[Priority.INTERIM] == 0
        assert took[Priority.EARLY] < 0.2 * took[Priority.BACKLOG], "a sequence is given back, no more"


def test_files_leave_slots_to_live_sessions(start: Start, asr_model: AsrModel) -> None:
    """However many are uploaded at once, half of the slots stay."""
    with start(sessions=2) as background:

        def slowly() -> Iterator[bytes]:
            yield b"--x\r\n"
            assert eventually(lambda: background.hub.taken == 1)
            second = HTTP.post(background.url + TRANSCRIPTIONS, files={"file": b"x"})
            assert (second.status_code, second.headers["retry-after"]) == (429, "5")
            assert (
                second.json()["error"]["message"]
                == "all 1 files at a time are being heard (half of the setting sessions)"
            )
            with Client(background.url).open() as socket:
                socket.send('{"type": "CloseStream"}')
            yield b"--x--\r\n"

        headers = {"content-type": "multipart/form-data; boundary=x"}
        assert HTTP.post(background.url + TRANSCRIPTIONS, content=slowly(), headers=headers).status_code == 400
        assert eventually(lambda: background.hub.taken == 0)


def test_of_many_at_once_as_many_are_let_in_as_fit(background: Background, silence: bytes) -> None:
    """None is refused for the sake of another that is refused."""
    client = Client(background.url)
    together, done = threading.Barrier(4), threading.Event()

    def attempt(_: int) -> bool:
        together.wait(60)
        try:
            with client.open() as socket:
                socket.send(silence)
                done.wait(60)
                return True
        except InvalidStatus as error:
            assert error.response.status_code == 429
            refused.release()
            return False

    refused = threading.Semaphore(0)
    with ThreadPoolExecutor(4) as pool:
        attempts = [pool.submit(attempt, i) for i in range(4)]
        for _ in range(3):
            assert refused.acquire(timeout=60)
        done.set()
        assert sorted(attempt.result() for attempt in attempts) == [False, False, False, True]


def test_finals_that_are_late_keep_new_sessions_away(
    start: Start, asr_model: AsrModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was planned."""
    monkeypatch.setattr("engines.load.LATE_SECONDS", 60.0)
    for lane in [asr_model.engine.lane]:
        monkeypatch.setattr(lane, "late_at", -math.inf)
    with start() as background:
        client = Client(background.url)
        with client.open():
            assert HTTP.get(background.url + "/readyz").json()["headroom"] > 1
            monkeypatch.setattr(asr_model.engine.lane, "late_at", time.monotonic())
            assert HTTP.get(background.url + "/readyz").json()["headroom"] == 0
            with pytest.raises(InvalidStatus), client.open():
                pass


def test_a_model_that_cannot_keep_up_is_told_to_whoever_looks(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /readyz, which the page reads; work is taken all the same, and nothing is said of a machine that keeps up."""
    with start() as background:
        monkeypatch.setattr(AsrModel, "cost", 0.5)
        assert HTTP.get(background.url + "/readyz").json() == {
            "status": "ready", "speaking": False, "headroom": background.hub.headroom, "live": True,
        }  # fmt: skip
        monkeypatch.setattr(AsrModel, "cost", 1.7)
        told = HTTP.get(background.url + "/readyz")
        assert (told.status_code, told.json()["live"]) == (200, False)
        assert told.json()["why"].startswith("pocket-asr-en takes 1.7 s of this machine for a second of speech")
        monkeypatch.setattr(background.hub.hearing_model().model, "warmed", False)
        assert HTTP.get(background.url + "/readyz").json()["warming"] == ["pocket-asr-en"]
        monkeypatch.setattr(AsrModel, "cost", 0.0)
        assert HTTP.get(background.url + "/readyz").json()["live"] is None
