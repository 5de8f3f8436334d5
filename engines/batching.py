"""The lane: one thread that runs model calls, merging what can be merged.

Sessions live on many threads; the machine has few cores, and ONNX Runtime's threads beside llama.cpp's cost both two to
four times their speed. So calls queue here, run one at a time, each with the whole thread budget. Jobs that carry the
same ``key`` and wait at the same moment are handed to their function together, as one batch.

Order: the job whose deadline comes first. A deadline is the moment its work was asked for plus the slack of its
priority, so finals go before interims and live audio before backlog, and whatever waits long enough goes before all
that is younger: nobody starves. A session waits for its job before it brings another: none can crowd out the rest, and
the queue is never longer than the number of sessions. Jobs whose owner has gone are dropped.

A job may itself submit: such a part of it runs at once, after what waits with an earlier deadline. So a chain of calls
that are shorter than the way from thread to thread can be one job, and who is urgent waits for a
call, or for one such job that was more urgent than the chain.

On a graphics card a call takes much the same time whatever it holds, so it had better hold much. By deadlines alone it
holds one job: a session brings its next step while the call after its own runs, so the two most urgent ones take turns,
each alone, and all others wait to begin. Such a lane is *flat*: after a call of jobs with a key, jobs without one go
before the next such call for as long as it took, at most :data:`ASIDE`, at least one of them where any waits, whatever
the deadlines: they begin what the next shared calls go on with. So a final's step waits behind one job without a key
that is longer than the step, or several that together take as long; behind backlog only where it is backlog too.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from enum import IntEnum
from typing import Any, Final, TypeVar

T = TypeVar("T")
P = TypeVar("P")


class Priority(IntEnum):
    """What goes first when the machine is busy."""

    FINAL = 0
    """Somebody's final text waits for it."""
    EARLY = 1
    """For a final text that is not due yet."""
    INTERIM = 2
    """For an interim text."""
    BACKLOG = 3
    """Of a session that is behind its own audio."""


SLACK: Final = {Priority.FINAL: 0.0, Priority.EARLY: 0.5, Priority.INTERIM: 1.0, Priority.BACKLOG: 6.0}
"""Seconds that a job of each priority lets others go before it."""


MOST: Final = 64
"""Jobs of one call."""
LATE: Final = 0.3
"""Seconds in the queue after which a job that a final waits for shows a machine that is full."""
ASIDE: Final = LATE / 2
"""Most seconds for which a flat lane lets jobs without a key go first. A shared call of 200 sessions takes .13 on an
H100; a longer one was a card's first of its kind, and what it took says nothing of the next."""


class Cancelled(Exception):
    """The job's owner has gone, or the lane is closed."""


class Owner:
    """Whose work a job is. ``cancel`` makes waiting and future jobs of it raise :class:`Cancelled`."""

    def __init__(self) -> None:
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether its jobs are given up."""
        return self._cancelled

    @property
    def priority(self) -> Priority:
        """Of its jobs."""
        return Priority.EARLY

    @property
    def deadline(self) -> float | None:
        """``time.monotonic()`` by which its jobs should begin; None: each as it comes."""
        return None

    def cancel(self) -> None:
        """Give up everything of this owner that has not begun."""
        self._cancelled = True


class Task(Owner):
    """One piece of a session's work: the jobs that it brings to the lanes one after another share its deadline."""

    def __init__(self, session: Owner, priority: Priority) -> None:
        super().__init__()
        self._session, self._priority = session, priority
        self._deadline = time.monotonic() + SLACK[priority]

    @property
    def cancelled(self) -> bool:
        """Whether it or its session is given up."""
        return self._cancelled or self._session.cancelled

    @property
    def priority(self) -> Priority:
        """Of its jobs, now."""
        return self._priority

    @property
    def deadline(self) -> float:
        """``time.monotonic()`` by which its jobs should begin."""
        return self._deadline

    def hasten(self, priority: Priority) -> None:
        """Somebody waits for it by now: raise it to ``priority``, unless it is there. From any thread."""
        if priority < self._priority:
            self._priority = priority
            self._deadline = min(self._deadline, time.monotonic() + SLACK[priority])


class _Job:
    __slots__ = ("future", "key", "owner", "payload", "run", "since")

    def __init__(
        self, key: Hashable, payload: Any, run: Callable[[list[Any]], Sequence[Any]], owner: Owner | None
    ) -> None:
        self.key, self.payload, self.run, self.owner = key, payload, run, owner
        self.since = time.monotonic()
        self.future: Future[Any] = Future()

    @property
    def deadline(self) -> float:
        deadline = None if self.owner is None else self.owner.deadline
        return self.since if deadline is None else deadline

    @property
    def cancelled(self) -> bool:
        return self.owner is not None and self.owner.cancelled

    @property
    def priority(self) -> Priority:
        return Priority.EARLY if self.owner is None else self.owner.priority


class Lane:
    """Runs jobs in its own thread. Thread-safe; :meth:`submit` blocks its caller until the job is done."""

    def __init__(
        self,
        name: str = "hearsay-lane",
        most: int = MOST,
        stopwatch: Callable[[], float] = time.perf_counter,
        *,
        flat: bool = False,
    ) -> None:
        """``most``: largest batch handed to one function; ``stopwatch``: seconds, to measure what a batch takes;
        ``flat``: a batch takes much the same time whatever its size."""
        self._stopwatch = stopwatch
        self._jobs: deque[_Job] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._most, self._flat = most, flat
        self._aside = 0.0
        """Seconds left for which jobs without a key go before those with one; 0 and below: by their deadlines."""
        self.busy = dict.fromkeys(Priority, 0.0)
        """Seconds spent running jobs, by the priority of the most urgent one of each batch."""
        self._inner = 0.0
        """Seconds of those that ran inside the batch that runs."""
        self._nested = False
        """Whether one does; nothing runs inside that."""
        self.late_at = -math.inf
        """``time.monotonic()`` at which a job that somebody's final waits for last began :data:`LATE` or more late."""
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
    ) -> T:
        """Have ``run([payload, …])`` called in the lane and return this payload's result.

        ``key``: jobs of equal key (and not None) may share one call of ``run``; they must then bring the same function.
        From a job of this lane: ``owner`` is that job's, and the call is not shared.

        Raises:
            Cancelled: the owner was cancelled or the lane closed before the job began.
            RuntimeError: ``run`` gave more or fewer results than payloads.
            Exception: whatever ``run`` raised.
        """
        job = _Job(key, payload, run, owner)
        if threading.current_thread() is self._thread:
            self._give_way(job)
            return run([payload])[0]
        with self._wake:
            if self._closed or job.cancelled:
                raise Cancelled
            self._jobs.append(job)
            self._wake.notify()
        return job.future.result()

    def call(self, function: Callable[[], T], *, owner: Owner | None = None) -> T:
        """Run ``function`` in the lane, alone."""
        return self.submit(None, lambda _: [function()], owner=owner)

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

    def _give_way(self, job: _Job) -> None:
        """Run what waits and is more urgent than ``job``, which is part of the one that runs."""
        if not self._nested:
            self._nested = True
            while group := self._take(job.deadline):
                self._run(group)
            self._nested = False
        if self._closed or job.cancelled:
            raise Cancelled

    def _take(self, before: float = math.inf) -> list[_Job]:
        """The next job, of an earlier deadline than ``before``, and all that can run with it; empty where there is none
        such, or the lane is closed. Waits for one where any will do."""
        with self._wake:
            while True:
                for job in self._jobs:
                    if self._closed or job.cancelled:
                        job.future.set_exception(Cancelled())
                self._jobs = deque(job for job in self._jobs if not job.future.done())
                if self._closed:
                    return []
                if self._jobs or before < math.inf:
                    break
                self._wake.wait()
            first = min(self._jobs, key=lambda job: job.deadline, default=None)
            if first is None or first.deadline >= before:
                return []
            if first.key is not None and self._aside > 0:
                least = max(first.priority, Priority.INTERIM)  # backlog goes before no live step
                waiting = (job for job in self._jobs if job.key is None and job.deadline < before)
                alone = (job for job in waiting if job.priority <= least)
                first = min(alone, key=lambda job: job.deadline, default=first)
            group = [first]
            if first.key is not None:
                others = (job for job in self._jobs if job is not first and job.key == first.key)
                group += sorted(others, key=lambda job: job.deadline)[: self._most - 1]
            taken = set(map(id, group))
            self._jobs = deque(job for job in self._jobs if id(job) not in taken)
            return group

    def _work(self) -> None:
        while group := self._take():
            self._run(group)

    def _run(self, group: list[_Job]) -> None:
        now = time.monotonic()
        if any(job.priority is Priority.FINAL and now - max(job.since, job.deadline) > LATE for job in group):
            self.late_at = now
        began, outer, self._inner = self._stopwatch(), self._inner, 0.0
        try:
            results = group[0].run([job.payload for job in group])
            if len(results) != len(group):
                raise RuntimeError(f"{len(group)} jobs were run together, {len(results)} results came back")
        except BaseException as error:  # the waiting threads get it; the lane lives on
            for job in group:
                job.future.set_exception(error)
        else:
            for job, result in zip(group, results, strict=True):
                job.future.set_result(result)
        whole = self._stopwatch() - began
        seconds, self._inner = whole - self._inner, outer + whole
        self.busy[min(job.priority for job in group)] += seconds
        if self._flat:
            self._aside = self._aside - seconds if group[0].key is None else min(seconds, ASIDE)
        self.batches += 1
        self.jobs += len(group)
