"""What ``/v1/speak`` does not take: parameters before the upgrade, messages after it."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus

from daemon.serve import Background
from tests.daemon.support import HTTP, SHORT, Voice, same, taken, tell, until

Start = Callable[..., AbstractContextManager[Background]]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"redact": "pci"}, "redact: nothing is redacted here"),
        ({"encoding": "mp3"}, "encoding: 'mp3' is none of linear16, float32, mulaw, alaw"),
        ({"container": "wav"}, "container: a stream is raw audio"),
        ({"sample_rate": "4000"}, "sample_rate: 4000 Hz lies outside 8000…48000 Hz"),
        ({"sample_rate": "loud"}, "sample_rate: 'loud' is not a whole number"),
        ({"speed": "9"}, "speed: 9 lies outside 0.25…4"),
        ({"speed": "nan"}, "speed: 'nan' is not a number"),
        ({"speed": "-1"}, "speed: '-1' is not a number"),
        ({"seed": str(2**63)}, "seed: "),
        ({"voice": "nobody"}, "has no 'nobody'; voices: kathleen, slt"),
        ({"voice": "../../etc/passwd"}, "has no '../../etc/passwd'"),
        ({"language": "de"}, "speaks en, not 'de'"),
        ({"model": "aura-2-luna-es"}, "speaks en, not 'es'"),
        ({"model": "nova-3"}, "'nova-3' is not loaded; 'pocket-tts-en' is"),
        ({"marks": "maybe"}, "marks: 'maybe' is not true or false"),
    ],
)
def test_a_wrong_parameter_is_named_before_the_upgrade(voice: Voice, query: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidStatus) as refused, voice.open(**query):
        pass
    assert refused.value.response.status_code == 400
    body = json.loads(refused.value.response.body or b"")
    assert body["err_code"] == "Bad Request"
    assert says in body["err_msg"]


def test_plain_http_is_told_to_upgrade(talker: Background) -> None:
    answer = HTTP.get(talker.url + "/v1/speak")
    assert answer.status_code == 426
    assert answer.json()["err_msg"] == "/v1/speak is a WebSocket, or a POST of a JSON object with text"


def test_a_daemon_without_a_voice_says_so(daemon: Background) -> None:
    with pytest.raises(InvalidStatus) as refused, Voice(daemon.url).open():
        pass
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body or b"")["err_msg"] == "no speaking model is loaded (tts_model)"
    for answer in (
        HTTP.post(daemon.url + "/v1/audio/speech", json={"input": "hello"}),
        HTTP.get(daemon.url + "/v1/audio/voices"),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "no_speaking_model"
    assert [card["does"] for card in HTTP.get(daemon.url + "/v1/models").json()["data"]] == ["hearing"]
    assert HTTP.get(daemon.url + "/readyz").json() == {
        "status": "ready",
        "speaking": False,
        "headroom": 16,
        "live": True,
    }


def test_readiness_tells_that_it_speaks(talker: Background) -> None:
    assert HTTP.get(talker.url + "/readyz").json() == {
        "status": "ready",
        "speaking": True,
        "headroom": 16,
        "live": True,
    }


def test_what_is_not_understood_is_answered_and_the_stream_goes_on(voice: Voice, offline: Callable[..., bytes]) -> None:
    with voice.open() as socket:
        for text in (
            "hello",
            "[]",
            '{"type": "Sing"}',
            '{"type": "Speak"}',
            '{"type": "Speak", "text": 7}',
            "[" * 9999,
        ):
            socket.send(text)
            _, messages = until(socket, "Warning")
            assert messages[-1]["code"] == "NOT_UNDERSTOOD"
        socket.send(b"\x00\x01")
        assert until(socket, "Warning")[1][-1]["code"] == "BINARY"
        tell(socket, "Speak", text="x" * 65_537)
        warning = until(socket, "Warning")[1][-1]
        assert warning["code"] == "TEXT_LIMIT"
        assert "65537 characters would wait to be spoken, the limit is 65536" in warning["description"]
        tell(socket, "Speak", text="")
        tell(socket, "Speak", text="\x00\x07 \x1b[31m \u202e !!! \U0001f600")
        tell(socket, "Flush")
        until(socket, "Flushed")
        tell(socket, "Clear")  # the next piece is the first again, whatever of that could be spoken
        tell(socket, "Speak", text=SHORT)
        tell(socket, "Close")
        audio, _ = taken(socket)
        assert same(audio, offline(SHORT))
        assert socket.close_code == 1000


@given(st.lists(st.one_of(st.binary(max_size=60), st.text(max_size=60)), max_size=6))
@settings(max_examples=25, deadline=None)
def test_any_message_is_survived(voice: Voice, rubbish: list[bytes | str]) -> None:
    with voice.open() as socket:
        for message in rubbish:
            socket.send(message)
        tell(socket, "Close")
        _, messages = taken(socket)
        assert {m["type"] for m in messages} <= {"Metadata", "Warning"}
        assert socket.close_code == 1000


def test_a_message_too_large_closes_with_1009(talk: Start) -> None:
    with talk(max_frame_bytes=2048) as background, Voice(background.url).open() as socket:
        tell(socket, "Speak", text="a" * 3000)
        taken(socket)
        assert socket.close_code == 1009
