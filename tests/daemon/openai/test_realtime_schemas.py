"""What clients that check every event want to find in it (the others are held against OpenAI's types in every test)."""

from daemon.messages import encode
from daemon.openai.realtime import server_events as wire
from daemon.serve import Background
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import ask, session


def test_an_item_of_sound_says_that_its_transcript_is_not_known_yet(daemon: Background, pcm: bytes) -> None:
    """JavaScript's agents end their process where the field is absent."""
    with session(daemon.url) as live:
        live.update(type="realtime", audio={"input": {"turn_detection": None, "transcription": {}}})
        live.append(pcm)
        live.tell("input_audio_buffer.commit")
        text = live.until("conversation.item.input_audio_transcription.completed")["transcript"]
        for kind in ("conversation.item.added", "conversation.item.done"):
            assert live.of(kind)[0]["item"]["content"] == [{"type": "input_audio", "transcript": None}]
        live.tell("conversation.item.retrieve", item_id=live.events[-1]["item_id"])
        content = live.until("conversation.item.retrieved")["item"]["content"]
        assert content == [{"type": "input_audio", "transcript": text}]


def test_items_of_clients_get_the_types_of_their_roles(daemon: Background) -> None:
    """Beta's names of parts, and parts that lack what a schema wants."""
    sent = {"user": [{"type": "text", "text": "a"}, {"type": "input_text"}], "system": [{"type": "text", "text": "b"}],
            "assistant": [{"type": "text", "text": "c"}, {"type": "audio", "transcript": "d"}]}  # fmt: skip
    with session(daemon.url) as live:
        for role, content in sent.items():
            live.tell("conversation.item.create", item={"type": "message", "role": role, "content": content})
            live.until("conversation.item.done")
        told = [event["item"]["content"] for event in live.of("conversation.item.done")]
    assert told == [
        [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": ""}],
        [{"type": "input_text", "text": "b"}],
        [{"type": "output_text", "text": "c"}, {"type": "output_audio", "transcript": "d"}],
    ]


def test_a_session_says_who_answers_and_who_interrupts(daemon: Background) -> None:
    """Clients that do not find it do both themselves, too, and get errors for it."""
    with session(daemon.url) as live:
        turns = live.events[0]["session"]["audio"]["input"]["turn_detection"]
        assert turns["create_response"] is turns["interrupt_response"] is True
        semantic = {"type": "semantic_vad", "interrupt_response": False}
        turns = live.update(type="realtime", audio={"input": {"turn_detection": semantic}})["audio"]["input"]
        assert turns["turn_detection"] == {**semantic, "create_response": True, "eagerness": "auto"}
        assert live.update(audio={"input": {"turn_detection": None}})["audio"]["input"]["turn_detection"] is None
        live.tell("response.cancel")
        assert live.until("error")["error"]["message"].startswith("Cancellation failed")


def test_a_voice_in_a_response_is_its_name(partner: Background, chat: ChatServer) -> None:
    """However the client named it."""
    del chat
    with session(partner.url) as live:
        live.update(type="realtime", audio={"output": {"voice": {"id": "slt"}, "format": {"type": "audio/pcmu"}}})
        ask(live)
        told = live.of("response.created")[0]["response"]["audio"]["output"]
        assert told == {"format": {"type": "audio/pcmu"}, "voice": "slt", "speed": 1.0}


def test_what_failed_names_a_field_only_where_one_did() -> None:
    """Null is not in the schema of JavaScript's agents."""
    assert b"param" not in encode(wire.ItemFault("server_error", "not_heard", "No."))
