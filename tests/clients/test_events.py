"""The parser of the daemon's messages."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.events import (
    Fault,
    Metadata,
    ProtocolError,
    Results,
    SpeechStarted,
    UtteranceEnd,
    Word,
    parse,
    shift,
)

RESULTS = {
    "type": "Results",
    "channel_index": [0, 1],
    "start": 1.5,
    "duration": 2.0,
    "is_final": False,
    "speech_final": False,
    "from_finalize": False,
    "channel": {
        "alternatives": [
            {
                "transcript": "the harbour lights",
                "confidence": 0.9,
                "languages": ["en"],
                "stable_words": 1,
                "words": [
                    {"word": "the", "start": 1.5, "end": 1.6, "confidence": 0.95, "punctuated_word": "The"},
                    {"word": "harbour", "start": 1.6, "end": 2.0, "confidence": 0.9},
                    {"word": "lights", "start": 2.0, "end": 2.4, "confidence": 0.8},
                ],
            }
        ]
    },
    "metadata": {"request_id": "r", "model_info": {}, "model_uuid": "u"},
}


def test_results_keep_words_times_and_the_committed_count():
    """An interim becomes one flat value; a punctuated word wins over the bare one."""
    event = parse(json.dumps(RESULTS))
    assert event == Results(
        1.5,
        2.0,
        "the harbour lights",
        (Word("The", 1.5, 1.6, 0.95), Word("harbour", 1.6, 2.0, 0.9), Word("lights", 2.0, 2.4, 0.8)),
        1,
        False,
        False,
        False,
        0.9,
        "en",
    )


def test_a_server_without_stable_words_is_understood():
    """Deepgram itself sends no stable_words: nothing is committed before the final, everything in it."""
    data = json.loads(json.dumps(RESULTS))
    del data["channel"]["alternatives"][0]["stable_words"]
    interim = parse(json.dumps(data))
    final = parse(json.dumps({**data, "is_final": True}))
    assert isinstance(interim, Results) and interim.stable_words == 0
    assert isinstance(final, Results) and final.stable_words == 3


def test_the_other_events():
    """Speech, gaps, metadata with its warnings, faults; an unknown type is None."""
    assert parse('{"type":"SpeechStarted","channel":[0,1],"timestamp":1.25}') == SpeechStarted(1.25)
    assert parse('{"type":"UtteranceEnd","channel":[0,1],"last_word_end":2.5}') == UtteranceEnd(2.5)
    metadata = '{"type":"Metadata","request_id":"r","duration":3.5,"channels":1,"warnings":["redact: ignored"]}'
    assert parse(metadata) == Metadata("r", 3.5, ("redact: ignored",))
    assert parse('{"type":"Error","description":"too much"}') == Fault("too much")
    assert parse('{"type":"Sneeze"}') is None


@given(
    st.text()
    | st.binary()
    | st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5).map(json.dumps)
)
def test_garbage_is_a_protocol_error(message: str | bytes):
    """Whatever arrives: an event, None, or ProtocolError."""
    try:
        parse(message)
    except ProtocolError:
        pass


def test_a_results_without_its_fields_is_a_protocol_error():
    """The error shows the message."""
    with pytest.raises(ProtocolError, match="channel"):
        parse('{"type":"Results","start":0,"duration":1}')


def test_shift_moves_every_time():
    """After a reconnection all events stand on the first session's clock."""
    event = parse(json.dumps(RESULTS))
    assert event is not None
    moved = shift(event, 10.0)
    assert isinstance(moved, Results)
    assert (moved.start, moved.duration, moved.words[0].start, moved.words[2].end) == (11.5, 2.0, 11.5, 12.4)
    assert shift(SpeechStarted(1.0), 10.0) == SpeechStarted(11.0)
    assert shift(UtteranceEnd(1.0), 10.0) == UtteranceEnd(11.0)
    assert shift(Fault("x"), 10.0) == Fault("x")
