"""A new session is refused while the machine would not keep it live, by its measured speed."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from websockets.exceptions import InvalidStatus

from daemon.serve import Background
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
    """Whatever ``sessions`` says; over HTTP too. The first is always let in, and heard."""
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
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
        assert answer.json()["error"]["code"] == "headroom"
        metrics = HTTP.get(background.url + "/metrics").text
        assert "hearsay_session_headroom 0.0" in metrics
        assert 'hearsay_denials_total{code="headroom"} 2.0' in metrics
        socket.send('{"type": "CloseStream"}')
        assert finals(json.loads(message) for message in socket)
    assert eventually(lambda: background.hub.taken == 0), "a refused request leaves no slot taken"
    assert HTTP.post(background.url + TRANSCRIPTIONS, files={"file": speech.path.read_bytes()}).status_code == 200


def test_a_session_that_is_being_opened_counts(background: Background) -> None:
    """An upload holds its slot before there is a listener for it: a second request does not pass beside it."""

    def slowly() -> Iterator[bytes]:
        yield b"--x\r\n"
        assert eventually(lambda: background.hub.taken == 1)
        with pytest.raises(InvalidStatus) as error, Client(background.url).open():
            pass
        assert error.value.response.status_code == 429
        yield b"--x--\r\n"

    headers = {"content-type": "multipart/form-data; boundary=x"}
    answer = HTTP.post(background.url + TRANSCRIPTIONS, content=slowly(), headers=headers)
    assert answer.status_code == 400, "the form holds no file"


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


def test_whoever_ends_one_stream_and_opens_the_next_is_let_in(
    background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clearing up between them takes a moment: how long is the machine's affair."""
    monkeypatch.setattr("daemon.hub._PATIENCE_SECONDS", 60)
    client = Client(background.url)
    for _ in range(5):
        with client.open():
            time.sleep(0.01)


def test_finals_that_are_late_keep_new_sessions_away(
    start: Start, asr_model: AsrModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was planned."""
    monkeypatch.setattr("engines.load.LATE_SECONDS", 60.0)
    for lane in {asr_model.engine.lane, asr_model.engine.encoder_lane}:
        monkeypatch.setattr(lane, "late_at", -math.inf)
    with start() as background:
        client = Client(background.url)
        with client.open():
            assert HTTP.get(background.url + "/readyz").json()["headroom"] > 1
            monkeypatch.setattr(asr_model.engine.lane, "late_at", time.monotonic())
            assert HTTP.get(background.url + "/readyz").json()["headroom"] == 0
            with pytest.raises(InvalidStatus), client.open():
                pass
