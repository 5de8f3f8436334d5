"""Speed without pitch: WSOLA, streaming.

Windows of 30 ms are laid out every 15 ms of output; each is taken from where the input stands at that moment times the
speed, shifted by up to 10 ms to where it continues the previous window best (normalised cross-correlation), and
cross-faded. Verhelst & Roelands, "An overlap-add technique based on waveform similarity", ICASSP 1993.

Where windows lie depends on the sample count alone, so the output does not depend on how the input was cut.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Floats = npt.NDArray[np.float32]

WINDOW_SECONDS: Final = 0.030
"""Seconds of a window: two to six periods of a voice, as in the paper above."""
SEARCH_SECONDS: Final = 0.010
"""Seconds by which a window may be shifted: the period of a voice of 100 Hz."""


class Stretch:
    """Changes the speed of float32 mono as it comes. Its state is the input that is still needed, and half a window of
    output."""

    def __init__(self, speed: float, sample_rate: int) -> None:
        """Make a stretch; a ``speed`` above 1 shortens. At 1 the samples pass through untouched."""
        self.speed = speed
        self._hop = round(WINDOW_SECONDS / 2 * sample_rate)
        self._reach = round(SEARCH_SECONDS * sample_rate)
        fade = 0.5 - 0.5 * np.cos(np.pi * (np.arange(self._hop) + 0.5) / self._hop)
        self._rise: Floats = fade.astype(np.float32)
        self._fall: Floats = (1.0 - fade).astype(np.float32)
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next sample begins a new stream."""
        self._input = np.empty(0, np.float32)
        self._origin = 0
        """Index of the first sample of ``_input`` in the stream."""
        self._windows = 0
        self._previous = 0
        """The place in the stream at which the last window was taken."""
        self._tail = np.zeros(self._hop, np.float32)
        self._taken = 0
        self._given = 0

    def feed(self, samples: Floats) -> Floats:
        """Take samples and return those that are ready."""
        if self.speed == 1.0:
            return samples
        self._taken += len(samples)
        self._input = np.concatenate([self._input, samples])
        return self._ready(self._taken)

    def flush(self) -> Floats:
        """The rest of the stream, so that ``round(samples / speed)`` came out in all (above a speed of 2.6 up to 5 ms
        more). Then a new stream begins."""
        if self.speed == 1.0:
            return np.empty(0, np.float32)
        total = round(self._taken / self.speed)
        parts: list[Floats] = []
        missing = total - self._given
        # Silence after the end lets the last windows be laid out as all others are.
        self._input = np.concatenate([self._input, np.zeros(4 * (self._hop + self._reach), np.float32)])
        while missing > 0:
            self._input = np.concatenate([self._input, np.zeros(round(self._hop * self.speed) + 1, np.float32)])
            part = self._ready(self._origin + len(self._input))[:missing]
            missing -= len(part)
            parts.append(part)
        self.reset()
        return np.concatenate(parts) if parts else np.empty(0, np.float32)

    def _ready(self, end: int) -> Floats:
        """Lay out every window whose search range and continuation lie before ``end``."""
        hop, reach = self._hop, self._reach
        parts: list[Floats] = []
        while True:
            centre = round(self._windows * hop * self.speed)
            if max(centre + reach, self._previous + hop) + 2 * hop > end:
                break
            at = self._best(centre) if self._windows else 0
            first = self._input[at - self._origin : at - self._origin + hop]
            if self._windows:
                first = (self._tail * self._fall + first * self._rise).astype(np.float32, copy=False)
            parts.append(first)
            self._tail = self._input[at - self._origin + hop : at - self._origin + 2 * hop]
            self._previous = at
            self._windows += 1
            oldest = min(round(self._windows * hop * self.speed) - reach, at + hop)
            drop = max(min(oldest - self._origin, len(self._input)), 0)
            if drop > len(self._input) // 2:
                self._input = self._input[drop:].copy()
                self._origin += drop
        out = np.concatenate(parts) if parts else np.empty(0, np.float32)
        self._given += len(out)
        return out

    def _best(self, centre: int) -> int:
        """The place near ``centre`` where the input is most like what would follow the previous window's first half."""
        hop = self._hop
        natural = self._previous + hop - self._origin
        wanted = self._input[natural : natural + hop]
        low = max(centre - self._reach, self._origin, 0)
        high = centre + self._reach
        candidates = sliding_window_view(self._input[low - self._origin : high + hop - self._origin], hop)
        likeness = candidates @ wanted
        energy = np.sqrt(np.einsum("ij,ij->i", candidates, candidates) + 1e-6)
        score = likeness / energy
        # Of equal places, as in silence, the one that is not shifted is taken.
        if float(score.max()) <= 0.0:
            return centre
        return low + int(score.argmax())
