"""Conversation sessions of /v1/realtime: heard, answered by a chat endpoint on a real socket, spoken, interrupted."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from daemon.serve import Background
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import Session, at_24_khz, session
from tests.daemon.support import Speech, eventually

Talk = Callable[..., AbstractContextManager[Background]]
REPLY = "The boats came home at nine. Then it rained."
LONG = tuple(f"This is sentence number {n} of a very long story. " for n in range(60))
ASKED = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What happened?"}]}


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    """The chat endpoint."""
    with ChatServer() as running:
        yield running


@pytest.fixture
def chat(server: ChatServer) -> ChatServer:
    """The chat endpoint, with nothing remembered of other tests."""
    server.forget()
    return server


@pytest.fixture(scope="module")
def partner(talk: Talk, server: ChatServer) -> Iterator[Background]:
    """A daemon that hears, answers and speaks."""
    with talk(llm_url=server.url, llm_key="chat-key") as background:
        yield background


@pytest.fixture(scope="module")
def pcm(speech: Speech) -> bytes:
    """The recording at 24 kHz, with a second of silence after it."""
    return at_24_khz(speech.pcm) + b"\0" * 48_000


@pytest.fixture(scope="module")
def hum() -> bytes:
    """Somebody says "mm", 0.4 s at 24 kHz: voice, in which the model hears no word."""
    at = np.arange(9600) / 24_000
    voice = sum((np.sin(2 * np.pi * 130 * n * at) / n for n in range(1, 5)), np.zeros(9600))
    return (np.hanning(9600) * voice * 6500).astype("<i2").tobytes()


def ask(live: Session, **response: Any) -> dict[str, Any]:
    """Say something in writing, and the answer when it is over."""
    live.tell("conversation.item.create", item=ASKED)
    live.tell("response.create", **({"response": response} if response else {}))
    return live.until("response.done")["response"]


def sound(live: Session) -> bytes:
    """All sound that came."""
    return b"".join(base64.b64decode(event["delta"]) for event in live.of("response.output_audio.delta"))


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
    """Sentence by sentence: the first sound is there before the last text."""
    chat.script.parts, chat.script.pause = ("The boats came home at nine. ", "Then it ", "rained."), 1.0
    with session(partner.url) as live:
        ask(live)
        first = live.kinds.index("response.output_audio.delta")
        last = len(live.kinds) - 1 - live.kinds[::-1].index("response.output_audio_transcript.delta")
        assert first < last


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


def test_whoever_begins_to_speak_interrupts(partner: Background, chat: ChatServer, pcm: bytes) -> None:
    """Barge-in: cancelled, the endpoint's reply broken off, no more sound; the context holds what was played."""
    reply = LONG * 20
    chat.script.parts, chat.script.pause = reply, 0.2  # four minutes: however late it is interrupted, it still comes
    with session(partner.url) as live:
        live.update(instructions="Be interrupted.", audio={"input": {"transcription": {}}})
        live.tell("conversation.item.create", item=ASKED)
        live.tell("response.create")
        while len(sound(live)) < 96_000:
            live.until("response.output_audio.delta")
        # By the clock its first word is played by now: a voice of random weights may take 13 s for the first sentence,
        # which is 1.1 s for the word, and of the newest sound up to 1 s does not count yet.
        time.sleep(2.5)
        live.append(pcm)
        live.until("input_audio_buffer.speech_started")
        done = live.until("response.done")["response"]
        assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "turn_detected")
        assert done["output"][0]["status"] == "incomplete"
        assert eventually(lambda: chat.seen.broken_off == 1)
        live.until("response.created")  # the answer to what was said over it
        quiet = live.kinds[live.kinds.index("response.done") :]
        assert "response.output_audio.delta" not in quiet
        live.tell("conversation.item.retrieve", item_id=done["output"][0]["id"])
        played = live.until("conversation.item.retrieved")["item"]["content"][0]["transcript"]
        assert "".join(reply).startswith(played) and 0 < len(played) < len("".join(reply))
        said = live.of("conversation.item.input_audio_transcription.completed")[0]["transcript"]

        def messages() -> list[list[dict[str, Any]]]:
            """Of this session's requests: what a test before this one asked may still have come in."""
            asked = [request["messages"] for request in chat.seen.requests]
            return [told for told in asked if told[0]["content"] == "Be interrupted."]

        assert eventually(lambda: len(messages()) == 2)
        assert messages()[1][1:] == [
            {"role": "user", "content": "What happened?"},
            {"role": "assistant", "content": played},
            {"role": "user", "content": said},
        ]


@pytest.mark.parametrize("begun", ["", "Th"])
def test_a_sound_without_words_does_not_cost_the_answer(
    partner: Background, chat: ChatServer, pcm: bytes, hum: bytes, begun: str
) -> None:
    """A hum stops an answer that nobody has heard anything of, or read; it comes all the same, on the same context."""
    chat.script.parts, chat.script.pause = (begun, "e boats came home at nine."), 600.0
    with session(partner.url) as live:
        live.update(audio={"input": {"transcription": {}}})
        live.append(pcm)
        live.until("response.created")
        assert eventually(lambda: len(chat.seen.keys) == 1)
        if begun:
            live.until("response.output_audio_transcript.delta")
        live.append(hum)
        assert live.until("response.done")["response"]["status_details"]["reason"] == "turn_detected"
        asked = chat.seen.requests[0]["messages"]
        chat.forget()
        live.append(b"\0" * 48_000)
        done = live.until("response.done")["response"]
        assert done["status"] == "completed" and done["output"][0]["content"][0]["transcript"] == REPLY
        said, hummed = live.of("conversation.item.input_audio_transcription.completed")
        assert said["transcript"] and not hummed["transcript"]
        assert chat.seen.requests[0]["messages"] == asked == [{"role": "user", "content": said["transcript"]}]


@pytest.mark.parametrize(("whole", "played_ms", "again"), [(False, 0, True), (True, 0, True), (False, 10**6, False)])
def test_what_the_client_played_says_whether_an_answer_was_heard(
    partner: Background, chat: ChatServer, hum: bytes, whole: bool, played_ms: int, again: bool
) -> None:
    """Truncated to nothing after a hum, an answer is asked for once more, as it was; one that was heard is not."""
    chat.script.parts, chat.script.pause = (LONG[:8], 0.0) if whole else (LONG * 20, 0.2)
    with session(partner.url) as live:
        live.update(audio={"input": {"transcription": {}}})
        live.tell("conversation.item.create", item=ASKED)
        live.tell("response.create", response={"instructions": "Whisper."})
        while len(sound(live)) < 96_000:  # a word at the least, however slowly the voice speaks
            live.until("response.output_audio.delta")
        if whole:  # told to its end, played for long after that
            live.until("response.done")
        live.append(hum)
        live.until("input_audio_buffer.speech_started")
        asked = chat.seen.requests[-1]["messages"]
        chat.forget()
        item_id = live.of("response.output_audio.delta")[0]["item_id"]
        live.tell("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=played_ms)
        live.until("conversation.item.truncated")
        live.append(b"\0" * 48_000)
        assert live.until("conversation.item.input_audio_transcription.completed")["transcript"] == ""
        if again:
            live.until("response.created")
            assert live.until("response.done")["response"]["status"] == "completed"
            assert [request["messages"] for request in chat.seen.requests] == [asked]
            assert asked[0] == {"role": "system", "content": "Whisper."}
        else:
            live.tell("response.cancel")
            assert live.until("error", "response.created")["error"]["code"] == "response_cancel_not_active"


def test_cancel_stops_and_the_next_response_is_whole(partner: Background, chat: ChatServer) -> None:
    """response.cancel, response.create: nothing of the first is heard in the second."""
    chat.script.parts, chat.script.pause = LONG, 0.05
    with session(partner.url) as live:
        live.tell("conversation.item.create", item=ASKED)
        live.tell("response.create")
        live.until("response.output_audio.delta")
        live.tell("response.create", event_id="second")
        error = live.until("error")["error"]
        assert (error["code"], error["event_id"]) == ("conversation_already_has_active_response", "second")
        live.tell("response.cancel")
        done = live.until("response.done")["response"]
        assert done["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        live.tell("response.cancel")
        assert live.until("error")["error"]["code"] == "response_cancel_not_active"
        chat.forget()
        live.tell("response.create")
        done = live.until("response.done")["response"]
        assert done["status"] == "completed" and done["output"][0]["content"][0]["transcript"] == REPLY
        mine = {event["item_id"] for event in live.events[-30:] if event["type"] == "response.output_audio.delta"}
        assert done["output"][0]["id"] in mine


def test_truncation_leaves_what_was_played(partner: Background, chat: ChatServer) -> None:
    """conversation.item.truncate: the text after it leaves the context; the item tells."""
    with session(partner.url) as live:
        item_id = ask(live)["output"][0]["id"]
        seconds = len(sound(live)) / 48_000
        live.tell("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=round(500 * seconds))
        assert live.until("conversation.item.truncated")["audio_end_ms"] == round(500 * seconds)
        live.tell("conversation.item.retrieve", item_id=item_id)
        kept = live.until("conversation.item.retrieved")["item"]["content"][0]["transcript"]
        assert kept and REPLY.startswith(kept) and len(kept) < len(REPLY)
        live.tell("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=10**6)
        live.until("conversation.item.truncated")
        live.tell("conversation.item.retrieve", item_id=item_id)
        assert live.until("conversation.item.retrieved")["item"]["content"][0]["transcript"] == REPLY


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
    chat.script.parts, chat.script.pause = LONG, 0.05
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
