"""OpenAI's agents for JavaScript, and the schemas by which they read every event."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from chat_endpoint import REPLY, chat_endpoint
from support import Daemon, Speech, heard_as, took
from websockets.sync.client import ClientConnection, connect

Event = dict[str, Any]


@pytest.fixture(scope="module")
def partner(serve: Callable[..., AbstractContextManager[Daemon]]) -> Iterator[Daemon]:
    """A daemon that answers by way of a slow chat endpoint, with a story first."""
    with chat_endpoint(story=True) as (url, _), serve("--llm-url", url) as one:
        yield one


def test_an_agent_is_interrupted_in_mid_answer(
    partner: Daemon, speech: Speech, pcm: bytes, node: Callable[..., str], tmp_path: Path
) -> None:
    """Two turns, the second one over the answer to the first: no error, every event as its schema has it."""
    (tmp_path / "speech.pcm").write_bytes(pcm)
    told = json.loads(node("agents_realtime.mjs", partner.socket_url, partner.key, str(tmp_path / "speech.pcm")))
    assert told["invalid"] == told["errors"] == []
    assert [heard_as(text, speech.text) > 0.8 for text in told["heard"]] == [True, True], told["heard"]
    assert told["interruptions"] >= 1
    assert [status for status, _ in told["texts"]] == ["cancelled", "completed"]
    assert told["texts"][1][1] == REPLY
    took("@openai/agents-realtime", "answer after the end of speech", told["answer_ms"] / 1000 + 1)  # of silence
    took("@openai/agents-realtime", "cut after speech over it began", told["interrupted_ms"] / 1000)


def test_rare_events_are_as_the_schema_has_them(
    partner: Daemon, pcm: bytes, node: Callable[..., str], tmp_path: Path
) -> None:
    """Those that an agent's conversation does not bring: text, tools, items that go, errors, a turn that fails."""
    headers = {"Authorization": f"Bearer {partner.key}"}
    events: list[Event] = []
    address = f"{partner.socket_url}/v1/realtime?model=gpt-realtime"
    with connect(address, additional_headers=headers, proxy=None, max_size=None) as socket:
        _tell(socket, "session.update", session={
            "type": "realtime", "output_modalities": ["text"],
            "audio": {"input": {"turn_detection": None, "transcription": {"model": "whisper-1"}}},
        })  # fmt: skip
        for role, part in (("user", "input_text"), ("assistant", "output_text"), ("system", "input_text")):
            item = {"id": f"item_{role}", "type": "message", "role": role, "content": [{"type": part, "text": "Hm."}]}
            _tell(socket, "conversation.item.create", item=item)
        _tell(socket, "conversation.item.retrieve", item_id="item_user")
        _tell(socket, "conversation.item.delete", item_id="item_assistant")
        _tell(socket, "response.cancel")
        _tell(socket, "nonsense")
        tool = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}
        _tell(socket, "response.create", response={"tools": [tool]})
        _until(socket, events, "response.done")
        call = next(event for event in events if event["type"] == "response.function_call_arguments.done")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "calm"}
        _tell(socket, "conversation.item.create", item=output)
        _tell(socket, "response.create", response={"output_modalities": ["audio"], "tools": [tool]})
        item = _until(socket, events, "response.output_audio.delta")["item_id"]
        _tell(socket, "response.cancel")
        _until(socket, events, "response.done")
        _tell(socket, "conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=100)
        _tell(socket, "input_audio_buffer.append", audio=base64.b64encode(pcm).decode())
        _tell(socket, "input_audio_buffer.commit")
        _until(socket, events, "conversation.item.input_audio_transcription.completed")
        _tell(socket, "input_audio_buffer.clear")
        _until(socket, events, "input_audio_buffer.cleared")
    kinds = {event["type"] for event in events}
    assert {"error", "conversation.item.deleted", "conversation.item.retrieved", "conversation.item.truncated"} <= kinds
    (tmp_path / "events").write_text("\n".join(json.dumps(event) for event in events), encoding="utf-8")
    assert json.loads(node("realtime_schemas.mjs", str(tmp_path / "events"))) == []


def _tell(socket: ClientConnection, kind: str, **fields: Any) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def _until(socket: ClientConnection, events: list[Event], kind: str) -> Event:
    while True:
        events.append(json.loads(socket.recv(60)))
        if events[-1]["type"] == kind:
            return events[-1]
