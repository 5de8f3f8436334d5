"""What a process holds: resident memory, the C heap (ONNX Runtime, llama.cpp, numpy), Python's objects.

Resident memory alone moves with the allocator; what is in use tells a leak from an arena that breathes.
"""

import ctypes
import gc
import sys
from dataclasses import dataclass, field

import numpy as np
import psutil


class _Mallinfo(ctypes.Structure):
    """glibc's mallinfo2."""

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


def c_heap() -> int:
    """Bytes in use by malloc, large blocks included; 0 where the C library does not tell."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (AttributeError, TypeError, OSError):
        return 0
    mallinfo.restype = _Mallinfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


@dataclass
class Memory:
    """Samples, one a minute of audio; the first tenth fills caches and arenas and does not count."""

    process: psutil.Process = field(default_factory=psutil.Process)
    samples: list[tuple[int, int, int]] = field(default_factory=list)

    def sample(self) -> None:
        """Note what is held now."""
        gc.collect()
        self.samples.append((self.process.memory_info().rss, c_heap(), sys.getallocatedblocks()))

    @property
    def settled(self) -> list[tuple[int, int, int]]:
        """Samples after the first tenth."""
        return self.samples[max(len(self.samples) // 10 - 1, 0) :]

    def growth(self, place: int) -> int:
        """What one figure (0 resident, 1 C heap, 2 Python's blocks) grew by since the first tenth."""
        return self.settled[-1][place] - self.settled[0][place]

    def slope(self, place: int) -> float:
        """Growth an hour of audio of one figure, by least squares."""
        values = [float(sample[place]) for sample in self.settled]
        return float(np.polyfit(np.arange(len(values)), values, 1)[0]) * 60 if len(values) > 1 else 0.0

    def __str__(self) -> str:
        first, last = self.settled[0], self.settled[-1]
        return (
            f"resident {first[0] / 1e6:.1f} → {last[0] / 1e6:.1f} MB ({self.slope(0) / 1e6:+.2f} MB an hour), "
            f"C heap {first[1] / 1e6:.1f} → {last[1] / 1e6:.1f} MB ({self.slope(1) / 1e6:+.2f}), "
            f"Python {first[2]} → {last[2]} blocks ({self.slope(2):+.0f})"
        )
