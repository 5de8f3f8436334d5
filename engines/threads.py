"""The process's thread budget: how many threads model calls may use, and how they are shared out.

A large model's calls take all threads, one call at a time. A small model's calls are too short for that: waking and
joining threads costs as much as it saves, and under load a call waits for whichever thread was preempted (measured:
104 rows of the embedded decoder, busy machine: one thread 21 ms, two threads 34 to 87 ms in the median). So small
models get lanes of one thread each, encoder and decoder side by side.
"""

import os
import sys
from dataclasses import dataclass
from typing import Final

SMALL_BYTES: Final = 100_000_000
"""Weights on disk below which a model is small."""


def budget(asked: int | None = None) -> int:
    """``asked``, or the CPUs this process may run on (not those of the machine: containers and taskset count).

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
    """Keep BLAS and OpenMP to one thread, unless the environment says otherwise: beside llama.cpp's or ONNX Runtime's
    threads theirs cost both a factor of two to four. Only before numpy is first imported: they look once."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")


@dataclass(frozen=True, slots=True)
class Share:
    """How a model uses the budget: threads of one call, and whether encoder and decoder run side by side."""

    threads: int
    side_by_side: bool


def share(weight_bytes: int, threads: int, card: int | None = None) -> Share:
    """The share of a model of ``weight_bytes`` on disk in a budget of ``threads``.

    ``card``: most threads of a call, where a graphics card computes it.
    """
    if card is not None:
        return Share(min(threads, card), True)
    if weight_bytes < SMALL_BYTES:
        return Share(1, threads > 1)
    return Share(threads, False)
