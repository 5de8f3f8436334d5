"""The events Paused and Resumed, and options that change during a session."""

import numpy as np
import pytest

from engines.sessions import OptionError
from streaming.events import Event, Paused, Resumed, Transcript
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.turn import Turn
from tests.clips import RATE, Clip


@pytest.fixture
def speech(clips: list[Clip]) -> np.ndarray:
    """Some seconds of a clip in which the model finds words."""
    return min(clips, key=lambda clip: abs(clip.seconds - 4)).samples


def quiet(seconds: float) -> np.ndarray:
    """Digital silence."""
    return np.zeros(int(seconds * RATE), np.float32)


def fed(listener: Listener, *parts: np.ndarray) -> list[Event]:
    """Feed each part in turn, with all its work done before the next, and return the events."""
    events: list[Event] = []
    for part in parts:
        listener.feed(part)
        events += listener.drain()
    return events


def finals(events: list[Event]) -> list[Transcript]:
    """The final transcripts among ``events``."""
    return [event for event in events if isinstance(event, Transcript) and event.is_final]


def test_a_pause_that_is_an_end_has_the_final_text(asr_model: AsrModel, speech: np.ndarray) -> None:
    listener = asr_model.listener(ListenOptions(endpointing=Turn(threshold=1.0, timeout=1.0, eager=0.1)))
    events = fed(listener, speech, quiet(0.5), quiet(2.0))
    listener.close()
    pauses = [event for event in events if isinstance(event, Paused)]
    [final] = finals(events)
    assert pauses and pauses[-1].transcript.text == final.text != ""
    assert 0.1 <= pauses[-1].sure < 1.0
    assert events.index(pauses[-1]) < events.index(final)


def test_speech_that_goes_on_takes_a_pause_back(asr_model: AsrModel, speech: np.ndarray) -> None:
    listener = asr_model.listener(ListenOptions(endpointing=Turn(threshold=1.0, timeout=5.0, eager=0.1)))
    events = fed(listener, speech, quiet(0.6), speech, quiet(0.6))
    listener.close()
    marks = [event for event in events if isinstance(event, Paused | Resumed)]
    assert [type(mark) for mark in marks[-3:]] == [Paused, Resumed, Paused]
    assert marks[-3].transcript == marks[-2].transcript
    assert marks[-1].transcript.text.startswith(marks[-3].transcript.text.split()[0])


def test_nothing_is_said_of_pauses_unless_asked(asr_model: AsrModel, speech: np.ndarray) -> None:
    """Paused and Resumed come only if they are asked for, and change no final."""
    found: list[list[Transcript]] = []
    for eager in (None, 0.1):
        listener = asr_model.listener(ListenOptions(endpointing=Turn(threshold=1.0, timeout=1.0, eager=eager)))
        events = fed(listener, speech, quiet(0.4), speech, quiet(1.5))
        listener.close()
        assert any(isinstance(event, Paused | Resumed) for event in events) == (eager is not None)
        found.append(finals(events))
    assert found[0] == found[1] != []


def test_endpointing_and_keyterms_change_under_way(asr_model: AsrModel, speech: np.ndarray) -> None:
    """A new endpointing holds at once, new keyterms from the next utterance on, whose head is evaluated anew."""
    listener = asr_model.listener(ListenOptions(interim=False, endpointing=None))
    assert finals(fed(listener, speech, quiet(2.0))) == []
    listener.configure(endpointing=0.5, keyterms=("Oslo",))
    rows = listener.work.head_rows
    assert len(finals(fed(listener, quiet(0.5)))) == 1 and listener.work.head_rows == rows
    assert len(finals(fed(listener, speech, quiet(2.0)))) == 1 and listener.work.head_rows > rows
    late = asr_model.listener(ListenOptions(interim=False, keyterms=("Oslo",)))
    late.feed(speech)
    late.configure(endpointing=0.6, keyterms=())
    assert finals(fed(late, quiet(2.0), speech, quiet(2.0))) and late.work.head_rows == listener.work.head_rows, (
        "an utterance keeps the keyterms that it began with, however late its work is"
    )
    late.close()
    with pytest.raises(OptionError, match="201 words"):
        listener.configure(endpointing=0.5, keyterms=("word",) * 201)
    assert listener.options.keyterms == ("Oslo",)
    listener.close()
