"""What comes over /v1/realtime, drawn by hypothesis: JSON of every kind, audio cut anywhere."""

import base64
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daemon.openai.realtime.config import Config, merged
from daemon.openai.realtime.spec import Invalid
from daemon.serve import Background
from daemon.spoken_text import SpokenText
from tests.daemon.realtime import Session, check_published, session
from tests.daemon.support import Speech

COMPLETED = "conversation.item.input_audio_transcription.completed"

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
names = st.sampled_from([
    "type", "audio", "input", "output", "format", "rate", "transcription", "turn_detection", "language", "languages",
    "prompt", "keywords", "voice", "speed", "tools", "tool_choice", "instructions", "output_modalities", "threshold",
    "silence_duration_ms", "prefix_padding_ms", "include", "max_output_tokens", "id", "warnings", "tracing", "delay",
    "truncation", "noise_reduction", "metadata", "temperature", "eagerness", "idle_timeout_ms",
]) | st.text(max_size=8)  # fmt: skip
values = scalars | st.sampled_from(
    ["server_vad", "semantic_vad", "audio/pcm", "audio/pcmu", "realtime", "transcription"]
)
documents = st.recursive(
    values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
kinds = st.sampled_from([
    "session.update", "input_audio_buffer.append", "input_audio_buffer.commit", "input_audio_buffer.clear",
    "conversation.item.create", "conversation.item.delete", "conversation.item.retrieve", "conversation.item.truncate",
    "response.create", "response.cancel", "output_audio_buffer.clear", "",
])  # fmt: skip
"""Without transcription_session.update, after which a session speaks the beta's names (test_realtime_beta.py)."""
events = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    kinds,
    st.dictionaries(
        st.sampled_from(
            ["session", "audio", "item", "item_id", "response", "event_id", "audio_end_ms", "content_index"]
        ),
        documents,
        max_size=4,
    ),
)


@pytest.fixture(scope="module")
def live(daemon: Background) -> Iterator[Session]:
    """One session that must outlive all of it."""
    with session(daemon.url) as opened:
        yield opened


@given(st.lists(events | documents, min_size=1, max_size=5))
@settings(max_examples=60)
def test_any_json_is_answered_and_the_session_lives(live: Session, drawn: list[Any]) -> None:
    """After it, an update that is right is answered as ever."""
    for event in drawn:
        live.socket.send(json.dumps(event))
    mark = str(uuid.uuid4())
    live.tell("session.update", session={"metadata": {"mark": mark}})
    while live.until("session.updated")["session"].get("metadata") != {"mark": mark}:
        pass


@given(st.text(max_size=40) | st.binary(max_size=40))
@settings(max_examples=40)
def test_any_frame_is_answered_and_the_session_lives(live: Session, frame: str | bytes) -> None:
    """Text that is no JSON, binary messages."""
    live.socket.send(frame)
    assert live.until("error")["error"]["type"] == "invalid_request_error"


@given(st.dictionaries(names, documents, max_size=5), st.sampled_from(["realtime", "transcription"]))
@example({"audio": {"input": {"turn_detection": {}}}}, "realtime")
@example({"audio": {"input": {"format": {"type": None}}}}, "realtime")
@example({"audio": {"type": False}}, "realtime")
def test_an_update_is_taken_whole_or_not_at_all(patch: dict[str, Any], kind: Any) -> None:
    """Either a session that can be heard and told as JSON, or Invalid that names a field."""
    config = Config.initial(kind, seconds=60)
    before = json.dumps(config.document)
    try:
        updated = config.updated(patch, seconds=60, fresh=True)
    except Invalid as error:
        assert error.param is not None and error.param.startswith(("session", "instructions", "tools"))
    else:
        assert updated.spec.listen_options().endpointing is None or updated.spec.silence_ms >= 10
        assert updated.document["id"] == config.document["id"]
        check_published({"type": "session.updated", "event_id": "one", "session": updated.document})
        again = updated.updated({}, seconds=60).document
        told: list[str] = updated.document.get("warnings", [])
        assert [one for one in told if ": not known here" not in one] == again.get("warnings", [])
        assert again | {"warnings": 0} == updated.document | {"warnings": 0}
    assert json.dumps(config.document) == before


@given(st.dictionaries(names, scalars, max_size=4), st.dictionaries(names, scalars, max_size=4))
def test_merging_changes_neither_side(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Absent stays, the rest is the patch's."""
    new = {name: value for name, value in new.items() if name not in ("audio", "input", "output", "format")}
    both = merged(old, new)
    assert set(both) == set(old) | set(new)
    assert all(both[name] is value for name, value in new.items())


@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=12))
@settings(max_examples=8)
def test_audio_cut_anywhere_gives_the_same_text(daemon: Background, speech: Speech, cuts: list[int]) -> None:
    """Appends of any size, odd ones too, are one stream of samples."""
    from tests.daemon.realtime import at_24_khz

    pcm = at_24_khz(speech.pcm)

    def heard(sizes: list[int]) -> str:
        with session(daemon.url, intent="transcription") as one:
            one.update(audio={"input": {"turn_detection": None}})
            start = turn = 0
            while start < len(pcm):
                size = sizes[turn % len(sizes)] if turn < 200 else 40_000
                one.tell("input_audio_buffer.append", audio=base64.b64encode(pcm[start : start + size]).decode())
                start, turn = start + size, turn + 1
            one.tell("input_audio_buffer.commit")
            return one.until(COMPLETED)["transcript"]

    assert heard(cuts) == heard([4800])


@given(st.lists(st.tuples(st.text("abc .", min_size=1, max_size=20), st.floats(0.1, 3)), max_size=5), st.floats(0, 20))
def test_what_was_heard_is_a_beginning_of_the_text(sentences: list[tuple[str, float]], seconds: float) -> None:
    """It grows with the time, and is all of it at the end."""
    spoken = SpokenText()
    for text, length in sentences:
        spoken.text += text
        before = spoken.seconds
        spoken.seconds += length
        spoken.paces.append((before, spoken.seconds, len(spoken.text)))
    heard, later = spoken.played(seconds), spoken.played(seconds + 1)
    assert spoken.text.startswith(heard) and len(heard) <= len(later)
    if sentences:
        assert spoken.played(spoken.seconds) == spoken.text
