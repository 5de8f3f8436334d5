"""Clients that speak /v1/realtime as it was before it was released, and fields that must not be misheard."""

import base64
from typing import Any

import pytest

from daemon.openai.realtime import beta
from daemon.serve import Background
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import REPLY, mulaw, session
from tests.daemon.support import Speech

HEADER = {"additional_headers": {"OpenAI-Beta": "realtime=v1"}}
FLAT = {
    "modalities": ["text", "audio"],
    "instructions": "Be brief.",
    "voice": "alloy",
    "input_audio_format": "g711_ulaw",
    "output_audio_format": "g711_ulaw",
    "input_audio_transcription": {"model": "whisper-1"},
    "turn_detection": {"type": "server_vad", "silence_duration_ms": 400},
    "temperature": 0.8,
    "max_response_output_tokens": 100,
}
"""As the examples for telephones send it."""


@pytest.mark.parametrize("options", [HEADER, {}])
def test_a_telephone_is_heard_and_answered_in_the_beta_shape(
    partner: Background, chat: ChatServer, speech: Speech, options: dict[str, Any]
) -> None:
    """mulaw in, mulaw out, by the events' old names; with the header or without."""
    del chat
    with session(partner.url, model="gpt-4o-realtime-preview", beta=True, options=options) as live:
        live.tell("session.update", session=FLAT)
        told = live.until("session.updated", "error")["session"]
        assert {name: told[name] for name in FLAT if name not in ("turn_detection", "input_audio_transcription")} == {
            **{name: value for name, value in FLAT.items() if not isinstance(value, dict)},
            "modalities": ["audio", "text"],
        }
        assert told["turn_detection"]["silence_duration_ms"] == 400
        live.append(mulaw(speech.pcm) + b"\xff" * 8_000)
        heard = live.until("conversation.item.input_audio_transcription.completed")["transcript"]
        done = live.until("response.done")["response"]
    kinds = set(live.kinds)
    assert {"conversation.item.created", "response.audio.delta", "response.audio_transcript.delta"} <= kinds
    assert not {"conversation.item.added", "conversation.item.done", "response.output_audio.delta"} & kinds
    assert done["output"][0]["content"] == [{"type": "audio", "transcript": REPLY}]
    assert (done["modalities"], done["output_audio_format"]) == (["audio", "text"], "g711_ulaw")
    sound = b"".join(base64.b64decode(event["delta"]) for event in live.of("response.audio.delta"))
    assert 0.5 < len(sound) / 8_000 < 60
    with session(partner.url, intent="transcription") as live:
        live.update(type="transcription", audio={"input": {"format": {"type": "audio/pcmu"}}})
        live.append(mulaw(speech.pcm) + b"\xff" * 8_000)
        assert live.until("conversation.item.input_audio_transcription.completed")["transcript"] == heard != ""


def test_a_transcription_session_in_the_beta_shape(daemon: Background, speech: Speech) -> None:
    """transcription_session.update, as speaches' clients send it."""
    with session(daemon.url, intent="transcription", beta=True, options=HEADER) as live:
        assert live.events[0]["session"]["input_audio_format"] == "pcm16"
        flat = {"input_audio_format": "g711_ulaw", "input_audio_transcription": {"model": "gpt-4o-transcribe"}}
        live.tell("transcription_session.update", session={**flat, "turn_detection": None})
        told = live.until("transcription_session.updated", "error")["session"]
        assert (told["input_audio_format"], told["turn_detection"]) == ("g711_ulaw", None)
        live.append(mulaw(speech.pcm))
        live.tell("input_audio_buffer.commit")
        assert live.until("conversation.item.input_audio_transcription.completed")["transcript"]
        assert "conversation.item.created" in live.kinds


def test_a_released_client_with_the_old_header_is_told_the_released_events(daemon: Background) -> None:
    """The shape of its update decides."""
    with session(daemon.url, intent="transcription", beta=True, options=HEADER) as live:
        live.tell("session.update", session={"type": "transcription", "audio": {"input": {"turn_detection": None}}})
        assert live.until("session.updated")["session"]["audio"]["input"]["turn_detection"] is None


@pytest.mark.parametrize(
    ("patch", "param"),
    [
        ({"input_audio_format": "opus"}, "session.input_audio_format"),
        ({"output_audio_format": 7}, "session.output_audio_format"),
        ({"audio": {"input": {"format": "mp3"}}}, "session.audio.input.format"),
        ({"audio": {"input": {"sample_rate": 16000}}}, "session.audio.input.sample_rate"),
        ({"input_sample_rate": 8000}, "session.input_sample_rate"),
        ({"encoding": "mulaw"}, "session.encoding"),
        ({"audio": {"input": {"format": {"type": "audio/pcmu", "rate": 16000}}}}, "session.audio.input.format.rate"),
        ({"redact": ["pci"]}, "session.redact"),
    ],
)
def test_what_would_be_misheard_is_refused_by_name(daemon: Background, patch: dict[str, Any], param: str) -> None:
    """And nothing is changed."""
    with session(daemon.url) as live:
        before = live.events[0]["session"]["audio"]
        live.tell("session.update", session=patch)
        assert live.until("session.updated", "error")["error"]["param"] == param
        assert live.update(type="realtime")["audio"] == before


@pytest.mark.parametrize(("format", "kind"), [("pcm16", "audio/pcm"), ("g711_ulaw", "audio/pcmu")])
def test_beta_formats_are_understood_in_the_released_place_too(daemon: Background, format: str, kind: str) -> None:
    with session(daemon.url) as live:
        told = live.update(type="realtime", audio={"input": {"format": format}}, output_audio_format=format)
        assert told["audio"]["input"]["format"]["type"] == told["audio"]["output"]["format"]["type"] == kind


def test_what_the_released_shape_says_counts_more() -> None:
    both = {"voice": "alloy", "speed": 2, "audio": {"output": {"voice": "maeve"}}, "turn_detection": {"type": "none"}}
    assert beta.released(both) == {
        "audio": {"output": {"voice": "maeve", "speed": 2}, "input": {"turn_detection": None}}
    }
