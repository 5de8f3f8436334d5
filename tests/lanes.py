"""A lane that is busy for as long as a test wants, so that what meets in its queue meets whatever the machine does."""

import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from engines.lane import Lane, call

T = TypeVar("T")


class Clock:
    """Seconds that stand until a test moves them: what is asked for at one moment is, however slow the machine is."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def held(lane: Lane) -> Generator[None]:
    """All threads of the lane work for us from the block's first line to its end, and on nothing else."""
    begun, gate = threading.Barrier(lane.threads + 1), threading.Event()

    def job() -> None:
        begun.wait()
        gate.wait()

    blockers = [threading.Thread(target=lambda: lane.run(call(lambda _: [job()], None))) for _ in range(lane.threads)]
    for blocker in blockers:
        blocker.start()
    begun.wait()
    try:
        yield
    finally:
        gate.set()
        for blocker in blockers:
            blocker.join()


def until_waiting(lane: Lane, jobs: int) -> None:
    """Return when at least so many pieces of work wait in the lane's queue."""
    while lane.waiting < jobs:
        time.sleep(0.001)


@contextmanager
def queue(lane: Lane) -> Generator[Callable[[Callable[[], object]], None]]:
    """Gives what puts calls into the lane's queue, each from a thread of its own: it returns when the call waits there.
    The lane is held as long as the block lasts; then they run, and what one of them raised is raised here."""
    calls: list[Future[object]] = []
    with ThreadPoolExecutor(32) as pool, held(lane):

        def add(call: Callable[[], object]) -> None:
            before = lane.waiting
            calls.append(pool.submit(call))
            until_waiting(lane, before + 1)

        yield add
    for added in calls:
        added.result()


def alone(steps: Generator[object, object, T]) -> T:
    """What work returns that yields nothing."""
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    raise AssertionError("it yields")


def yielding(function: Callable[..., T]) -> Callable[..., Generator[object, object, T]]:
    """``function`` as work that yields nothing."""

    def steps(*args: object) -> Generator[object, object, T]:
        return function(*args)
        yield

    return steps
