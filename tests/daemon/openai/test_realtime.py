"""Transcription sessions of /v1/realtime: real daemon, real model, real sockets."""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from daemon.openai.realtime.turn import Turn
from daemon.serve import Background
from streaming.events import Transcript, Word
from tests.daemon.realtime import Session, alike, at_24_khz, session, words
from tests.daemon.support import HTTP, PATIENT, Client, Counts, Speech, eventually, finals

DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"
QUIET = b"\0" * 48_000
"""A second of silence."""


@pytest.fixture(scope="module")
def pcm(speech: Speech) -> bytes:
    """The recording at 24 kHz, with a second of silence after it."""
    return at_24_khz(speech.pcm) + QUIET


@pytest.fixture
def text(client: Client, speech: Speech) -> str:
    """What /v1/listen hears in the recording."""
    return finals(client.transcribe(speech.pcm))


def growing(spoken: list[str]) -> st.SearchStrategy[tuple[list[str], list[int]]]:
    """Words of a segment, and how many of them are committed from interim to interim."""
    return st.tuples(st.just(spoken), st.lists(st.integers(0, len(spoken))).map(sorted))


@pytest.mark.parametrize("model", [None, "gpt-4o-transcribe", "Systran/faster-whisper-small"])
def test_what_is_said_becomes_an_item_with_its_text(
    daemon: Background, pcm: bytes, text: str, model: str | None
) -> None:
    """Server VAD: started, deltas, stopped, committed, added, done, completed, in this order."""
    query = {"intent": "transcription", **({"model": model} if model else {})}
    with session(daemon.url, **query) as live:
        assert live.events[0]["session"]["type"] == "transcription"
        live.append(pcm)
        done = live.until(COMPLETED)
        kinds = [kind for kind in live.kinds if kind != DELTA]
        assert kinds == [
            "session.created",
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            COMPLETED,
        ]
        assert alike(done["transcript"], text)
        assert done["usage"]["type"] == "duration" and done["usage"]["seconds"] > 0.5
        assert [word["word"] for word in done["words"]] == done["transcript"].split()
        assert {event["item_id"] for event in live.of(DELTA)} == {done["item_id"]}
        assert alike("".join(event["delta"] for event in live.of(DELTA)), done["transcript"])
        started, stopped = (
            live.of("input_audio_buffer.speech_started")[0],
            live.of("input_audio_buffer.speech_stopped")[0],
        )
        assert started["item_id"] == stopped["item_id"] == done["item_id"]
        assert 0 <= started["audio_start_ms"] < stopped["audio_end_ms"] <= len(pcm) / 48
        assert len({event["event_id"] for event in live.events}) == len(live.events)


def test_deltas_join_to_the_text_unless_a_word_was_taken_back(daemon: Background, pcm: bytes) -> None:
    """Append-only, with the spaces between the words. A word is taken back rarely."""
    exact = 0
    with session(daemon.url, intent="transcription") as live:
        live.append(pcm * 3)
        for _ in range(3):
            done = live.until(COMPLETED)
            joined = "".join(event["delta"] for event in live.of(DELTA) if event["item_id"] == done["item_id"])
            exact += joined == done["transcript"]
            assert alike(joined, done["transcript"])
    assert exact >= 2


@given(st.lists(st.lists(st.text("ab.", min_size=1, max_size=3), max_size=6).flatmap(growing), max_size=4))
def test_deltas_of_words_that_stay_join_to_the_text(segments: list[tuple[list[str], list[int]]]) -> None:
    """Of any segments, however many words of them were committed at each interim."""
    turn, told = Turn("item"), ""
    for spoken, counts in segments:
        event = Transcript(0, 1, " ".join(spoken), tuple(Word(text, 0, 1, 1) for text in spoken), 0, "en")
        for count in counts:
            told += turn.delta(event, count)
        told += turn.delta(replace(event, is_final=True), len(spoken))
        turn.extend(replace(event, is_final=True), 0)
    assert told == turn.transcript


def test_commits_make_the_turns_where_nobody_detects_them(daemon: Background, pcm: bytes, text: str) -> None:
    """turn_detection null: committed at once, the text follows; nothing tells of speech."""
    with session(daemon.url, intent="transcription") as live:
        told = live.update(type="transcription", audio={"input": {"turn_detection": None}})
        assert told["audio"]["input"]["turn_detection"] is None
        live.append(pcm)
        live.tell("input_audio_buffer.commit")
        live.append(pcm)
        live.tell("input_audio_buffer.commit")
        one, two = live.until(COMPLETED), live.until(COMPLETED)
        committed = [event["item_id"] for event in live.of("input_audio_buffer.committed")]
        assert committed == [one["item_id"], two["item_id"]]
        assert live.of("input_audio_buffer.committed")[1]["previous_item_id"] == one["item_id"]
        assert alike(one["transcript"], text) and alike(two["transcript"], text)
        assert "input_audio_buffer.speech_started" not in live.kinds


def test_a_commit_of_next_to_nothing_is_an_error_and_the_session_goes_on(daemon: Background, pcm: bytes) -> None:
    """OpenAI's code, the client's event id."""
    with session(daemon.url, intent="transcription") as live:
        live.update(audio={"input": {"turn_detection": None}})
        live.append(QUIET[:2400])
        live.tell("input_audio_buffer.commit", event_id="mine")
        error = live.until("error")["error"]
        assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "mine")
        live.append(pcm)
        live.tell("input_audio_buffer.commit")
        assert live.until(COMPLETED)["transcript"]


def test_clear_forgets_what_is_not_committed_and_keeps_what_is(daemon: Background, pcm: bytes, text: str) -> None:
    """A commit before the clear is answered; the audio between them is not heard."""
    with session(daemon.url, intent="transcription") as live:
        live.update(audio={"input": {"turn_detection": None}})
        live.append(pcm)
        live.tell("input_audio_buffer.commit")
        live.append(pcm)
        live.tell("input_audio_buffer.clear")
        live.append(QUIET)
        live.tell("input_audio_buffer.commit")
        one, two = live.until(COMPLETED), live.until(COMPLETED)
        assert alike(one["transcript"], text) and two["transcript"] == ""
        assert live.kinds.count("input_audio_buffer.cleared") == 1


def test_a_commit_outlives_a_clear_where_turns_are_detected(daemon: Background, pcm: bytes, text: str) -> None:
    """As it does without."""
    with session(daemon.url, intent="transcription") as live:
        live.append(pcm[: -len(QUIET)])
        live.tell("input_audio_buffer.commit")
        live.append(pcm)
        live.tell("input_audio_buffer.clear")
        live.append(pcm)
        one, two = live.until(COMPLETED), live.until(COMPLETED)
        assert alike(one["transcript"], text) and alike(two["transcript"], text)
        assert live.kinds.count("input_audio_buffer.committed") == 2


def test_what_is_cleared_leaves_nothing_in_the_next_turn(daemon: Background, pcm: bytes) -> None:
    """Deltas that went out before a clear belong to an item of their own."""
    with session(daemon.url, intent="transcription") as live:
        live.update(audio={"input": {"turn_detection": None}})
        unheard = partial(daemon.hub.metrics.registry.get_sample_value, "hearsay_unheard_seconds")
        for start in range(0, 4 * len(pcm), 4800):
            live.append((pcm * 4)[start : start + 4800])
            time.sleep(0.02)
            assert eventually(lambda: (unheard() or 0) < 1), "a tick that falls behind is skipped"
            if start > len(pcm) and live.heard_so_far():
                break
        cleared = {event["item_id"] for event in live.of(DELTA)}
        assert cleared
        live.tell("input_audio_buffer.clear")
        live.until("input_audio_buffer.cleared")
        live.append(pcm)
        live.tell("input_audio_buffer.commit")
        done = live.until(COMPLETED)
        assert done["transcript"] and done["item_id"] not in cleared


def test_a_turn_goes_on_over_an_update(daemon: Background, pcm: bytes, text: str) -> None:
    """Audio from before and after it is one turn, though nothing of it was heard when it was committed."""
    with session(daemon.url, intent="transcription") as live:
        live.update(audio={"input": {"turn_detection": None}})
        live.append(pcm)
        live.tell("session.update", session={"audio": {"input": {"transcription": {"prompt": "boats"}}}})
        live.append(pcm)
        live.tell("input_audio_buffer.commit")
        done = live.until(COMPLETED)
        assert [event["item_id"] for event in live.of("input_audio_buffer.committed")] == [done["item_id"]]
        assert len(words(done["transcript"])) > 1.5 * len(words(text))


def test_speech_that_is_cleared_makes_no_turn_of_its_own(daemon: Background, pcm: bytes) -> None:
    """Turn detection: an update has ended the listener that heard it."""
    speech = pcm[: -len(QUIET)]
    with session(daemon.url, intent="transcription") as live:
        live.append(speech)
        live.tell("session.update", session={"audio": {"input": {"transcription": {"prompt": "boats"}}}})
        live.tell("input_audio_buffer.clear")
        live.append(pcm)
        done = live.until(COMPLETED)
        assert done["words"][0]["start"] >= len(speech) / 48_000 - 0.3
        assert live.kinds.count("input_audio_buffer.committed") == 1


def test_what_was_not_committed_is_heard_to_its_end_when_the_daemon_goes(
    start: Callable[..., AbstractContextManager[Background]], pcm: bytes, text: str
) -> None:
    """Without turn detection all of it is one turn, an update in its middle or not."""
    with session_of_its_own(start) as (background, live):
        live.update(audio={"input": {"turn_detection": None}})
        live.append(pcm * 3)
        live.update(audio={"input": {"transcription": {"prompt": "boats"}}})
        live.append(pcm)
        live.update()
        background.drain(0)
        with pytest.raises(ConnectionClosed):
            while True:
                live.next()
        (done,) = live.of(COMPLETED)
        assert len(words(done["transcript"])) > 2 * len(words(text))


def test_telephone_sound_is_heard(daemon: Background, speech: Speech, text: str) -> None:
    """A-law at 8 kHz, after an update that comes before any audio; test_realtime_beta.py has mu-law."""
    import soxr

    from audio.encoder import raw

    samples = np.frombuffer(speech.pcm, "<i2").astype(np.float32) / 32768
    coder = raw("alaw", 8000)
    data = coder.feed(soxr.resample(np.concatenate([samples, np.zeros(16_000, np.float32)]), 16_000, 8_000))
    coder.close()
    with session(daemon.url, intent="transcription") as live:
        told = live.update(type="transcription", audio={"input": {"format": {"type": "audio/pcma"}}})
        assert told["audio"]["input"]["format"] == {"type": "audio/pcma"}
        live.append(data, 800)
        assert alike(live.until(COMPLETED)["transcript"], text)


def test_an_update_between_turns_changes_how_the_next_is_heard(daemon: Background, pcm: bytes, speech: Speech) -> None:
    """Another rate from one append to the next; what came before is heard to its end."""
    with session(daemon.url, intent="transcription") as live:
        live.append(pcm)
        told = live.update(audio={"input": {"format": {"type": "audio/pcm", "rate": 16_000}}})
        assert told["audio"]["input"]["format"]["rate"] == 16_000
        live.append(speech.pcm + b"\0" * 32_000, 3200)
        one, two = live.until(COMPLETED), live.until(COMPLETED)
        assert alike(one["transcript"], two["transcript"])
        first, second = live.of("input_audio_buffer.speech_started")
        assert second["audio_start_ms"] - first["audio_start_ms"] == pytest.approx(len(pcm) / 48, abs=150)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        "7",
        '{"type": "nonsense", "event_id": "e1"}',
        '{"type": "session.update"}',
        '{"type": "input_audio_buffer.append", "audio": "%%%"}',
        '{"type": "input_audio_buffer.append", "audio": "AAA"}',
        '{"type": "input_audio_buffer.append", "audio": 7}',
        '{"type": "response.create"}',
        '{"type": "conversation.item.delete", "item_id": "none"}',
        '{"type": "conversation.item.truncate", "item_id": "none", "content_index": 0, "audio_end_ms": -1}',
        '{"type": "conversation.item.truncate", "item_id": "x", "content_index": 0, "audio_end_ms": 1'
        + "0" * 400
        + "}",
        '{"type": "session.update", "session": ' + '{"metadata":' * 400 + "1" + "}" * 401,
        b"\x00\x01",
    ],
)
def test_nonsense_is_an_error_and_the_session_goes_on(daemon: Background, frame: str | bytes) -> None:
    """Each is told with a message; then the session still answers."""
    with session(daemon.url, intent="transcription") as live:
        live.socket.send(frame)
        error = live.until("error")["error"]
        assert error["type"] == "invalid_request_error" and error["message"]
        assert live.update()["type"] == "transcription"


@pytest.mark.parametrize(
    ("event", "param"),
    [
        ({"type": "input_audio_buffer.append", "audio": None}, "audio"),
        ({"type": "session.update"}, "session"),
        ({"type": "conversation.item.create", "item": {"type": "message", "content": [{"type": 7}]}},
         "item.content[0].type"),
        ({"type": "conversation.item.create", "item": {"role": "user"}}, "item.type"),
        ({"type": "nonsense"}, "type"),
        ({"event_id": "e1"}, "type"),
        ([], None),
    ],
)  # fmt: skip
def test_an_event_that_is_not_understood_names_its_field(daemon: Background, event: Any, param: str | None) -> None:
    """By its path, as errors of updates do."""
    with session(daemon.url, intent="transcription") as live:
        live.socket.send(json.dumps(event))
        assert live.until("error")["error"]["param"] == param


def test_what_arrives_faster_than_it_is_heard_is_bounded(
    start: Callable[..., AbstractContextManager[Background]],
) -> None:
    """Beyond max_unheard_seconds: what came is heard, an error, close 1008."""
    with start(max_unheard_seconds=2) as tight, session(tight.url, intent="transcription") as live:
        with pytest.raises(ConnectionClosed) as closed:
            live.append(b"\0" * 48_000 * 20, 48_000)
            while True:
                live.next()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
        assert live.of("error")[-1]["error"]["code"] == "unheard_audio"


def test_other_ways_in_are_refused_with_a_sentence(daemon: Background) -> None:
    """426 without a WebSocket, 400 for an intent that is none."""
    assert HTTP.get(f"{daemon.url}/v1/realtime").status_code == 426
    with pytest.raises(InvalidStatus) as refused:
        connect(daemon.url.replace("http", "ws", 1) + "/v1/realtime?intent=mischief", proxy=None, **PATIENT)
    assert refused.value.response.status_code == 400


def test_whoever_leaves_takes_nothing_along(
    daemon: Background, pcm: bytes, count: Callable[[Background], Counts]
) -> None:
    """Sockets dropped in the middle of audio: threads, sequences and places come back."""

    def leave(live: Session) -> None:
        live.append(pcm[: len(pcm) // 2])
        live.socket.socket.close()

    with session(daemon.url, intent="transcription") as live:
        live.append(pcm)
        live.until(COMPLETED)
    assert eventually(lambda: daemon.hub.taken == 0)
    before = count(daemon)
    for _ in range(3):
        with pytest.raises(Exception), session(daemon.url, intent="transcription") as live:
            leave(live)
            raise ConnectionError
    assert eventually(lambda: count(daemon) <= before)


def test_a_daemon_that_goes_says_what_it_heard(
    start: Callable[..., AbstractContextManager[Background]], pcm: bytes, text: str
) -> None:
    """Drain: the finals of all audio that came, then 1012."""
    with session_of_its_own(start) as (background, live):
        live.append(pcm[: -len(QUIET)])
        live.until("input_audio_buffer.speech_started")
        background.drain(0)
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                live.next()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        assert alike(live.of(COMPLETED)[-1]["transcript"], text)


def session_of_its_own(start: Callable[..., AbstractContextManager[Background]]) -> Any:
    """A daemon and a session of it."""
    from contextlib import contextmanager

    @contextmanager
    def both() -> Any:
        with start() as background, session(background.url, intent="transcription") as live:
            yield background, live

    return both()
