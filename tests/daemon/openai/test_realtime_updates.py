"""What a session of /v1/realtime is set to: what an update changes, refuses, leaves out and tells."""

from typing import Any

import pytest

from daemon.openai.realtime.config import Config
from daemon.serve import Background
from streaming.turn import Turn
from tests.daemon.realtime import session


@pytest.mark.parametrize(
    ("patch", "param"),
    [
        ({"type": "video"}, "session.type"),
        ({"audio": {"input": {"format": {"type": "audio/opus"}}}}, "session.audio.input.format.type"),
        ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 1}}}}, "session.audio.input.format.rate"),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": "long"}}}},
            "session.audio.input.turn_detection.silence_duration_ms",
        ),
        ({"audio": {"input": {"transcription": {"language": "xx"}}}}, "session.audio.input.transcription.language"),
        ({"audio": {"input": {"transcription": {"prompt": "w " * 300}}}}, "session.audio.input.transcription.prompt"),
        ({"audio": 7}, "session.audio"),
        ({"audio": {"input": {"noise_reduction": {"type": "loud"}}}}, "session.audio.input.noise_reduction.type"),
        ({"audio": {"input": {"transcription": {"delay": "x"}}}}, "session.audio.input.transcription.delay"),
        ({"tool_choice": "perhaps"}, "session.tool_choice"),
        ({"tool_choice": {"type": "function"}}, "session.tool_choice.name"),
        ({"tool_choice": {"type": "mcp", "server_label": "x"}}, "session.tool_choice.type"),
        ({"prompt": "p"}, "session.prompt"),
        ({"prompt": {"id": 7}}, "session.prompt.id"),
        ({"tracing": "x"}, "session.tracing"),
        ({"tracing": {"group_id": 7}}, "session.tracing.group_id"),
        ({"truncation": "x"}, "session.truncation"),
        ({"truncation": {"type": "retention_ratio"}}, "session.truncation.retention_ratio"),
        ({"include": ["x"]}, "session.include[0]"),
    ],
)
def test_a_wrong_update_names_its_field_and_changes_nothing(daemon: Background, patch: Any, param: str) -> None:
    """An error event; the session is as it was."""
    with session(daemon.url, intent="transcription") as live:
        before = live.events[0]["session"]
        error = live.update(**patch)["error"]
        assert error["param"] == param and error["type"] == "invalid_request_error"
        assert live.update()["audio"] == before["audio"]


def test_what_is_not_honoured_is_told(daemon: Background) -> None:
    """semantic_vad knows no length of silence; values beyond the bounds are brought within them."""
    with session(daemon.url, intent="transcription") as live:
        detection = {"type": "semantic_vad", "eagerness": "low", "silence_duration_ms": 300}
        told = live.update(audio={"input": {"turn_detection": detection, "noise_reduction": {"type": "near_field"}}})
        assert told["audio"]["input"]["turn_detection"] == detection
        assert [warning.split(":")[0] for warning in told["warnings"]] == ["silence_duration_ms", "noise_reduction"]
        told = live.update(audio={"input": {"turn_detection": {"type": "server_vad", "prefix_padding_ms": 900}}})
        assert told["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 500
        assert "prefix_padding_ms: taken as 500" in told["warnings"]


def test_fields_that_nobody_knows_are_named_and_not_kept(daemon: Background) -> None:
    """Newer clients send them; a misspelt one is seen."""
    with session(daemon.url, intent="transcription") as live:
        before = live.events[0]["session"]
        told = live.update(novel={"a": "x" * 900_000}, audio={"input": {"langauge": "en", "format": {"bits": 16}}})
        assert told.pop("warnings") == [
            "novel: not known here, not honoured",
            "audio.input.langauge: not known here, not honoured",
            "audio.input.format.bits: not known here, not honoured",
        ]
        assert told == before
        told = live.update(**{f"{n}{'y' * 5000}": n for n in range(100)})
        assert len(told["warnings"]) == 16 and max(map(len, told["warnings"])) < 100
        assert live.update() == before


def test_a_session_holds_so_much_and_no_more(daemon: Background) -> None:
    """What may hold anything does not grow from update to update."""
    with session(daemon.url, model="gpt-realtime") as live:
        for n in range(5):
            live.update(prompt={"id": "p", "variables": {str(n): "x" * 100_000}})
        error = live.update(prompt={"id": "p", "variables": {"last": "x" * 100_000}})["error"]
        assert (error["param"], error["code"]) == ("session", "session_limit") and "524288" in error["message"]
        assert list(live.update()["prompt"]["variables"]) == [*"01234"]


@pytest.mark.parametrize("model", ["gpt-realtime-whisper", "gpt-live-transcribe"])
def test_models_that_stream_leave_the_turns_to_the_client(daemon: Background, model: str) -> None:
    """Unless the client asks for turn detection."""
    with session(daemon.url, intent="transcription") as live:
        told = live.update(type="transcription", audio={"input": {"transcription": {"model": model}}})
        assert told["audio"]["input"]["turn_detection"] is None
        told = live.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
        assert told["audio"]["input"]["turn_detection"]["type"] == "server_vad"
        assert live.update()["audio"]["input"]["turn_detection"]["type"] == "server_vad"


@pytest.mark.parametrize(
    ("eagerness", "ending"),
    [("low", Turn(0.9, 8, least=1.2)), (None, Turn(0.8, 4, least=0.7)), ("high", Turn(0.6, 2, least=0.35))],
)
def test_eagerness_is_how_sure_it_must_be(eagerness: str | None, ending: Turn) -> None:
    """And server_vad, the default, is so much silence."""
    config = Config.initial("realtime", seconds=60)
    assert config.spec.listen_options().endpointing == 0.5
    patch = {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": eagerness}}}}
    assert config.updated(patch, seconds=60).spec.listen_options().endpointing == ending
    literal = {"audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 700}}}}
    assert config.updated(literal, seconds=60).spec.listen_options().endpointing == 0.7
    assert Config.initial("transcription", seconds=60).spec.listen_options().endpointing == 0.5
