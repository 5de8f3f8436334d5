"""Ends of a piece that the model did not find by itself.

Small and quantised talkers sometimes go on after the text: trailing noise, minutes of murmur, one syllable round and
round (reported for every implementation of this architecture). Each guard looks at something else and is counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from codec.events import Reason

Floats = npt.NDArray[np.float32]

FRAMES_BASE: Final = 38
FRAMES_A_BYTE: Final = 2.5
FRAMES_A_DIGIT: Final = 10.0
"""Frame budget of a piece: 3 s, and 0.2 s a byte of UTF-8, three times what speech takes (15 letters or 5 Chinese
characters a second); digits, where the model reads them itself, are words."""
SILENT_FRAMES: Final = 25
"""2 s of silence once the text has been read: the longest pause that is still speech is shorter."""
SILENT_RMS: Final = 2e-3
"""The RMS, −54 dBFS, below which a frame counts as silent: the models' own noise lies lower."""
LOOP_PERIOD: Final = 12
LOOP_TURNS: Final = 4
LOOP_FRAMES: Final = 25
"""A loop is a block of at most 12 frames, four times and 2 s long."""


@dataclass(slots=True)
class Guard:
    """It watches one piece. ``cap``: how many frames the piece may have, whatever its text."""

    cap: int
    budget: float = FRAMES_BASE
    """How many frames the text that was read so far may take."""
    frames: int = 0
    _silent: int = 0

    def read(self, token: str) -> None:
        """A text token went in; ``token`` in the vocabulary's spelling, one character a byte."""
        self.budget += sum(FRAMES_A_DIGIT if c.isdigit() else FRAMES_A_BYTE for c in token)

    def frame(self, first_codes: Sequence[int], text_ended: bool) -> Reason | None:
        """Account for one more frame; ``first_codes`` are all codes of codebook 0 so far.

        Returns why the piece must end with this frame, or None.
        """
        self.frames += 1
        if self.frames >= self.cap:
            return "cap"
        if text_ended and self.frames >= self.budget:
            return "budget"
        return "repetition" if text_ended and loops(first_codes) else None

    def audio(self, samples: Floats, frame_samples: int, text_ended: bool) -> Reason | None:
        """Account for decoded audio of whole frames. Silence before the text was read through is the model's affair."""
        for start in range(0, len(samples), frame_samples):
            block = samples[start : start + frame_samples]
            quiet = float(np.sqrt(np.mean(np.square(block, dtype=np.float64)))) < SILENT_RMS
            self._silent = self._silent + 1 if quiet and text_ended else 0
        return "silence" if self._silent >= SILENT_FRAMES else None


def loops(codes: Sequence[int]) -> bool:
    """Whether ``codes`` end in a block repeated often enough to be a loop."""
    for period in range(1, LOOP_PERIOD + 1):
        span = max(period * LOOP_TURNS, LOOP_FRAMES)
        if span > len(codes):
            continue
        tail = codes[len(codes) - span :]
        if all(tail[i] == tail[i + period] for i in range(span - period)):
            return True
    return False
