"""What the tests of sessions share: two texts, a way to say them, and what was heard."""

import numpy as np
import numpy.typing as npt

from codec.events import AudioChunk, Event
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.speaker import Speaker

TEXT = "The quick brown fox jumps over the lazy dog, twice. It costs $5.50 on March 3, 2024."
SHORT_TEXT = "Good morning to all of you."

Codes = dict[int, list[list[int]]]
"""Codes of every frame made, by the identity of the piece's talker."""


def heard(events: list[Event]) -> npt.NDArray[np.float32]:
    """The samples of the events, one after another."""
    chunks = [e for e in events if isinstance(e, AudioChunk)]
    return np.concatenate([c.samples for c in chunks]) if chunks else np.empty(0, np.float32)


def run(speaker: Speaker, buffered: float | None = None) -> list[Event]:
    """Step until text is awaited or the session has finished."""
    events: list[Event] = []
    while (new := speaker.step(buffered)) or speaker.wait(0):
        events += new
        if speaker.finished:
            break
    return events


def say(model: TtsModel, text: str, options: SpeakOptions, cuts: list[int] | None = None) -> list[Event]:
    """All events of a session that says ``text``, in deltas of the given lengths over and over, or at once."""
    speaker = model.speaker(options)
    events: list[Event] = []
    at = turn = 0
    while cuts and at < len(text):
        speaker.say(text[at : at + cuts[turn % len(cuts)]])
        at, turn = at + cuts[turn % len(cuts)], turn + 1
        events += run(speaker)
    if not cuts:
        speaker.say(text)
    speaker.finish()
    events += run(speaker)
    speaker.close()
    return events
