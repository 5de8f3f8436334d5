"""Silence between two pieces, by what the author wrote between them.

A model ends each piece with some quiet of its own, whatever follows. A reader pauses longer after a paragraph than
after a sentence, so the runtime adds what is missing: :class:`Tail` measures the quiet that was spoken, and
:func:`silence` says how much more there should be.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from codec.output import LEAD_SECONDS
from codec.text.pieces import Close, PieceEnd

Floats = npt.NDArray[np.float32]

SECONDS: Final = {
    Close.CUT: 0.0,
    Close.CLAUSE: 0.25,
    Close.SENTENCE: 0.45,
    Close.LINE: 0.45,
    Close.PARAGRAPH: 0.8,
    Close.HEADING: 0.8,
}
"""How long the pauses are. People who read books aloud pause .2 to .3 s at a comma, .4 to .5 s after a sentence and
.7 to 1 s after a paragraph."""
QUIET: Final = 10 ** (-45 / 20)
"""Amplitude below which a sample counts as silence: −45 dBFS."""


class Tail:
    """It measures how much quiet the samples so far end with."""

    def __init__(self) -> None:
        self.quiet = 0
        """How many samples of quiet the sound ends with."""

    def feed(self, samples: Floats) -> None:
        """Take in the samples that follow, float32."""
        loud = np.flatnonzero(np.abs(samples) > QUIET)
        self.quiet = len(samples) - 1 - int(loud[-1]) if len(loud) else self.quiet + len(samples)


def pause(ends: list[PieceEnd], scale: float) -> float:
    """Seconds of the whole pause between two pieces, for the arguments of :func:`silence`."""
    return max(max((SECONDS[end.close] for end in ends), default=0.0) * scale, sum(end.pause for end in ends))


def silence(ends: list[PieceEnd], scale: float, quiet: float) -> float:
    """Seconds of silence to add before the next piece.

    Args:
        ends: all that was found between the two pieces; the longest pause counts, and what the author asked for.
        scale: of the pauses; 0 leaves them as the model speaks.
        quiet: seconds of quiet that the last piece ended with.
    """
    whole = pause(ends, scale)
    return max(0.0, whole - quiet - LEAD_SECONDS) if whole else 0.0
