"""Endpointing on the sample clock: when an utterance begins, pauses, goes on and ends.

Contract: samples in, events out, one session's in their order. Every event follows from the verdicts of
streaming/vad.py, so from the samples alone, not from how they were cut.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.lane import Steps
from streaming.vad import FRAME, SAMPLE_RATE, Turn, Voice, VoiceActivity

Floats = npt.NDArray[np.float32]

CONFIRM: Final = 3 * FRAME
"""After how many samples of silence, 96 ms, a pause is announced. The silence before most stop consonants is
shorter."""


@dataclass(frozen=True, slots=True)
class Moment:
    """``sample``: where something happened; ``decided``: how many samples had come when that was known, which is the
    end of a frame. Both count from the session's first sample, at 16 kHz."""

    sample: int
    decided: int


class Onset(Moment):
    """An utterance begins with the voiced frame at ``sample``, never before the ``decided`` of the previous
    ``Endpoint``. The voice activity model answers a frame or two late, so callers add some audio from before."""


class Silence(Moment):
    """The utterance has paused since the silent frame at ``sample`` and may be over: the moment to decode a final in
    advance. This is known 96 ms later, or after the endpointing's silence if that is shorter."""


class Continued(Moment):
    """The utterance whose ``Silence`` was announced goes on with the voiced frame at ``sample``."""


class Endpoint(Moment):
    """The utterance ended at ``sample``, that of its last ``Silence``. This is known at the end of the first frame that
    makes the silence as long as the endpointing asks."""


EndpointEvent = Onset | Silence | Continued | Endpoint


class Endpointer:
    """Finds the utterances of one session. Their events follow this order::

        Onset → (Silence → Continued)* → Silence → Endpoint

    Every ``Endpoint`` follows its ``Silence``, if need be in the same call. While it is open whether voiced frames are
    speech (``Voice.PERHAPS``, at most 64 ms), nothing is announced. ``sample`` and ``decided`` never decrease.

    Args:
        activity: the session's voice activity.
        endpointing: seconds of silence that end an utterance, None for never.
    """

    def __init__(self, activity: VoiceActivity, endpointing: float | None = None) -> None:
        self._activity = activity
        self.wait(endpointing)
        self._open = False
        self._silence: Silence | None = None
        self._closed_at = 0

    def wait(self, endpointing: float | None) -> None:
        """From now on ``endpointing`` seconds of silence end an utterance; None means that none does."""
        self._needed = None if endpointing is None else round(endpointing * SAMPLE_RATE)
        self._confirm = CONFIRM if self._needed is None else min(CONFIRM, self._needed)

    def feed(self, samples: Floats) -> Steps[list[EndpointEvent]]:
        """What happened in ``samples``, float32 [n] at 16 kHz, in order."""
        turns = yield from self._activity.feed(samples)
        return [event for turn in turns for event in self._step(turn)]

    def restart(self, sample: int) -> Steps[None]:
        """After an ``Endpoint``: go on as a session would that began with the frame that holds ``sample``."""
        yield from self._activity.restart(sample)

    def close(self, sample: int) -> None:
        """Note that the caller ended the utterance at ``sample``. Speech from there on begins with an ``Onset``, even
        if it only goes on."""
        self._open, self._silence, self._closed_at = False, None, sample

    def _step(self, turn: Turn) -> list[EndpointEvent]:
        if turn.voice is Voice.PERHAPS:
            return []
        if turn.voice is Voice.SPEECH:
            if not self._open:
                self._open = True
                return [Onset(max(turn.since, self._closed_at), turn.clock)]
            if self._silence is None:
                return []
            self._silence = None
            return [Continued(turn.since, turn.clock)]
        if not self._open:
            return []
        events: list[EndpointEvent] = []
        quiet = turn.clock - turn.since
        if self._silence is None and quiet >= self._confirm:
            self._silence = Silence(turn.since, turn.clock)
            events.append(self._silence)
        if self._silence is not None and self._needed is not None and quiet >= self._needed:
            events.append(Endpoint(self._silence.sample, turn.clock))
            self.close(turn.clock)
        return events
