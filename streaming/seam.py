"""The seam: how long a segment may be, and where a full one is parted from the next."""

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from streaming.recognizer import Segment

SEGMENT_SECONDS: Final = 24.0
SEAM_SECONDS: Final = 4.0
"""A full segment closes at the quietest point of this stretch at its end."""


def quietest(segment: "Segment", rate: int) -> int:
    """The middle of the quietest 100 ms of a full segment's last ``SEAM_SECONDS``, in segment samples."""
    stop = int(SEGMENT_SECONDS * rate)
    start = stop - int(SEAM_SECONDS * rate)
    hop = rate // 100
    blocks = segment.audio(start, stop).astype(np.float64) ** 2
    energy = blocks[: len(blocks) // hop * hop].reshape(-1, hop).sum(axis=1)
    smooth = np.convolve(energy, np.ones(10), "valid")
    return start + (int(smooth.argmin()) + 5) * hop
