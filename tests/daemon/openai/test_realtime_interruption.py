"""Conversation sessions of /v1/realtime: who is spoken over, cancelled or truncated, and what is known of it."""

import time
from typing import Any

import numpy as np
import pytest

from daemon.openai.realtime import input_audio
from daemon.serve import Background
from streaming.events import Transcript, Word
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import ASKED, LONG, REPLY, ask, session, sound
from tests.daemon.support import eventually


@pytest.fixture(scope="module")
def hum() -> bytes:
    """Somebody says "mm", 0.4 s at 24 kHz: voice, in which the model hears no word."""
    at = np.arange(9600) / 24_000
    voice = sum((np.sin(2 * np.pi * 130 * n * at) / n for n in range(1, 5)), np.zeros(9600))
    return (np.hanning(9600) * voice * 6500).astype("<i2").tobytes()


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


def test_a_sound_without_words_does_not_interrupt(
    partner: Background, chat: ChatServer, pcm: bytes, hum: bytes
) -> None:
    """Nobody is told of it, it is no item, and the answer goes on; words after it interrupt."""
    chat.script.parts, chat.script.pause = LONG * 20, 0.2
    with session(partner.url) as live:
        live.update(audio={"input": {"transcription": {}}})
        live.tell("conversation.item.create", item=ASKED)
        live.tell("response.create")
        live.until("response.output_audio.delta")
        live.append(hum + b"\0" * 48_000)
        before = len(sound(live))
        while len(sound(live)) < before + 96_000:
            live.until("response.output_audio.delta")
        live.append(pcm)
        live.until("input_audio_buffer.speech_started")
        assert live.until("response.done")["response"]["status_details"]["reason"] == "turn_detected"
        assert live.until("conversation.item.input_audio_transcription.completed")["transcript"]
        assert live.kinds.count("input_audio_buffer.committed") == 1


@pytest.mark.parametrize(
    ("said", "sure", "takes"),
    [
        ("Stop.", 0.9, True),
        ("Mm-hm.", 0.9, False),
        ("Uh", 0.9, False),
        ("Mm, no.", 0.9, True),
        ("The", 0.3, False),
        ("", 1, False),
    ],
)
def test_words_take_the_floor(said: str, sure: float, takes: bool) -> None:
    words = tuple(Word(word, 0, 0.1, sure) for word in said.split())
    assert input_audio.says(Transcript(0, 0.1, said, words, 0, "en")) is takes


@pytest.fixture
def taken_for_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interims take every sound for words."""

    def says(heard: Transcript) -> bool:
        return not heard.is_final

    monkeypatch.setattr(input_audio, "says", says)


@pytest.mark.usefixtures("taken_for_words")
@pytest.mark.parametrize("begun", ["", "Th"])
def test_a_sound_that_was_taken_for_words_does_not_cost_the_answer(
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


@pytest.mark.usefixtures("taken_for_words")
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
    chat.script.parts, chat.script.pause = LONG * 20, 0.2
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
