"""Which field of a message is wrong, told by its structure."""

from typing import Any

import msgspec
import pytest

from daemon import body
from daemon.messages import decoded, wrong_field
from daemon.openai.realtime.client_events import Command, commands, event_id
from daemon.openai.realtime.spec import Spec
from daemon.openai.speech import _Body as SpeechBody


@pytest.mark.parametrize(
    ("message", "kind", "field"),
    [
        ("{}", Command, "type"),
        ('{"type": "x"}', Command, "type"),
        ('{"type": 7}', Command, "type"),
        ('{"type": "session.update"}', Command, "session"),
        ('{"type": "session.update", "session": 7}', Command, "session"),
        ('{"type": "response.cancel", "event_id": 7}', Command, "event_id"),
        ('{"type": "conversation.item.create", "item": {}}', Command, "item.type"),
        (
            '{"type": "conversation.item.create", "item": {"type": "message", "content": [7]}}',
            Command,
            "item.content[0]",
        ),
        (
            '{"type": "conversation.item.create", "item": {"type": "message", "content": [{"type": "text"}, {}]}}',
            Command,
            "item.content[1].type",
        ),
        ('{"type": "conversation.item.truncate", "item_id": "a", "content_index": 0}', Command, "audio_end_ms"),
        ("[]", Command, None),
        ("{", Command, None),
        ('{"type": "realtime", "audio": {"input": {}}}', Spec, "audio.input.format"),
        ('{"input": "a", "speed": "x"}', SpeechBody, "speed"),
        ('{"input": "a", "voice": {"id": 7}}', SpeechBody, "voice.id"),
    ],
)
def test_the_field_that_is_wrong_is_named(message: str, kind: Any, field: str | None) -> None:
    with pytest.raises(msgspec.MsgspecError):
        msgspec.json.decode(message, type=kind)
    assert wrong_field(message, kind) == field


def test_a_byte_order_mark_before_json_is_ignored():
    """One, in a message, in what its error tells, and in a body."""
    cancel = '\ufeff{"type": "response.cancel", "event_id": "a"}'
    assert decoded(cancel, commands).event_id == decoded(cancel.encode(), commands).event_id == event_id(cancel) == "a"
    assert body.decoded(cancel.encode(), commands).event_id == "a"
    assert wrong_field('\ufeff{"type": "x"}', Command) == "type"
    with pytest.raises(msgspec.DecodeError):
        decoded(f"\ufeff{cancel}", commands)
