"""Making the samples that are given out of the codec's: a soft beginning, then speed, then sample rate."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr

from audio.stretch import Stretch

Floats = npt.NDArray[np.float32]

FIRST_FRAMES: Final = 1
MOST_FRAMES: Final = 12
"""How many frames the first codec call of a piece has, so that sound starts soon, and how many later ones have at most,
since a frame costs less in a larger call."""
MOST_FRAMES_LARGE: Final = 3
"""How many frames a codec call of a large model has at most. A call cannot be interrupted, so a clear waits for one: 12
frames of the released codec take 200 ms on two cores. A frame in a call of 4 costs 8 % more than in one of 12."""
BUFFER_SHARE: Final = 0.5
"""The share of what the client has buffered that a group may last: it is then made before the rest has been played."""
LEAD_SECONDS: Final = 0.08
"""A piece is silent for so long at most, a frame of 12.5 a second, until it is loud. A codec that begins without a past
gives a tick and a hum there, which ears take for a word, and speech itself begins later
(notes/2026-11-speaking-runs.md)."""
LOUD: Final = 0.1
"""Amplitude above which a sample is speech, −20 dBFS: ticks and hums of the shipped voices stay below 0.06."""
FADE_SECONDS: Final = 0.02
"""Seconds in which it then becomes as loud as it is."""

KNEE: Final = 0.7
"""Amplitude from which on louder voices are bent: −3 dBFS, which one peak in some sentences passes."""

_soxr: Any = soxr  # soxr's types are incomplete.


class Output:
    """The chain of one session; :meth:`flush` ends a piece and makes it ready for the next."""

    def __init__(self, speed: float, rate: int, wanted: int, gain: float = 0.0) -> None:
        """
        Args:
            speed: how much faster the sound goes out than it comes in.
            rate, wanted: the sample rates in Hz of what comes in and of what goes out.
            gain: decibels that what goes out is louder.
        """
        self.gain = np.float32(10 ** (gain / 20))
        """What samples are multiplied by."""
        self.speed = speed
        """The speed of the pieces that begin from now on."""
        self._rates = rate, wanted
        self._fade = np.sin(np.linspace(0, np.pi / 2, round(FADE_SECONDS * rate), dtype=np.float32)) ** 2
        self._lead = round(LEAD_SECONDS * rate)
        self.reset()

    def feed(self, samples: Floats) -> Floats:
        """What ``samples`` (the codec's rate) make ready at the wanted rate."""
        if self.gain != 1:
            samples = _limited(samples * self.gain)
        return self._resample(self._stretch.feed(self._begun(samples)), last=False)

    def _begun(self, samples: Floats) -> Floats:
        """``samples`` with the soft beginning of the piece."""
        if self._faded == len(self._fade):
            return samples
        quiet = 0
        if not self._faded:  # Speech has not begun.
            loud = np.flatnonzero(np.abs(samples[: self._waits]) > LOUD)
            quiet = int(loud[0]) if len(loud) else min(self._waits, len(samples))
            self._waits -= quiet
        gains = self._fade[self._faded : self._faded + len(samples) - quiet]
        self._faded += len(gains)
        rest = samples[quiet + len(gains) :]
        return np.concatenate([np.zeros(quiet, np.float32), samples[quiet : quiet + len(gains)] * gains, rest])

    def flush(self) -> Floats:
        """What was held back of the piece, which ends here."""
        rest = self._resample(self._stretch.flush(), last=True)
        self.reset()
        return rest

    def reset(self) -> None:
        """Forget the open piece."""
        self._waits, self._faded = self._lead, 0
        self._stretch = Stretch(self.speed, self._rates[0])
        self._resampler = self._fresh()

    def _fresh(self) -> Any:
        rate, wanted = self._rates
        return None if rate == wanted else _soxr.ResampleStream(rate, wanted, 1, dtype="float32", quality="HQ")

    def _resample(self, samples: Floats, *, last: bool) -> Floats:
        if self._resampler is None:
            return samples
        return np.asarray(self._resampler.resample_chunk(samples, last=last), dtype=np.float32)


def _limited(samples: Floats) -> Floats:
    """``samples`` with what is louder than ``KNEE`` bent, so that nothing passes full scale and no edge is heard."""
    over = np.abs(samples) > KNEE
    if not over.any():
        return samples
    bent = samples.copy()
    room = np.float32(1 - KNEE)
    bent[over] = np.sign(bent[over]) * (KNEE + room * np.tanh((np.abs(bent[over]) - KNEE) / room))
    return bent


def group_frames(made: int, buffered: float | None, frame_seconds: float, most: int = MOST_FRAMES) -> int:
    """How many frames the next group should have.

    Args:
        made: groups given out since the session (or its last clear) began.
        buffered: seconds of audio the client holds unplayed; None where nobody knows: groups then grow by themselves.
        frame_seconds: playing time of a frame.
        most: frames that a group may have at all.
    """
    if made == 0:
        return FIRST_FRAMES
    if buffered is None:
        return min(2 ** (made // 2), most)
    return min(max(int(buffered * BUFFER_SHARE / frame_seconds), FIRST_FRAMES), most)
