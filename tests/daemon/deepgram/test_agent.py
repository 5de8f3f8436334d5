"""Deepgram's voice agent; ``tests/clients_outside`` runs its SDK."""

import json
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from codec.model import TtsModel
from daemon.serve import Background
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import LONG, REPLY
from tests.daemon.support import PATIENT, RATE, Speech, until
from tests.lanes import held

AUDIO: dict[str, Any] = {
    "input": {"encoding": "linear16", "sample_rate": RATE},
    "output": {"encoding": "linear16", "sample_rate": 24_000, "container": "none"},
}
AGENT: dict[str, Any] = {
    "language": "en",
    "listen": {"provider": {"type": "deepgram", "model": "nova-3"}},
    "think": {"provider": {"type": "open_ai", "model": "gpt-4o-mini", "temperature": 0.5}, "prompt": "Be brief."},
    "speak": {"provider": {"type": "deepgram", "model": "aura-2-thalia-en"}},
}


@contextmanager
def opened(background: Background, agent: dict[str, Any] = AGENT, **audio: Any) -> Generator[ClientConnection]:
    """A conversation whose settings are sent."""
    with connect(background.url.replace("http", "ws", 1) + "/v1/agent/converse", proxy=None, **PATIENT) as socket:
        assert json.loads(socket.recv(60))["type"] == "Welcome"
        tell(socket, "Settings", audio={**AUDIO, **audio}, agent=agent)
        yield socket


def tell(socket: ClientConnection, kind: str, **fields: Any) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def say(socket: ClientConnection, speech: Speech) -> None:
    pcm = speech.pcm + bytes(2 * RATE)
    for start in range(0, len(pcm), 3200):
        socket.send(pcm[start : start + 3200])


def test_a_person_is_heard_and_answered(partner: Background, chat: ChatServer, speech: Speech) -> None:
    chat.script.parts = (REPLY,)
    with opened(partner) as socket:
        until(socket, "SettingsApplied")
        say(socket, speech)
        sound, told = until(socket, "AgentAudioDone")
        kinds = [one["type"] for one in told]
        texts = {one["role"]: one["content"] for one in told if one["type"] == "ConversationText"}
        if "assistant" not in texts:
            texts["assistant"] = until(socket, "ConversationText")[1][-1]["content"]
    assert np.frombuffer(sound, "<i2").any()
    assert kinds.index("UserStartedSpeaking") < kinds.index("AgentThinking") < kinds.index("AgentStartedSpeaking")
    request = chat.seen.requests[0]
    assert texts["assistant"] == REPLY and request["messages"][-1] == {"role": "user", "content": texts["user"]}
    assert request["messages"][0] == {"role": "system", "content": "Be brief."} and request["temperature"] == 0.5
    (began,) = [one for one in told if one["type"] == "AgentStartedSpeaking"]
    assert began["total_latency"] == pytest.approx(began["ttt_latency"] + began["tts_latency"], abs=0.001)


def test_it_greets_and_is_told_what_to_say(partner: Background, chat: ChatServer, tts_model: TtsModel) -> None:
    with opened(partner, {**AGENT, "greeting": "Good evening."}) as socket:
        assert until(socket, "AgentAudioDone")[0]
        with held(tts_model.engine.lane):  # The first is not over before the second comes.
            tell(socket, "InjectAgentMessage", message="".join(LONG[:9]))
            tell(socket, "InjectAgentMessage", message="Not now.")
            until(socket, "InjectionRefused")
        until(socket, "AgentStartedSpeaking")
    assert not chat.seen.requests


def test_a_function_is_called_and_its_result_answered(partner: Background, chat: ChatServer) -> None:
    tool = {"name": "tide", "description": "When it comes in.", "parameters": {"type": "object", "properties": {}}}
    with opened(partner, {**AGENT, "think": {**AGENT["think"], "functions": [tool]}}) as socket:
        until(socket, "SettingsApplied")
        chat.script.calls, chat.script.parts, chat.script.finish = (("call_1", "tide", "{}"),), (), "tool_calls"
        tell(socket, "InjectUserMessage", content="When does the tide come in?")
        (call,) = until(socket, "FunctionCallRequest")[1][-1]["functions"]
        assert call == {"id": "call_1", "name": "tide", "arguments": "{}", "client_side": True}
        chat.forget()
        tell(socket, "FunctionCallResponse", id="call_2", name="tide", content="never")
        assert "call_2" in until(socket, "Error")[1][-1]["description"]
        tell(socket, "FunctionCallResponse", id="call_1", name="tide", content="At nine.")
        assert until(socket, "AgentAudioDone")[0]
    assert {"role": "tool", "tool_call_id": "call_1", "content": "At nine."} in chat.seen.requests[0]["messages"]


def test_it_changes_while_it_goes_on(partner: Background, chat: ChatServer) -> None:
    with opened(partner) as socket:
        until(socket, "SettingsApplied")
        tell(socket, "UpdatePrompt", prompt="Be long.")
        until(socket, "PromptUpdated")
        tell(socket, "UpdateSpeak", speak={"provider": {"type": "open_ai", "model": "tts-1", "voice": "alloy"}})
        until(socket, "SpeakUpdated")
        tell(socket, "UpdateThink", think={"provider": {"type": "open_ai", "model": "x"}, "prompt": "Be kind."})
        until(socket, "ThinkUpdated")
        tell(socket, "Settings", agent=AGENT)
        assert until(socket, "Error")[1][-1]["code"] == "SETTINGS_ALREADY_APPLIED"
        tell(socket, "InjectUserMessage", content="Well?")
        until(socket, "AgentAudioDone")
    assert chat.seen.requests[0]["messages"][0]["content"] == "Be kind."


def test_who_sends_no_settings_is_sent_away(
    talk: Callable[..., AbstractContextManager[Background]], chat: ChatServer
) -> None:
    """KeepAlive and sound are none."""
    with (
        talk(idle_seconds=0.5, llm_url=chat.url) as background,
        connect(background.url.replace("http", "ws", 1) + "/v1/agent/converse", proxy=None) as socket,
    ):
        with suppress(ConnectionClosed):  # Half a second may be over already.
            tell(socket, "KeepAlive")
            socket.send(bytes(3200))
        assert "NET-0001" in until(socket, "Error")[1][-1]["description"]


@pytest.mark.parametrize(
    ("audio", "agent", "named"),
    [
        ({"input": {"encoding": "opus", "sample_rate": 48000}}, AGENT, "audio.input.encoding"),
        ({"output": {"encoding": "linear16", "container": "wav"}}, AGENT, "audio.output.container"),
        ({"input": {"encoding": "mulaw", "sample_rate": 16000}}, AGENT, "rate"),
        ({}, {**AGENT, "speak": {"provider": {"model": "nobody-has-this"}}}, "voice"),
        ({}, "an-agent-of-the-cloud", "agent"),
    ],
)
def test_settings_that_cannot_be_applied_end_it(
    partner: Background, audio: dict[str, Any], agent: dict[str, Any], named: str
) -> None:
    with opened(partner, agent, **audio) as socket:
        assert named in until(socket, "Error")[1][-1]["description"]
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
