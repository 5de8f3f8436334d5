"""``/v2/listen``: turns as Deepgram's Flux tells them, over a real socket."""

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Any
from urllib.parse import urlencode

import msgspec
import numpy as np
import pytest
from deepgram.listen.v2 import types as sdk
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from daemon.deepgram.turns_messages import commands
from daemon.deepgram.turns_query import parse
from daemon.messages import decoded
from daemon.refusal import Refused
from daemon.serve import Background
from tests.audio.containers import contained
from tests.daemon.support import PATIENT, RATE, Client, Speech, finals, send

TYPES: dict[str, Any] = {
    "Connected": sdk.ListenV2Connected, "TurnInfo": sdk.ListenV2TurnInfo, "Error": sdk.ListenV2FatalError,
    "ConfigureSuccess": sdk.ListenV2ConfigureSuccess, "ConfigureFailure": sdk.ListenV2ConfigureFailure,
    "Warning": sdk.ListenV2Warning,
}  # fmt: skip
Open = Callable[..., AbstractContextManager[ClientConnection]]


@pytest.fixture
def flux(daemon: Background) -> Open:
    """A connection to /v2/listen."""

    def opened(raw: bool = True, **query: Any) -> AbstractContextManager[ClientConnection]:
        shape = {"encoding": "linear16", "sample_rate": RATE} if raw else {}
        asked = urlencode({"model": "flux-general-en", **shape, **query}, doseq=True)
        return connect(f"{daemon.url.replace('http', 'ws', 1)}/v2/listen?{asked}", proxy=None, **PATIENT)

    return opened


def rest(socket: Iterable[str | bytes]) -> list[dict[str, Any]]:
    """All messages to the end, checked against the SDK's types; their numbers go up."""
    messages: list[dict[str, Any]] = []
    with suppress(ConnectionClosed):
        for message in socket:
            messages.append(json.loads(message))
            TYPES[messages[-1]["type"]].model_validate(messages[-1])
    numbers = [message["sequence_id"] for message in messages]
    assert numbers == sorted(set(numbers))
    return messages


def heard(flux: Open, *parts: bytes | str, **query: Any) -> list[dict[str, Any]]:
    """What is said of audio and messages, sent as fast as it goes, then CloseStream."""
    with flux(**query) as socket:
        for part in parts:
            if isinstance(part, str):
                socket.send(part)
            else:
                send(socket, part)
        socket.send('{"type": "CloseStream"}')
        messages = rest(socket)
        assert socket.close_code == 1000
    return messages


def turns(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The TurnInfos; each turn begins, goes on and ends in order."""
    infos = [message for message in messages if message["type"] == "TurnInfo"]
    for number in {info["turn_index"] for info in infos}:
        names = [info["event"] for info in infos if info["turn_index"] == number]
        assert names[0] == "StartOfTurn" and names.count("StartOfTurn") == 1
        assert names[-1] == "EndOfTurn" and names.count("EndOfTurn") == 1
        eager = [name for name in names if name in ("EagerEndOfTurn", "TurnResumed")]
        assert eager[::2] == ["EagerEndOfTurn"] * len(eager[::2]) and eager[1::2] == ["TurnResumed"] * len(eager[1::2])
    assert all(("trigger" in info) == (info["event"] == "EndOfTurn") for info in infos)
    return infos


def ends(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(transcript, trigger) of each turn."""
    return [(info["transcript"], info["trigger"]) for info in turns(messages) if info["event"] == "EndOfTurn"]


def test_a_turn_holds_what_a_stream_hears(flux: Open, client: Client, speech: Speech) -> None:
    """Ended by silence, by the client, by the end; the text is that of /v1/listen."""
    text = finals(client.transcribe(speech.pcm + bytes(3 * RATE)))
    quiet = bytes(3 * RATE)
    messages: list[dict[str, Any]] = []
    with flux() as socket:
        send(socket, speech.pcm + quiet)
        while not messages or messages[-1].get("event") != "EndOfTurn":
            messages.append(json.loads(socket.recv(60)))
        socket.send('{"type": "Configure", "thresholds": {"eot_threshold": 1}}')
        send(socket, speech.pcm)
        socket.send('{"type": "ForceEndTurn"}')
        send(socket, quiet + speech.pcm)
        socket.send('{"type": "CloseStream"}')
        messages += rest(socket)
    assert messages[0]["type"] == "Connected"
    found = ends(messages)
    assert [trigger for _, trigger in found] == ["model", "manual", "close"]
    assert found[0][0] == text != ""
    first = [info for info in turns(messages) if info["turn_index"] == 0]
    assert 0.7 <= first[-1]["end_of_turn_confidence"] < 1
    assert [word["word"] for word in first[-1]["words"]] == first[-1]["transcript"].split()
    assert 0 <= first[-1]["audio_window_start"] < first[-1]["audio_window_end"] <= speech.seconds + 1.5


def test_an_eager_end_has_the_text_of_the_end(flux: Open, speech: Speech) -> None:
    """Or speech goes on, and TurnResumed says so. However slow the machine is: more is sent when it was told."""
    pause = bytes(int(0.5 * RATE) * 2)
    messages: list[dict[str, Any]] = []
    with flux(eager_eot_threshold=0.3, eot_threshold=1, eot_timeout_ms=3000) as socket:
        for _ in range(2):
            send(socket, speech.pcm + pause)
            messages.append(json.loads(socket.recv(60)))
            while messages[-1].get("event") != "EagerEndOfTurn":
                messages.append(json.loads(socket.recv(60)))
        send(socket, bytes(4 * RATE))
        socket.send('{"type": "CloseStream"}')
        infos = turns(messages + rest(socket))
    eager = [info for info in infos if info["event"] == "EagerEndOfTurn"]
    assert eager and all(info["transcript"] and 0.3 <= info["end_of_turn_confidence"] < 1 for info in eager)
    for number, info in enumerate(infos):
        if info["event"] == "EagerEndOfTurn":
            following = infos[number + 1]
            assert following["event"] in ("TurnResumed", "EndOfTurn")
            if following["event"] == "EndOfTurn":
                assert following["transcript"] == info["transcript"]


def test_a_threshold_of_one_leaves_it_to_the_client_or_to_the_timeout(flux: Open, speech: Speech) -> None:
    messages = heard(flux, speech.pcm + bytes(2 * RATE), speech.pcm, '{"type": "ForceEndTurn"}', eot_threshold="1.0")
    assert [trigger for _, trigger in ends(messages)] == ["manual"]
    messages = heard(flux, speech.pcm + bytes(4 * RATE), eot_threshold=1, eot_timeout_ms=1000)
    assert [trigger for _, trigger in ends(messages)] == ["timeout"]


def test_nothing_said_is_no_turn(flux: Open, silence: bytes) -> None:
    """Also where the client says that one ends, which is told."""
    messages = heard(flux, silence * 3, '{"type": "ForceEndTurn"}')
    assert turns(messages) == []
    assert [m["code"] for m in messages if m["type"] == "Warning"] == ["FORCE_END_TURN_NO_ACTIVE_TURN"]


def test_thresholds_and_keyterms_change_under_way(flux: Open, speech: Speech) -> None:
    configure = {"type": "Configure", "thresholds": {"eot_threshold": 0.9, "eot_timeout_ms": 700}, "keyterms": ["Oslo"]}
    messages = heard(flux, speech.pcm, bytes(4 * RATE), json.dumps(configure), speech.pcm, bytes(4 * RATE))
    [changed] = [message for message in messages if message["type"] == "ConfigureSuccess"]
    assert changed["thresholds"] == {"eot_threshold": 0.9, "eot_timeout_ms": 700} and changed["keyterms"] == ["Oslo"]
    assert ends(messages)[-1][0]


@pytest.mark.parametrize(
    ("thresholds", "more", "says"),
    [
        ({"eot_threshold": 0.4}, {}, "eot_threshold: 0.4 lies outside 0.5…1"),
        ({"eager_eot_threshold": 0.8}, {}, "more than eot_threshold"),
        ({"eot_timeout_ms": 1}, {}, "eot_timeout_ms: 1 lies outside 500…60000"),
        ({}, {"keyterms": ["word"] * 201}, "keyterms: 201 words"),
        ({}, {"keyterms": "long" * 200_000}, "keyterms: 800000 characters, the limit is 4096"),
        ({}, {"keyterms": [""] * 200_000}, "keyterms: 199999 characters"),
    ],
)
def test_what_cannot_be_configured_is_refused_and_the_stream_goes_on(
    flux: Open, speech: Speech, thresholds: dict[str, Any], more: dict[str, Any], says: str
) -> None:
    messages = heard(flux, json.dumps({"type": "Configure", "thresholds": thresholds, **more}), speech.pcm)
    [refused] = [message for message in messages if message["type"] == "ConfigureFailure"]
    assert says in refused["description"] and ends(messages)


def test_what_is_not_understood_is_a_warning(flux: Open, speech: Speech) -> None:
    """As is what nobody honours. A Configure is answered as one, whatever is wrong with it."""
    huge = json.dumps({"type": "Configure", "thresholds": {"eot_timeout_ms": 10**400}})
    text = json.dumps({"type": "Configure", "thresholds": {"eot_threshold": "x"}})
    messages = heard(
        flux, "{", '{"type": "Speak"}', huge, text, '{"type": "KeepAlive"}', speech.pcm, numerals="true", tag="a"
    )
    codes = [message["code"] for message in messages if message["type"] == "Warning"]
    assert codes == ["NOT_HONOURED", "NOT_HONOURED", "NOT_UNDERSTOOD", "NOT_UNDERSTOOD"]
    refused = [message["description"] for message in messages if message["type"] == "ConfigureFailure"]
    assert ["eot_timeout_ms" in refused[0], "$.thresholds.eot_threshold" in refused[1], len(refused)] == [True, True, 2]
    assert ends(messages)


def test_a_browsers_container_is_heard_and_a_broken_one_is_an_error(flux: Open, speech: Speech) -> None:
    data = contained("webm", np.repeat(np.frombuffer(speech.pcm, "<i2"), 3)[:, None], 48_000)
    assert ends(heard(flux, data, raw=False))
    with flux(raw=False) as socket:
        socket.send(b"no audio at all" * 9)
        messages = rest(socket)
        assert socket.close_code == 1008
    assert messages[-1]["type"] == "Error" and messages[-1]["code"] == "NOT_DECODABLE"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"eot_threshold": 0.4}, "eot_threshold: 0.4 lies outside 0.5…1"),
        ({"eager_eot_threshold": 0.2}, "eager_eot_threshold: 0.2 lies outside 0.3…0.9"),
        ({"eager_eot_threshold": 0.9}, "eager_eot_threshold: 0.9 is more than eot_threshold, 0.7"),
        ({"eot_timeout_ms": 499}, "eot_timeout_ms: 499 lies outside 500…60000"),
        ({"eot_threshold": "high"}, "eot_threshold: 'high' is not a number"),
        ({"sample_rate": 1}, "sample_rate: 1 Hz lies outside"),
        ({"keyterm": "word " * 201}, "keyterm: 201 words"),
        ({"model": "mine"}, "model: 'mine' is not loaded"),
    ],
)
def test_a_wrong_query_is_refused_before_the_upgrade(flux: Open, query: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidStatus) as error, flux(**query):
        pass
    assert error.value.response.status_code == 400
    assert says in json.loads(error.value.response.body or b"{}")["err_msg"]


@given(st.binary(max_size=200) | st.text(st.sampled_from("eot_threshold=&%+0.19agr")).map(str.encode))
def test_any_query_is_read_or_refused(query: bytes) -> None:
    with suppress(Refused):
        parse(query, "pocket")


@given(st.text(max_size=80) | st.sampled_from(["[" * 9999, '{"type":"Configure","thresholds":{"eot_threshold":"x"}}']))
def test_any_text_is_a_command_or_an_error(text: str) -> None:
    with suppress(msgspec.MsgspecError):
        decoded(text, commands)
