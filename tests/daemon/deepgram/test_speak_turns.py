"""``/v2/speak``: turns of speech, what an interruption says of them, and the SDK's own client."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from deepgram import AsyncDeepgramClient, DeepgramClient
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment
from deepgram.speak.v2 import types as sdk
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from codec.model import TtsModel
from daemon.deepgram.speak_turns_messages import commands
from daemon.messages import decoded
from daemon.serve import Background
from tests.daemon.support import LONG, PATIENT, SHORT, eventually, same, taken, tell, until
from tests.lanes import held, until_waiting

Start = Callable[..., AbstractContextManager[Background]]

# deepgram-sdk 7 still uses these; they are its own affair.
pytestmark = pytest.mark.filterwarnings("ignore:websockets.*deprecated:DeprecationWarning")

TYPES: dict[str, Any] = {
    name.removeprefix("SpeakV2"): getattr(sdk, name) for name in dir(sdk) if name.startswith("SpeakV2")
}


def opened(background: Background, **query: Any) -> AbstractContextManager[ClientConnection]:
    """A connection that speaks with seed 1."""
    text = urlencode({"model": "flux-alexis-en", "seed": 1, **query})
    return connect(f"{background.url.replace('http', 'ws', 1)}/v2/speak?{text}", proxy=None, **PATIENT)


def valid(messages: list[dict[str, Any]]) -> list[str]:
    """Types of messages, each of which the SDK's own type takes."""
    for message in messages:
        TYPES[message["type"]].model_validate(message)
    return [message["type"] for message in messages]


def test_a_turn_is_spoken_as_the_model_speaks_it(talker: Background, offline: Callable[..., bytes]) -> None:
    """SpeechStarted, all of its audio, SpeechMetadata; Flushed says only that the Flush has come."""
    with opened(talker) as socket:
        for word in SHORT.split(" "):
            tell(socket, "Speak", text=word + " ")
        tell(socket, "Flush")
        tell(socket, "Close")
        audio, messages = taken(socket)
        assert socket.close_code == 1000
    assert same(audio, offline(SHORT + " "))
    assert valid(messages) == ["Connected", "SpeechStarted", "Flushed", "SpeechMetadata", "SessionMetadata"]
    connected, started, flushed, turn, session = messages
    assert started["speech_id"] == flushed["speech_id"] == turn["speech_id"]
    assert len(started["speech_id"].removeprefix("dg_sp_")) == 12
    assert turn["audio_duration_ms"] == session["total_audio_duration_ms"] == round(len(audio) / 48)
    assert turn["input_character_count"] == session["total_input_character_count"] == len(SHORT) + 1
    assert connected["model_name"] == "pocket-tts-en" and len(connected["model_uuids"]) == 1


def test_turns_wait_for_one_another(talker: Background, offline: Callable[..., bytes]) -> None:
    """All audio between SpeechStarted and SpeechMetadata is that turn's; the last needs no Flush."""
    with opened(talker) as socket:
        for _ in range(2):
            tell(socket, "Speak", text=SHORT)
            tell(socket, "Flush")
        tell(socket, "Speak", text=SHORT)
        tell(socket, "Close")
        ids: list[str] = []
        for _ in range(3):
            before, messages = until(socket, "SpeechStarted")
            assert not before
            ids.append(messages[-1]["speech_id"])
            audio, messages = until(socket, "SpeechMetadata")
            assert len(audio) > 1920 and messages[-1]["speech_id"] == ids[-1]
            assert messages[-1]["audio_duration_ms"] == round(len(audio) / 48)
            assert len(ids) > 1 or same(audio, offline(SHORT))
        assert len(set(ids)) == 3
        rest, messages = taken(socket)
        assert not rest and valid(messages) == ["SessionMetadata"]
        assert messages[-1]["total_input_character_count"] == 3 * len(SHORT)


def test_an_interrupt_tells_what_was_heard(talker: Background, offline: Callable[..., bytes]) -> None:
    """Nothing old comes after it, the turns that waited are forgotten, and the session's clock is the client's."""
    with opened(talker) as socket:
        for text in (LONG, "Never said."):
            tell(socket, "Speak", text=text)
            tell(socket, "Flush")
        sound = 0
        while sound < 24_000:
            message = socket.recv(120)
            sound += len(message) if isinstance(message, bytes) else 0
        tell(socket, "Interrupt", playback_offset={"type": "time_ms", "value": 400})
        tell(socket, "Speak", text=SHORT)
        tell(socket, "Flush")
        _, messages = until(socket, "SpeechInterrupted")
        interrupted = messages[-1]
        valid([interrupted])
        assert interrupted["audio_played_ms"] == 400
        assert interrupted["text_spoken"] + interrupted["text_remaining"] == LONG
        assert 0 < len(interrupted["text_spoken"]) < 20
        assert interrupted["metadata"]["input_character_count"] == len(LONG)
        assert interrupted["metadata"]["audio_duration_ms"] >= 400
        audio, messages = until(socket, "SpeechMetadata")
        assert valid([m for m in messages if m["type"] != "Flushed"]) == ["SpeechStarted", "SpeechMetadata"]
        assert same(audio, offline(SHORT))
        tell(socket, "Close")
        _, messages = taken(socket)
    assert messages[-1]["total_audio_duration_ms"] == 400 + round(len(audio) / 48)


def test_one_who_listens_longer_than_it_was_made_is_understood(talker: Background) -> None:
    """Audio is made faster than it plays: an Interrupt may concern a turn whose SpeechMetadata has come."""
    with opened(talker) as socket:
        tell(socket, "Speak", text=SHORT)
        tell(socket, "Flush")
        audio, _ = until(socket, "SpeechMetadata")
        most = round(len(audio) / 48)
        tell(socket, "Interrupt", playback_offset={"type": "time_ms", "value": most // 2})
        _, messages = until(socket, "SpeechInterrupted")
        said = messages[-1]
        assert (said["text_spoken"] + said["text_remaining"], said["audio_played_ms"]) == (SHORT, most // 2)
        assert 0 < len(said["text_spoken"]) < len(SHORT)


def test_interrupts_that_mean_nothing(talker: Background, tts_model: TtsModel) -> None:
    """Each has its warning, and the stream goes on."""

    def warned(socket: ClientConnection, **fields: Any) -> str:
        tell(socket, "Interrupt", **fields)
        return str(until(socket, "Warning")[1][-1]["code"])

    with opened(talker) as socket:
        assert warned(socket) == "NO_ACTIVE_SPEECH"
        with held(tts_model.engine.lane):
            tell(socket, "Speak", text=LONG)
            until_waiting(tts_model.engine.lane, 1)
            assert warned(socket) == "NO_AUDIO_GENERATED"
        while not isinstance(socket.recv(120), bytes):
            pass
        with held(tts_model.engine.lane):
            until_waiting(tts_model.engine.lane, 1)
            tell(socket, "Interrupt")
            assert warned(socket) == "INTERRUPT_IN_PROGRESS"
        _, messages = until(socket, "SpeechInterrupted")
        at = messages[-1]["audio_played_ms"]
        assert at > 0 and "text_spoken" not in messages[-1]
        tell(socket, "Speak", text=LONG)
        while not isinstance(socket.recv(120), bytes):
            pass
        assert warned(socket, playback_offset={"type": "time_ms", "value": at}) == "INVALID_INTERRUPT_OFFSET"
        tell(socket, "Flush")
        assert until(socket, "SpeechMetadata")[0]


def test_what_is_not_understood_has_a_warning(talker: Background) -> None:
    with opened(talker, expressivity=2, tag="mine") as socket:
        socket.send("{")
        tell(socket, "Clear")
        tell(socket, "Interrupt", playback_offset={"type": "time_ms", "value": 10**400})
        socket.send(b"\0\0")
        tell(socket, "Flush")
        tell(socket, "Speak", text="x" * 65_537)
        tell(socket, "Speak", text="… — !")
        tell(socket, "Close")
        _, messages = taken(socket)
        assert socket.close_code == 1000
    codes = [m["code"] for m in messages if m["type"] == "Warning"]
    assert codes == [
        "NOT_HONOURED", "NOT_HONOURED", "NOT_UNDERSTOOD", "NOT_UNDERSTOOD", "NOT_UNDERSTOOD", "BINARY",
        "NO_ACTIVE_SPEECH", "TEXT_LIMIT",
        "NO_SYNTHESIZABLE_TEXT",
    ]  # fmt: skip
    turn = next(m for m in messages if m["type"] == "SpeechMetadata")
    assert (turn["audio_duration_ms"], turn["input_character_count"]) == (0, 5)


def test_speed_changes_between_sentences(talker: Background) -> None:
    """A Configure counts from the next sentence on, which is then as long as if the session had that speed."""

    def lengths(*changes: float | None, **query: Any) -> list[int]:
        found: list[int] = []
        with opened(talker, **query) as socket:
            for speed in changes:
                if speed is not None:
                    tell(socket, "Configure", speed=speed)
                    answer = until(socket, "ConfigureSuccess")[1][-1]
                    assert valid([answer]) and answer["applied"] == {"speed": speed}
                tell(socket, "Speak", text=SHORT)
                tell(socket, "Flush")
                found.append(until(socket, "SpeechMetadata")[1][-1]["audio_duration_ms"])
        return found

    slow, fast = lengths(None, None), lengths(None, None, speed=2)
    assert lengths(2.0, 1.0) == [fast[0], slow[1]] and fast[0] < 0.6 * slow[0]
    with opened(talker) as socket:
        tell(socket, "Configure", speed=9)
        answer = until(socket, "ConfigureFailure")[1][-1]
        tell(socket, "Configure")
        assert until(socket, "ConfigureSuccess")[1][-1]["applied"] == {"speed": 1.0}
    assert valid([answer]) and answer == {
        "type": "ConfigureFailure", "code": "SPEED_OUT_OF_RANGE", "field": "speed", "value": 9.0,
        "description": "speed: 9 lies outside 0.25…4",
    }  # fmt: skip


def test_a_session_that_is_too_long_says_so(talk: Start) -> None:
    """It is never idle: listening has no message that keeps it alive."""
    with talk(max_session_seconds=1.5, idle_seconds=0.5) as background, opened(background) as socket:
        _, messages = taken(socket)
        assert socket.close_code == 1008
        assert messages[-2:][0]["code"] == "SessionLength"
        assert valid(messages)[-1] == "SessionMetadata"


def test_refusals(talker: Background, daemon: Background) -> None:
    for background, query, status in ((talker, {"speed": 9}, 400), (talker, {"model": "x"}, 400), (daemon, {}, 404)):
        with pytest.raises(InvalidStatus) as error, opened(background, **query):
            pass
        assert error.value.response.status_code == status
    assert eventually(lambda: talker.hub.taken == 0)


@pytest.fixture
def environment(talker: Background) -> Iterator[DeepgramClientEnvironment]:
    socket = talker.url.replace("http", "ws", 1)
    yield DeepgramClientEnvironment(base=talker.url, production=socket, agent=socket, agent_rest=talker.url)


def test_deepgrams_client(environment: DeepgramClientEnvironment) -> None:
    """As its users write it: a turn, an interruption, a change of speed, another turn."""
    messages: list[Any] = []
    with DeepgramClient(api_key="any", environment=environment).speak.v2.connect(
        model="flux-alexis-en",
        encoding="linear16",
        sample_rate="16000",
        speed=1.0,
        request_options={"additional_query_parameters": {"seed": 1}},
    ) as connection:

        def on(message: Any) -> None:
            messages.append(message)
            if isinstance(message, bytes) and sum(isinstance(m, bytes) for m in messages) == 1:
                connection.send_interrupt()
                connection.send_configure(sdk.SpeakV2Configure(speed=1.5))
                connection.send_speak(sdk.SpeakV2Speak(text=SHORT))
                connection.send_flush()
                connection.send_close()

        connection.on(EventType.MESSAGE, on)
        connection.send_speak(sdk.SpeakV2Speak(text=LONG))
        connection.start_listening()
    told = [message.type for message in messages if not isinstance(message, bytes)]
    assert told[:2] == ["Connected", "SpeechStarted"] and told[-2:] == ["SpeechMetadata", "SessionMetadata"]
    assert set(told[2:-2]) == {"SpeechInterrupted", "ConfigureSuccess", "SpeechStarted", "Flushed"}
    assert messages[-2].input_character_count == len(SHORT)


def test_deepgrams_client_async(environment: DeepgramClientEnvironment) -> None:
    async def run() -> list[Any]:
        client = AsyncDeepgramClient(api_key="any", environment=environment)
        async with client.speak.v2.connect(model="flux-alexis-en", encoding="mulaw", sample_rate="8000") as connection:
            await connection.send_speak(sdk.SpeakV2Speak(text=SHORT))
            await connection.send_flush()
            await connection.send_close()
            return [message async for message in connection]

    messages = asyncio.run(run())
    assert sum(len(message) for message in messages if isinstance(message, bytes)) > 640
    assert messages[-1].type == "SessionMetadata"


def test_deepgrams_client_makes_files(environment: DeepgramClientEnvironment) -> None:
    with httpx.Client(timeout=120) as own:  # the SDK never closes one that it has made itself
        client = DeepgramClient(api_key="any", environment=environment, httpx_client=own)
        audio = client.speak.v2.audio.generate(
            model="flux-alexis-en", text=SHORT, encoding="linear16", container="wav", expressivity=1
        )
        assert b"".join(audio).startswith(b"RIFF")


@given(st.text() | st.builds(json.dumps, st.dictionaries(st.text(), st.integers() | st.text())))
def test_any_text_is_a_command_or_an_error(text: str) -> None:
    try:
        decoded(text, commands)
    except ValueError as error:  # msgspec's errors are such
        assert str(error)
