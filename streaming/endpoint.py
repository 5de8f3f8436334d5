"""Endpointing on the sample clock: when an utterance begins, pauses, goes on and ends.

Contract: samples in, events out, one session's in their order. Every event follows from the verdicts of
streaming/vad.py, so from the samples alone, not from how they were cut.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from streaming.vad import FRAME, SAMPLE_RATE, Turn, Voice, VoiceActivity

Floats = npt.NDArray[np.float32]

CONFIRM: Final = 3 * FRAME
"""Samples of silence, 96 ms, after which a pause is announced: most stop consonants are shorter."""


@dataclass(frozen=True, slots=True)
class Moment:
    """``sample``: where something happened; ``decided``: samples heard when that was known, the end of a frame."""

    sample: int
    decided: int


class Onset(Moment):
    """An utterance began with the voiced frame at ``sample``, never before the ``decided`` of the previous
    ``Endpoint``. The model answers a frame or two after the sound, so take some audio before it along."""


class Silence(Moment):
    """The utterance paused with the silent frame at ``sample``, and perhaps ended: the moment for a final in advance.
    Known 96 ms later (with a shorter endpointing: that much later)."""


class Continued(Moment):
    """The utterance whose ``Silence`` was announced goes on with the voiced frame at ``sample``."""


class Endpoint(Moment):
    """The utterance ended at ``sample``, that of its last ``Silence``. Known at the end of the first frame that made
    the silence as long as the endpointing asks."""


EndpointEvent = Onset | Silence | Continued | Endpoint


class Endpointer:
    """Utterances of one session::

        Onset → (Silence → Continued)* → Silence → Endpoint

    Every ``Endpoint`` follows its ``Silence``, if need be in the same call. While voiced frames stand that may yet
    become speech (``Voice.PERHAPS``, at most 64 ms) nothing is announced. ``sample`` and ``decided`` never decrease.

    Args:
        activity: the session's voice activity.
        endpointing: seconds of silence that end an utterance, None for never.
    """

    def __init__(self, activity: VoiceActivity, endpointing: float | None) -> None:
        self._activity = activity
        self.wait(endpointing)
        self._open = False
        self._silence: Silence | None = None
        self._closed_at = 0

    def wait(self, endpointing: float | None) -> None:
        """From now on so many seconds of silence end an utterance, None: never."""
        self._needed = None if endpointing is None else round(endpointing * SAMPLE_RATE)
        self._confirm = CONFIRM if self._needed is None else min(CONFIRM, self._needed)

    def feed(self, samples: Floats) -> list[EndpointEvent]:
        """What happened in ``samples``, float32 [n] at 16 kHz, in order."""
        return [event for turn in self._activity.feed(samples) for event in self._step(turn)]

    def restart(self, sample: int) -> None:
        """After an ``Endpoint``: from now on hear as a session does that began with the frame that holds ``sample``."""
        self._activity.restart(sample)

    def close(self, sample: int) -> None:
        """The caller ended the utterance at ``sample``. Speech after it, going on or new, begins with an ``Onset``."""
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
