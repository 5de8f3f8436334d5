"""``/v1/listen`` with ``multichannel=true``: every channel is heard for itself, and counts as a session."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus

from audio.pcm import PcmDecoder
from daemon.serve import Background
from tests.daemon.support import RATE, Client, Speech, eventually, finals, send

Start = Callable[..., AbstractContextManager[Background]]


def interleaved(*channels: bytes) -> bytes:
    """Channels of 16-bit audio side by side; the shorter ones end in silence."""
    most = max(map(len, channels))
    return np.stack([np.frombuffer(one.ljust(most, b"\0"), "<i2") for one in channels], axis=1).tobytes()


def of(messages: list[dict[str, Any]], channel: int) -> list[dict[str, Any]]:
    """What was heard in one channel."""
    return [m for m in messages if m["type"] == "Results" and m["channel_index"][0] == channel]


@pytest.mark.parametrize("piece", [641, 9600])
def test_each_channel_is_heard_as_a_stream_of_its_own(client: Client, speech: Speech, piece: int) -> None:
    late = bytes(2 * RATE * 2) + speech.pcm
    alone = [client.transcribe(pcm) for pcm in (speech.pcm + bytes(2 * RATE * 2), late)]
    both = client.transcribe(
        interleaved(speech.pcm, late), piece=piece, channels=2, multichannel="true", interim_results=True,
        vad_events=True,
    )  # fmt: skip
    assert {tuple(m["channel_index"]) for m in both if m["type"] == "Results"} == {(0, 2), (1, 2)}
    for channel in (0, 1):
        heard, wanted = of(both, channel), of(alone[channel], 0)
        said = [m for m in heard if m["is_final"]]
        assert finals(heard) == finals(wanted) != ""
        assert [(m["start"], m["duration"]) for m in said] == [(m["start"], m["duration"]) for m in wanted]
        starts = [m for m in both if m["type"] == "SpeechStarted" and m["channel"] == [channel, 2]]
        assert (starts[0]["timestamp"] > 1.5) == (channel == 1)
    metadata = both[-1]
    assert (metadata["type"], metadata["channels"]) == ("Metadata", 2)
    assert metadata["duration"] == pytest.approx(len(late) / (2 * RATE), abs=1e-3)


def test_every_channel_answers_finalize(client: Client, speech: Speech) -> None:
    """Also the one in which there is nothing to end."""
    with client.open(channels=2, multichannel="true") as socket:
        send(socket, interleaved(speech.pcm, b""), 9600)
        socket.send('{"type": "Finalize"}')
        answers: list[dict[str, Any]] = []
        while len(answers) < 2:
            message = json.loads(socket.recv(60))
            if message["type"] == "Results" and message["from_finalize"]:
                answers.append(message)
        assert sorted(m["channel_index"] for m in answers) == [[0, 2], [1, 2]]
        socket.send('{"type": "CloseStream"}')
        rest = [json.loads(message) for message in socket]
        assert not any(m.get("from_finalize") for m in rest)


def test_channels_count_as_sessions(start: Start, speech: Speech) -> None:
    """A stream for whose channels there are not enough slots is refused before the upgrade, and leaves none taken."""
    with start(sessions=2) as background:
        client = Client(background.url)
        with client.open(channels=2, multichannel="true") as socket:
            assert background.hub.taken == 2
            with pytest.raises(InvalidStatus) as error, client.open():
                pass
            assert error.value.response.status_code == 429
            send(socket, interleaved(speech.pcm, speech.pcm), 9600)
            socket.send('{"type": "CloseStream"}')
            messages = [json.loads(message) for message in socket]
        assert finals(of(messages, 0)) == finals(of(messages, 1)) != ""
        assert eventually(lambda: background.hub.taken == 0)
        with pytest.raises(InvalidStatus) as error, client.open(channels=3, multichannel="true"):
            pass
        assert error.value.response.status_code == 429
        assert (
            json.loads(error.value.response.body or b"{}")["err_msg"]
            == "all 2 sessions are taken (the daemon's setting sessions)"
        )
        assert eventually(lambda: background.hub.taken == 0 and background.hub.headroom == 2)


def test_a_container_is_not_mixed_in_silence(client: Client) -> None:
    with pytest.raises(InvalidStatus) as error, client.open(raw=False, multichannel="true"):
        pass
    assert error.value.response.status_code == 400
    reason = json.loads(error.value.response.body or b"{}")["err_msg"]
    assert reason == "multichannel: a stream needs encoding, sample_rate and channels for it"


@given(st.integers(1, 8), st.lists(st.integers(0, 40), max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_a_channel_alone_is_what_it_would_be_without_the_others(channels: int, cuts: list[int], random: Any) -> None:
    frames = np.array([[random.randrange(-32768, 32768) for _ in range(channels)] for _ in range(30)], "<i2")
    data = frames.tobytes()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for channel in range(channels):
        decoder = PcmDecoder("linear16", 16_000, channels, 16_000, channel)
        pieces = [decoder.decode(data[a:b]) for a, b in zip(places, places[1:], strict=False)]
        alone = PcmDecoder("linear16", 16_000).decode(np.ascontiguousarray(frames[:, channel]).tobytes())
        assert np.array_equal(np.concatenate(pieces), alone)
