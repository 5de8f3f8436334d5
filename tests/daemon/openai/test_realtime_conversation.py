"""Conversation sessions of /v1/realtime: heard, answered by a chat endpoint on a real socket, spoken, interrupted."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from daemon.serve import Background
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import ASKED, LONG, REPLY, ask, session, sound
from tests.daemon.support import eventually

Talk = Callable[..., AbstractContextManager[Background]]


def test_what_is_said_is_answered_aloud(partner: Background, chat: ChatServer, pcm: bytes) -> None:
    """Speech in, speech out: the whole loop on one socket, without the client asking."""
    with session(partner.url, model="gpt-realtime") as live:
        told = live.update(type="realtime", instructions="Be brief.", audio={"input": {"transcription": {}}})
        assert told["model"] == "gpt-realtime"
        live.append(pcm)
        done = live.until("response.done")["response"]
        assert done["status"] == "completed" and done["usage"]["input_tokens"] == 11
        heard = live.of("conversation.item.input_audio_transcription.completed")[0]["transcript"]
        request = chat.seen.requests[0]
        assert request["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": heard},
        ]
        assert request["stream"] and request["model"] == "gpt-realtime"
        assert chat.seen.keys == ["Bearer chat-key"]
        transcript = "".join(event["delta"] for event in live.of("response.output_audio_transcript.delta"))
        assert transcript == REPLY == live.of("response.output_audio_transcript.done")[0]["transcript"]
        assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": REPLY}]
        assert len(sound(live)) / 48_000 > 0.5
        assert done["usage"]["output_token_details"]["audio_tokens"] > 0


def test_the_events_of_a_response_come_in_openais_order(partner: Background, chat: ChatServer) -> None:
    """From response.created to response.done, deltas aside."""
    with session(partner.url) as live:
        done = ask(live)
        begin = live.kinds.index("response.created")
        deltas = ("response.output_audio.delta", "response.output_audio_transcript.delta")
        assert [kind for kind in live.kinds[begin:] if kind not in deltas] == [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
        ]
        of_response = [event for event in live.events[begin:] if "response_id" in event]
        assert {event["response_id"] for event in of_response} == {done["id"]}


def test_sound_comes_while_the_reply_still_arrives(partner: Background, chat: ChatServer) -> None:
    """Sentence by sentence: the last text comes only when there was sound."""
    heard = threading.Event()

    def parts() -> Iterator[str]:
        yield "The boats came home at nine. "
        yield "Then it "
        assert heard.wait(120)
        yield "rained."

    chat.script.parts = parts()
    with session(partner.url) as live:
        live.tell("conversation.item.create", item=ASKED)
        live.tell("response.create")
        live.until("response.output_audio.delta", timeout=60)
        heard.set()
        done = live.until("response.done")["response"]
        assert done["output"][0]["content"][0]["transcript"] == REPLY


@pytest.mark.parametrize(
    "format", [{"type": "audio/pcmu"}, {"type": "audio/pcma"}, {"type": "audio/pcm", "rate": 16_000}]
)
def test_the_voice_speaks_in_the_format_asked_for(
    partner: Background, chat: ChatServer, format: dict[str, Any]
) -> None:
    """The same length of speech, whatever a second of it takes on the wire."""
    rate = {"audio/pcmu": 8000, "audio/pcma": 8000}.get(format["type"], 32_000)
    with session(partner.url) as live:
        live.update(audio={"output": {"format": format, "voice": "alloy"}})
        ask(live)
        assert 0.5 < len(sound(live)) / rate < 60
        assert max(len(event["delta"]) for event in live.of("response.output_audio.delta")) < 400_000


@pytest.mark.parametrize("voice", ["nobody", {"id": "nobody"}, "../../etc/passwd"])
def test_a_voice_that_nobody_has_is_refused_where_it_is_asked_for(
    partner: Background, chat: ChatServer, voice: Any
) -> None:
    """All of the update, or the response; the session speaks as before."""
    with session(partner.url) as live:
        error = live.update(instructions="Whisper.", audio={"output": {"voice": voice}})["error"]
        assert (error["param"], error["type"]) == ("session.audio.output.voice", "invalid_request_error")
        assert "voices: " in error["message"]
        told = live.update()
        assert told["instructions"] == "" and told["audio"]["output"]["voice"] == "default"
        live.tell("response.create", response={"audio": {"output": {"voice": voice}}})
        assert live.until("error")["error"]["param"] == "response.audio.output.voice"
        assert ask(live)["status"] == "completed"


def test_text_is_answered_in_text_where_that_is_asked_for(partner: Background, chat: ChatServer) -> None:
    """output_modalities text: no sound, other events."""
    with session(partner.url) as live:
        done = ask(live, output_modalities=["text"], instructions="Whisper.", max_output_tokens=50)
        assert "".join(event["delta"] for event in live.of("response.output_text.delta")) == REPLY
        assert done["output"][0]["content"] == [{"type": "output_text", "text": REPLY}]
        assert not live.of("response.output_audio.delta")
        request = chat.seen.requests[0]
        assert request["messages"][0] == {"role": "system", "content": "Whisper."} and request["max_tokens"] == 50
        ask(live, output_modalities=["text"])
        assert [message["content"] for message in chat.seen.requests[1]["messages"]] == [
            "What happened?", REPLY, "What happened?",
        ]  # fmt: skip


def test_tools_are_called_and_their_output_goes_back(partner: Background, chat: ChatServer) -> None:
    """function_call items with their arguments, then function_call_output in the next request."""
    chat.script.parts, chat.script.finish = (), "tool_calls"
    chat.script.calls = (("call_1", "weather", '{"place": "sea"}'), ("call_2", "tide", "{}"))
    tool = {"type": "function", "name": "weather", "description": "Tells it.", "parameters": {"type": "object"}}
    with session(partner.url) as live:
        live.update(tools=[tool], tool_choice="auto")
        done = ask(live)
        assert [(item["name"], item["call_id"], item["arguments"]) for item in done["output"]] == [
            ("weather", "call_1", '{"place": "sea"}'),
            ("tide", "call_2", "{}"),
        ]
        ended = live.of("response.function_call_arguments.done")[0]
        joined = "".join(
            event["delta"]
            for event in live.of("response.function_call_arguments.delta")
            if event["call_id"] == "call_1"
        )
        assert ended["arguments"] == joined == '{"place": "sea"}' and ended["name"] == "weather"
        function = {name: value for name, value in tool.items() if name != "type"}
        assert chat.seen.requests[0]["tools"] == [{"type": "function", "function": function}]
        chat.forget()
        output = {"type": "function_call_output", "call_id": "call_1", "output": '{"wind": 7}'}
        live.tell("conversation.item.create", item=output)
        live.tell("response.create")
        live.until("response.done")
        calls, answer = chat.seen.requests[0]["messages"][1:3]
        assert [call["id"] for call in calls["tool_calls"]] == ["call_1", "call_2"]
        assert answer == {"role": "tool", "tool_call_id": "call_1", "content": '{"wind": 7}'}


def test_items_are_placed_deleted_and_missed(partner: Background, chat: ChatServer) -> None:
    """previous_item_id root and an id; delete; unknown ids are errors that name the field."""

    def item(name: str) -> dict[str, Any]:
        return {**ASKED, "id": name, "content": [{"type": "input_text", "text": name}]}

    with session(partner.url) as live:
        live.tell("conversation.item.create", item=item("one"))
        live.tell("conversation.item.create", item=item("zero"), previous_item_id="root")
        live.tell("conversation.item.create", item=item("half"), previous_item_id="zero")
        live.tell("conversation.item.create", item=item("gone"))
        live.tell("conversation.item.delete", item_id="gone")
        live.tell("conversation.item.create", item=item("one"))
        assert live.until("error")["error"]["param"] == "item.id"
        live.tell("conversation.item.create", item=item("x"), previous_item_id="nowhere")
        assert live.until("error")["error"]["param"] == "previous_item_id"
        live.tell("response.create", response={"output_modalities": ["text"]})
        live.until("response.done")
        assert [message["content"] for message in chat.seen.requests[0]["messages"]] == ["zero", "half", "one"]
        live.tell("response.create", response={
            "output_modalities": ["text"], "conversation": "none", "metadata": {"topic": "tides"},
            "input": [{"type": "item_reference", "id": "half"}, item("own")],
        })  # fmt: skip
        done = live.until("response.done")["response"]
        assert done["metadata"] == {"topic": "tides"} and done["conversation_id"] is None
        assert [message["content"] for message in chat.seen.requests[1]["messages"]] == ["half", "own"]
        live.tell("conversation.item.retrieve", item_id=done["output"][0]["id"])
        assert live.until("error")["error"]["code"] == "item_not_found"


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({**ASKED, "status": "x"}, "item.status"),
        (
            {**ASKED, "content": [{"type": "input_image", "image_url": "data:,", "detail": "x"}]},
            "item.content[0].detail",
        ),
        ({**ASKED, "role": "system", "content": [{"type": "input_audio", "audio": "AAAA"}]}, "item.content[0].type"),
        ({**ASKED, "role": "assistant", "content": [{"type": "input_image"}]}, "item.content[0].type"),
        ({"type": "message", "role": "user"}, None),
        ({"type": "function_call", "name": "tide"}, None),
        ({"type": "function_call_output", "call_id": "call_1"}, None),
    ],
)
def test_an_item_is_told_in_its_published_form_or_refused(
    partner: Background, chat: ChatServer, item: dict[str, Any], param: str | None
) -> None:
    """Every event that comes is held against OpenAI's own types."""
    with session(partner.url) as live:
        live.tell("conversation.item.create", item=item)
        told = live.until("conversation.item.done", "error")
        assert told.get("error", {}).get("param") == param


def test_a_commit_and_a_response_right_after_it_wait_for_the_text(
    partner: Background, chat: ChatServer, pcm: bytes
) -> None:
    """Push to talk: the request holds what was said, although it was asked for before that was heard."""
    with session(partner.url) as live:
        live.update(audio={"input": {"turn_detection": None, "transcription": {}}})
        live.append(pcm)
        live.tell("input_audio_buffer.commit")
        live.tell("response.create")
        assert live.until("response.done")["response"]["status"] == "completed"
        heard = live.of("conversation.item.input_audio_transcription.completed")[0]["transcript"]
        assert heard and chat.seen.requests[0]["messages"] == [{"role": "user", "content": heard}]


@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize("by", ["update", "item"])
def test_what_was_cleared_is_not_answered(
    partner: Background, chat: ChatServer, pcm: bytes, by: str, heard: bool
) -> None:
    """Though an update, or an item of sound, ended the span that held it; and whether it was heard by then or not."""
    quiet = {**ASKED, "content": [{"type": "input_audio", "audio": base64.b64encode(b"\0" * 24_000).decode()}]}
    with session(partner.url) as live:
        live.update(output_modalities=["text"], audio={"input": {"turn_detection": None, "transcription": {}}})
        live.append(pcm)
        if by == "update":
            live.update(audio={"input": {"transcription": {"prompt": "boats"}}})
        else:
            live.tell("conversation.item.create", item=quiet)
        if heard:
            done = partial(partner.hub.metrics.registry.get_sample_value, "hearsay_unheard_seconds")
            assert eventually(lambda: not done())
        live.tell("input_audio_buffer.clear")
        live.append(b"\0" * 48_000)
        live.tell("input_audio_buffer.commit")
        live.tell("response.create")
        assert live.until("response.done", timeout=30)["response"]["status"] == "completed"
        (committed,) = live.of("input_audio_buffer.committed")
        texts = {
            event["item_id"]: event["transcript"]
            for event in live.of("conversation.item.input_audio_transcription.completed")
        }
        assert texts[committed["item_id"]] == "" and not any(texts.values())


def test_sound_in_an_item_is_heard_as_that_item(partner: Background, chat: ChatServer, pcm: bytes) -> None:
    """conversation.item.create with input_audio, beside a buffer in use: each has its own text."""
    part = {"type": "input_audio", "audio": base64.b64encode(pcm).decode()}
    with session(partner.url) as live:
        live.update(audio={"input": {"turn_detection": None, "transcription": {}}})
        live.append(pcm[: len(pcm) // 2])
        live.tell("conversation.item.create", item={**ASKED, "id": "mine", "content": [part]})
        live.tell("response.create", response={"output_modalities": ["text"]})
        live.until("response.done")
        heard = live.of("conversation.item.input_audio_transcription.completed")[0]
        assert heard["item_id"] == "mine" and heard["transcript"]
        assert chat.seen.requests[0]["messages"] == [{"role": "user", "content": heard["transcript"]}]
        live.append(pcm[len(pcm) // 2 :])
        live.tell("input_audio_buffer.commit")
        other = live.until("conversation.item.input_audio_transcription.completed")
        assert other["item_id"] != "mine" and other["transcript"]
        mixed = [part, {"type": "input_text", "text": "and this"}]
        live.tell("conversation.item.create", item={**ASKED, "content": mixed})
        assert live.until("error")["error"]["param"] == "item.content"
        live.tell("conversation.item.create", item={**ASKED, "content": [{"type": "input_audio", "audio": "%"}]})
        assert live.until("error")["error"]["param"] == "audio"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"status": 503}, "llm_refused"),
        ({"raw": b"data: {nonsense\n\n"}, "llm_garbled"),
        ({"raw": b"data: " + b"x" * (2 << 20)}, "llm_garbled"),
        ({"raw": b'data: {"error": {"message": "out of memory"}}\n\n'}, "llm_failed"),
        ({"raw": b'data: {"choices": [{"delta": {"content": "Half a "}}]}\n\n'}, "llm_broken"),
        ({"parts": ("a" * 40_000, "b" * 40_000)}, "llm_endless"),
    ],
)
def test_an_endpoint_that_fails_fails_the_response_and_not_the_session(
    partner: Background, chat: ChatServer, change: dict[str, Any], code: str
) -> None:
    """response.done with status failed and a code; the next response is whole."""
    for name, value in change.items():
        setattr(chat.script, name, value)
    with session(partner.url) as live:
        done = ask(live)
        assert (done["status"], done["status_details"]["error"]["code"]) == ("failed", code)
        chat.forget()
        live.tell("response.create")
        assert live.until("response.done")["response"]["status"] == "completed"


def test_a_reply_that_was_cut_for_its_length_is_incomplete(partner: Background, chat: ChatServer) -> None:
    """finish_reason length."""
    chat.script.finish = "length"
    with session(partner.url) as live:
        done = ask(live)
        assert done["status"] == "incomplete"
        assert done["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}


def test_an_endpoint_that_is_not_there_and_one_that_is_not_set(talk: Talk, daemon: Background) -> None:
    """llm_unreachable fails the response; without llm_url an error says what to set."""
    with talk(llm_url="http://127.0.0.1:9/v1") as lonely, session(lonely.url) as live:
        assert ask(live)["status_details"]["error"]["code"] == "llm_unreachable"
    with session(daemon.url) as live:
        live.tell("response.create")
        error = live.until("error")["error"]
        assert error["code"] == "no_llm" and "llm_url" in error["message"]


def test_a_session_may_become_one_of_transcription_only_at_its_beginning(partner: Background, chat: ChatServer) -> None:
    """session.update with another type: before anything was heard or said."""
    with session(partner.url) as live:
        assert live.update(type="transcription")["type"] == "transcription"
        assert live.update(type="realtime")["type"] == "realtime"
        ask(live)
        assert live.update(type="transcription")["error"]["param"] == "session.type"


def test_a_client_that_vanishes_ends_reply_and_voice(partner: Background, chat: ChatServer) -> None:
    """Both places come back, and the endpoint's reply is broken off."""
    chat.script.parts, chat.script.pause = LONG * 20, 0.05
    with pytest.raises(ConnectionError), session(partner.url) as live:
        live.tell("conversation.item.create", item=ASKED)
        live.tell("response.create")
        live.until("response.output_audio.delta")
        assert partner.hub.taken == 2
        live.socket.socket.close()
        raise ConnectionError
    assert eventually(lambda: partner.hub.taken == 0 and chat.seen.broken_off == 1)


def test_too_many_items_let_the_oldest_go(partner: Background, chat: ChatServer) -> None:
    """conversation.item.deleted names them."""
    with session(partner.url) as live:
        for n in range(505):
            live.socket.send(json.dumps({"type": "conversation.item.create", "item": {**ASKED, "id": f"i{n}"}}))
        while len(live.of("conversation.item.done")) < 505:
            live.next()
        assert [event["item_id"] for event in live.of("conversation.item.deleted")] == [f"i{n}" for n in range(5)]


@pytest.mark.parametrize("field", ["name", "call_id", "arguments"])
def test_the_oldest_go_whatever_makes_items_large(partner: Background, chat: ChatServer, field: str) -> None:
    """Every field of an item counts."""
    call = {"type": "function_call", "name": "tide", "call_id": "one", "arguments": "{}"}
    with session(partner.url) as live:
        for n in range(5):
            live.tell("conversation.item.create", item={**call, field: "x" * 300_000, "id": f"i{n}"})
            live.until("conversation.item.done")
        assert [event["item_id"] for event in live.of("conversation.item.deleted")] == ["i0", "i1"]


@pytest.mark.parametrize("size", [300_000, 1_048_000])
def test_who_reads_may_send_items_as_large_as_a_frame(partner: Background, chat: ChatServer, size: int) -> None:
    """Each is told twice, and three come at once: what is not taken yet holds back the reader, and ends nothing."""
    with session(partner.url, options={"max_size": None}) as live:
        for n in range(3):
            picture = {"type": "input_image", "image_url": f"data:image/png;base64,{'A' * (size - 300)}"}
            live.tell("conversation.item.create", item={**ASKED, "id": f"i{n}", "content": [picture]})
            live.tell("conversation.item.retrieve", item_id=f"i{n}")
        live.tell("response.create", response={"output_modalities": ["text"]})
        assert live.until("response.done")["response"]["status"] == "completed"
        assert [event["item"]["id"] for event in live.of("conversation.item.retrieved")] == ["i0", "i1", "i2"]
        assert len(live.of("conversation.item.done")) == 4
