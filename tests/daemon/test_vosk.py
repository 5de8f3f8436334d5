"""vosk-server's socket, driven in lock-step as its clients drive it."""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from daemon.serve import Background
from tests.daemon.support import RATE, Client, Speech, finals


def opened(daemon: Background) -> ClientConnection:
    return connect(daemon.url.replace("http", "ws", 1) + "/vosk", proxy=None)


def hear(socket: ClientConnection, pcm: bytes) -> list[dict[str, Any]]:
    """An answer for every message of audio, and the last one."""
    told: list[dict[str, Any]] = []
    for start in range(0, len(pcm), 8000):
        socket.send(pcm[start : start + 8000])
        told.append(json.loads(socket.recv(60)))
    socket.send('{"eof" : 1}')
    told.append(json.loads(socket.recv(60)))
    with pytest.raises(ConnectionClosed) as closed:
        socket.recv(60)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1000
    return told


@pytest.mark.parametrize("config", [None, {"sample_rate": RATE}, {"sample_rate": 16000.0, "words": 0, "extra": []}])
def test_every_message_is_answered_and_nothing_is_lost(
    daemon: Background, speech: Speech, config: dict[str, Any] | None
) -> None:
    expected = finals(Client(daemon.url).transcribe(2 * speech.pcm))
    with opened(daemon) as socket:
        if config is not None:
            socket.send(json.dumps({"config": {**config, "words": True}}))
        told = hear(socket, 2 * speech.pcm)
    assert all(("partial" in one) != ("text" in one) for one in told)
    results = [one for one in told if one.get("text")]
    assert " ".join(one["text"] for one in results) == expected != ""
    words = [word for one in results for word in one["result"]]
    assert " ".join(word["word"] for word in words) == expected
    times = [time for word in words for time in (word["start"], word["end"])]
    assert times == sorted(times)


@pytest.mark.parametrize("words", [False, 0, 1])
def test_words_only_where_they_are_wanted(daemon: Background, speech: Speech, words: bool | int) -> None:
    """Clients of vosk-server write truth as a number too."""
    with opened(daemon) as socket:
        socket.send(json.dumps({"config": {"words": words}}))
        told = hear(socket, speech.pcm)
    assert told[-1]["text"] and any("result" in one for one in told) == bool(words)


@pytest.mark.parametrize(
    ("first", "named"),
    [('{"config": {"sample_rate": 3}}', "sample_rate"), ("{", "truncated"), ('{"config": {"words": "?"}}', "words")],
)
def test_what_cannot_be_heard_is_told(daemon: Background, first: str, named: str) -> None:
    with opened(daemon) as socket:
        socket.send(first)
        assert named in json.loads(socket.recv(60))["error"]
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


def test_who_says_nothing_is_sent_away(start: Callable[..., AbstractContextManager[Background]]) -> None:
    with start(idle_seconds=0.5) as background, opened(background) as socket:
        assert "NET-0001" in json.loads(socket.recv(60))["error"]
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011


def test_who_says_nothing_does_not_hold_the_end_up(start: Callable[..., AbstractContextManager[Background]]) -> None:
    """A connection whose first message has not come ends with the daemon, as any other."""
    with ExitStack() as held:
        with start() as background:
            socket = held.enter_context(opened(background))
            began = time.monotonic()
        assert time.monotonic() - began < 20
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
