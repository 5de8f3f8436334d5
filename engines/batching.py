"""The lane: one thread that runs model calls, merging what can be merged.

Sessions live on many threads; the machine has few cores, and ONNX Runtime's threads beside llama.cpp's cost both two to
four times their speed. So calls queue here, run one at a time, each with the whole thread budget. Jobs that carry the
same ``key`` and wait at the same moment are handed to their function together, as one batch.

Order: by urgency, and first come, first served among equals, so finals are on time where interims cannot be. A session
waits for its job before it brings another: none can crowd out the rest, and the queue is never longer than the number
of sessions. A job whose owner has gone is dropped when its turn comes.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from enum import IntEnum
from typing import Any, TypeVar

T = TypeVar("T")
P = TypeVar("P")


class Urgency(IntEnum):
    """What goes first when the machine is behind."""

    STEP = 0
    """One row of a text that is being decoded: short, and shared by all who wait for one."""
    DUE = 1
    """Work that somebody's final text waits for."""
    AHEAD = 2
    """Work for a final text that is not due yet."""
    LOOK = 3
    """Work for an interim text."""


class Cancelled(Exception):
    """The job's owner has gone, or the lane is closed."""


class Owner:
    """Whose work a job is. ``cancel`` makes waiting and future jobs of it raise :class:`Cancelled`."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        """Give up everything of this owner that has not begun."""
        self.cancelled = True


class _Job:
    __slots__ = ("future", "key", "owner", "payload", "run", "urgency")

    def __init__(
        self,
        key: Hashable,
        payload: Any,
        run: Callable[[list[Any]], Sequence[Any]],
        owner: Owner | None,
        urgency: Urgency,
    ) -> None:
        self.key, self.payload, self.run, self.owner, self.urgency = key, payload, run, owner, urgency
        self.future: Future[Any] = Future()


class Lane:
    """Runs jobs in its own thread. Thread-safe; :meth:`submit` blocks its caller until the job is done."""

    def __init__(self, name: str = "hearsay-lane", most: int = 64) -> None:
        """``most``: largest batch handed to one function."""
        self._jobs: deque[_Job] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._most = most
        self.busy_seconds = 0.0
        self.batches = 0
        self.jobs = 0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(
        self,
        payload: P,
        run: Callable[[list[P]], Sequence[T]],
        *,
        key: Hashable = None,
        owner: Owner | None = None,
        urgency: Urgency = Urgency.DUE,
    ) -> T:
        """Have ``run([payload, …])`` called in the lane and return this payload's result.

        ``key``: jobs of equal key (and not None) may share one call of ``run``; they must then bring the same function.

        Raises:
            Cancelled: the owner was cancelled or the lane closed before the job began.
            Exception: whatever ``run`` raised.
        """
        job = _Job(key, payload, run, owner, urgency)
        with self._wake:
            if self._closed or (owner is not None and owner.cancelled):
                raise Cancelled
            self._jobs.append(job)
            self._wake.notify()
        return job.future.result()

    def call(self, function: Callable[[], T], *, owner: Owner | None = None, urgency: Urgency = Urgency.DUE) -> T:
        """Run ``function`` in the lane, alone."""
        return self.submit(None, lambda _: [function()], owner=owner, urgency=urgency)

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._jobs)

    def close(self) -> None:
        """Cancel what waits and end the thread. Idempotent."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _take(self) -> list[_Job]:
        """The next job and all that can run with it; empty when the lane is closed."""
        with self._wake:
            while not self._jobs and not self._closed:
                self._wake.wait()
            if self._closed:
                for job in self._jobs:
                    job.future.set_exception(Cancelled())
                self._jobs.clear()
                return []
            first = min(self._jobs, key=lambda job: job.urgency)  # the oldest of the most urgent
            self._jobs.remove(first)
            if first.key is None:
                return [first]
            group, rest = [first], deque[_Job]()
            for job in self._jobs:
                (group if job.key == first.key and len(group) < self._most else rest).append(job)
            self._jobs = rest
            return group

    def _work(self) -> None:
        while group := self._take():
            live: list[_Job] = []
            for job in group:
                if job.owner is not None and job.owner.cancelled:
                    job.future.set_exception(Cancelled())
                else:
                    live.append(job)
            if not live:
                continue
            began = time.perf_counter()
            try:
                results = live[0].run([job.payload for job in live])
            except BaseException as error:  # the waiting thread gets it; the lane lives on
                for job in live:
                    job.future.set_exception(error)
            else:
                for job, result in zip(live, results, strict=True):
                    job.future.set_result(result)
            self.busy_seconds += time.perf_counter() - began
            self.batches += 1
            self.jobs += len(live)
