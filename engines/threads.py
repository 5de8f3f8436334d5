"""The process's thread budget: how many threads one model call may use."""

import os


def budget(asked: int | None = None) -> int:
    """``asked``, or the CPUs this process may run on (not those of the machine: containers and taskset count).

    Raises:
        ValueError: ``asked`` is not at least 1.
    """
    if asked is not None:
        if asked < 1:
            raise ValueError(f"threads: {asked} is less than 1")
        return asked
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
