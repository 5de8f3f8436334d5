"""From the codec's samples to those given out: a soft beginning, speed, then sample rate; one piece at a time."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr

from audio.stretch import Stretch

Floats = npt.NDArray[np.float32]

FIRST_FRAMES: Final = 1
MOST_FRAMES: Final = 12
"""Frames of one codec call: the first call one, so that sound starts; then more, because a call costs less a frame."""
MOST_FRAMES_LARGE: Final = 3
"""The same of a large model: a call cannot be broken off, and a clear waits at most for one (12 frames of the released
codec would be 200 ms on two cores; a frame in a call of 4 costs 8 % more than in one of 12)."""
BUFFER_SHARE: Final = 0.5
"""Of what the client has buffered, a group may take at most this long to play: it is made before the rest runs out."""
FADE_SECONDS: Final = 0.02
"""A piece becomes loud over so long: a codec that begins without a past ticks, and speech begins later."""

_soxr: Any = soxr  # incompletely typed


class Output:
    """The chain of one session; :meth:`flush` ends a piece and makes it ready for the next."""

    def __init__(self, speed: float, rate: int, wanted: int) -> None:
        self.speed = speed
        """Of the pieces that begin from now on."""
        self._rates = rate, wanted
        self._fade = np.sin(np.linspace(0, np.pi / 2, round(FADE_SECONDS * rate), dtype=np.float32)) ** 2
        self.reset()

    def feed(self, samples: Floats) -> Floats:
        """What ``samples`` (the codec's rate) make ready at the wanted rate."""
        gains = self._fade[self._fed : self._fed + len(samples)]
        self._fed += len(gains)
        if len(gains):
            samples = np.concatenate([samples[: len(gains)] * gains, samples[len(gains) :]])
        return self._resample(self._stretch.feed(samples), last=False)

    def flush(self) -> Floats:
        """The rest of the piece."""
        rest = self._resample(self._stretch.flush(), last=True)
        self.reset()
        return rest

    def reset(self) -> None:
        """Forget the piece."""
        self._fed = 0
        self._stretch = Stretch(self.speed, self._rates[0])
        self._resampler = self._fresh()

    def _fresh(self) -> Any:
        rate, wanted = self._rates
        return None if rate == wanted else _soxr.ResampleStream(rate, wanted, 1, dtype="float32", quality="HQ")

    def _resample(self, samples: Floats, *, last: bool) -> Floats:
        if self._resampler is None:
            return samples
        return np.asarray(self._resampler.resample_chunk(samples, last=last), dtype=np.float32)


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
