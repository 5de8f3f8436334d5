"""The thread budget of the process: how many threads model calls may use, and how they are shared out.

A large model's calls take all threads, one call at a time; but what makes a large voice's frames and what decodes them
work side by side, with a part each. A small model's calls are too short for that. Waking and joining threads costs as
much as it saves, and on a busy machine a call waits for whichever thread was preempted: 104 rows of the bundled decoder
took 21 ms in one thread and 34 to 87 ms, in the median, in two. So a small model's calls run in one thread each, and
two run side by side.
"""

import os
import sys
from dataclasses import dataclass
from typing import Final

SMALL_BYTES: Final = 100_000_000
"""The size of the weights on disk below which a model is small. It only has to part two groups: the bundled models have
tens of megabytes, the smallest released one 600."""
DECODING: Final = 0.4
"""The part of the threads with which a large voice's codec works: of the time that a frame of Qwen3-TTS 0.6B takes, one
part after the other on two cores, it is 40 %."""


def budget(asked: int | None = None) -> int:
    """The thread budget: ``asked``, or as many as the CPUs on which this process may run, which a container or taskset
    may have limited.

    Raises:
        ValueError: ``asked`` is not at least 1.
    """
    if asked is not None:
        if asked < 1:
            raise ValueError(f"threads: {asked} is less than 1")
        return asked
    if sys.platform != "win32" and hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def hold_blas() -> None:
    """Keep BLAS and OpenMP to one thread, unless the environment says otherwise. Beside the threads of llama.cpp and
    ONNX Runtime theirs make both two to four times slower. This must come before numpy is first imported, since they
    read their variables once."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")


@dataclass(frozen=True, slots=True)
class Share:
    """How a model uses the budget: how many threads one call uses, and whether calls run side by side."""

    threads: int
    side_by_side: bool


def share(weight_bytes: int, threads: int, card: int | None = None) -> Share:
    """How a model with ``weight_bytes`` on disk uses a budget of ``threads``.

    ``card`` is how many threads a call may use if a graphics card computes it, else None.
    """
    if card is not None:
        return Share(min(threads, card), True)
    if weight_bytes < SMALL_BYTES:
        return Share(1, threads > 1)
    return Share(threads, False)


def halves(weight_bytes: int, threads: int, card: int | None = None) -> tuple[Share, Share]:
    """How a speaking model uses the budget: to make frames, and to decode those of the group before meanwhile. The
    arguments are those of :func:`share`."""
    mine = share(weight_bytes, threads, card)
    if mine.side_by_side or threads == 1:
        return mine, mine
    decoding = max(1, round(DECODING * threads))
    return Share(threads - decoding, True), Share(decoding, True)
