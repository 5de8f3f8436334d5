"""A lane that is busy for as long as a test wants, so that what meets in its queue meets whatever the machine does."""

import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from engines.batching import Lane, Owner, Priority, Task


class Clock:
    """Seconds that stand until a test moves them: what is asked for at one moment is, however slow the machine is."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def held(lane: Lane) -> Generator[None]:
    """The lane works on a job of ours from the block's first line to its end, and on nothing else."""
    begun, gate = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        gate.wait()

    blocker = threading.Thread(target=lambda: lane.call(job))
    blocker.start()
    begun.wait()
    try:
        yield
    finally:
        gate.set()
        blocker.join()


def until_waiting(lane: Lane, jobs: int) -> None:
    """Return when at least so many jobs wait in the lane's queue."""
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
    for call in calls:
        call.result()


def task(priority: Priority, session: Owner | None = None) -> Task:
    """A piece of work that begins now."""
    return Task(session or Owner(), priority)


def noting(lane: Lane, done: list[str], name: str, owner: Owner | None) -> Callable[[], None]:
    """Submits a job that writes down that it was its turn."""
    return lambda: lane.call(lambda: done.append(name), owner=owner)
