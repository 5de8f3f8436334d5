"""When a stream of ``/v1/speak`` ends without its client: idle, too long, one too many, drained."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from codec.model import TtsModel
from daemon.serve import Background
from tests.daemon.support import HTTP, LONG, SHORT, Voice, eventually, taken, tell, until
from tests.lanes import held

Start = Callable[..., AbstractContextManager[Background]]


def test_an_idle_stream_is_closed_but_not_while_it_speaks_or_plays(talk: Start) -> None:
    with talk(idle_seconds=6) as background:  # much more than a machine stands still
        voice = Voice(background.url)
        with voice.open() as socket:
            began = time.monotonic()
            tell(socket, "Speak", text=SHORT)
            tell(socket, "Flush")
            audio, _ = until(socket, "Flushed")
            _, messages = taken(socket)
            assert socket.close_code == 1011
            assert messages[-1]["type"] == "Error"
            assert messages[-1]["description"].startswith("NET-0001: nothing to say and no KeepAlive for 6 s")
            assert time.monotonic() - began > len(audio) / 48_000, "the client was still playing"
        with voice.open() as socket:
            for _ in range(70):
                time.sleep(0.1)
                tell(socket, "KeepAlive")
            tell(socket, "Close")
            taken(socket)
            assert socket.close_code == 1000


def test_a_long_session_ends(talk: Start) -> None:
    with talk(max_session_seconds=1) as background, Voice(background.url).open() as socket:
        with suppress(ConnectionClosed):  # it may be over before there was time to say something
            tell(socket, "Speak", text=LONG)
        _, messages = taken(socket)
        assert socket.close_code == 1008
        assert "max_session_seconds" in messages[-1]["description"]


def test_one_too_many_is_refused(talk: Start) -> None:
    with talk(speakers=2) as background:
        voice = Voice(background.url)
        with voice.open(), voice.open():
            with pytest.raises(InvalidStatus) as refused, voice.open():
                pass
            response = refused.value.response
            assert (response.status_code, response.headers["retry-after"]) == (429, "5")
            assert (
                json.loads(response.body or b"")["err_msg"]
                == "all 2 speakers are taken (the daemon's setting speakers)"
            )
            answer = HTTP.post(background.url + "/v1/audio/speech", json={"input": "hello"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "speakers")
        assert eventually(lambda: background.hub.taken == 0)
        assert voice.speak(SHORT)[0]


def test_drain_lets_a_stream_speak_on_and_then_ends_it(talk: Start, tts_model: TtsModel) -> None:
    """``Background.__exit__`` drains with no time left: what was said is spoken to its end, then comes 1012."""
    with talk() as background:
        voice = Voice(background.url)
        ended: list[Any] = []

        def listen(socket: ClientConnection) -> None:
            ended.append((taken(socket)[1], socket.close_code))

        socket = voice.open().__enter__()
        tell(socket, "Speak", text=LONG)
        tell(socket, "Flush")
        while not isinstance(socket.recv(120), bytes):
            pass
        listening = threading.Thread(target=listen, args=(socket,))
        listening.start()
        with held(tts_model.engine.lane):  # It is not spoken to its end meanwhile.
            background.hub.drain()
            time.sleep(0.1)
            assert not ended
    listening.join(120)
    messages, code = ended[0]
    assert code == 1012
    assert {message["type"] for message in messages} <= {"Metadata", "Warning", "Flushed"}
    assert messages[-1]["type"] == "Flushed", "all of it is spoken"
    socket.close()
