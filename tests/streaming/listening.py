"""Driving a listener in tests: audio is fed in pieces, and all work is done between two pieces."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streaming.events import Event, Transcript
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.clips import RATE, Clip

Floats = npt.NDArray[np.float32]

OFFLINE = ListenOptions(interim=False)
OFFLINE_UNBROKEN = ListenOptions(interim=False, endpointing=None)
LIVE = ListenOptions(interim=True)


def hear(listener: Listener, samples: Floats) -> list[Event]:
    """Feed ``samples`` at once and return all events that follow."""
    listener.feed(samples)
    return listener.drain()


def finish(listener: Listener) -> list[Event]:
    """End and close a session, and return its last events."""
    listener.finish()
    events = listener.drain()
    assert listener.finished
    listener.close()
    return events


def listen(model: AsrModel, samples: Floats, options: ListenOptions, cuts: Sequence[int]) -> list[Event]:
    """Return all events of a session that is fed in pieces of the given lengths, over and over."""
    listener = model.listener(options)
    events: list[Event] = []
    at = turn = 0
    while at < len(samples):
        events += hear(listener, samples[at : at + cuts[turn % len(cuts)]])
        at += cuts[turn % len(cuts)]
        turn += 1
    return events + finish(listener)


def finals(events: list[Event]) -> list[Transcript]:
    """The final transcripts in ``events``, without the fields that may depend on interims."""
    return [
        Transcript(e.start, e.end, e.text, e.words, 0, e.language, True, e.speech_final, e.from_finalize, e.confidence)
        for e in events
        if isinstance(e, Transcript) and e.is_final
    ]


def continuous(clips: list[Clip], seconds: float) -> Floats:
    """Speech of many clips joined without any pause worth the name."""
    parts: list[Floats] = []
    total = 0
    for clip in clips:
        loud = np.flatnonzero(np.abs(clip.samples) > 0.02)
        part = clip.samples[loud[0] : loud[-1]]
        parts.append(part)
        total += len(part)
        if total >= seconds * RATE:
            break
    return np.concatenate(parts)[: int(seconds * RATE)]
