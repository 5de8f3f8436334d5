"""The lane: threads that run the model calls of many sessions, the most urgent first, merged where they can be.

Work is written as a generator that yields a :class:`Call` where it needs a model, and receives what that gives. A lane
runs it from call to call, in whichever of its threads is free; the rest of the work, between two calls, runs there too.
So nothing waits in a thread of its own, and what goes next is decided anew before every call
(``engines/scheduling.py``). A piece of work has one call at a time, hence a lane never holds more than there are
sessions. Work whose session has gone, or that is in vain by now, ends at its next call. Work may also yield another
:class:`Task` of the lane, to wait for it: meanwhile it takes up no thread.

The machine has few cores, and ONNX Runtime's threads beside llama.cpp's cost both two to four times their speed. So the
threads of a lane are all that compute for a model, with the budget shared out among them (``engines/threads.py``).
"""

import math
import threading
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from engines.scheduling import SLACK, Pace, Place, Priority, chosen

T = TypeVar("T")
P = TypeVar("P")

MOST: Final = 64
"""How many calls are merged into one at most."""
CARD_BEGINNINGS: Final = 8
"""How many pieces of work a thread begins at once in a lane that drives a card. To choose one among the work of 64
voices takes as long as to begin it, and there this process is what limits how many there can be."""
LATE: Final = 0.3
"""Seconds in the queue after which a call that a final waits for shows that the machine is full."""


class Cancelled(Exception):
    """The work is given up: its owner has gone, it is in vain, or the lane is closed."""


class Owner:
    """Whoever the work is done for. After ``cancel`` its waiting and future work raises :class:`Cancelled`."""

    def __init__(self) -> None:
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether the owner has given its work up."""
        return self._cancelled

    def cancel(self) -> None:
        """Give up everything of this owner but the calls that run."""
        self._cancelled = True


@dataclass(frozen=True, slots=True)
class Call:
    """A model call: ``run([payload, …])`` gives a result for each payload. Calls of equal ``key`` and ``place`` that
    wait at the same moment may be one; they must then bring the same function."""

    run: Callable[[list[Any]], Sequence[Any]]
    payload: Any
    key: Hashable = None
    place: Place | None = None


Steps = Generator["Call | Task[Any]", Any, T]
"""Work, which yields the model calls that it needs and the work that it waits for, and returns what comes of it."""


def call(
    run: Callable[[list[P]], Sequence[T]], payload: P, *, key: Hashable = None, place: Place | None = None
) -> Steps[T]:
    """Work that is one call and returns what ``run`` makes of ``payload``; the arguments are those of :class:`Call`."""
    return (yield Call(run, payload, key, place))


def alone(function: Callable[[], T], place: Place | None = None) -> Steps[T]:
    """Work that calls ``function`` in the lane and returns what it returns."""
    return (yield Call(lambda _: [function()], None, None, place))


def outcome(task: "Task[T]") -> Steps[T]:
    """Work that waits for ``task``, which was started in the same lane, and returns or raises what comes of it."""
    return (yield task)


def at_once(steps: Steps[T]) -> T:
    """Do ``steps`` here and now, its calls one by one, and return what it returns."""
    result: Any = None
    while True:
        try:
            wanted = steps.send(result)
        except StopIteration as end:
            return end.value
        if isinstance(wanted, Task):
            result = wanted.future.result()
        else:
            (result,) = wanted.run([wanted.payload])


class Task(Generic[T]):
    """A piece of work on its way. It knows what it waits for, how urgent that is, and what came of it."""

    def __init__(
        self,
        steps: Steps[T],
        priority: Priority = Priority.EARLY,
        *,
        owner: Owner | None = None,
        deadline: float | None = None,
    ) -> None:
        """``deadline`` is a time by ``time.monotonic()``; None stands for its priority's slack from now on."""
        self.steps, self.owner = steps, owner
        self.priority = priority
        self.deadline = time.monotonic() + SLACK[priority] if deadline is None else deadline
        self.future: Future[T] = Future()
        self.call: Call | None = None
        """The call that it waits for; None while it waits to begin, or for other work."""
        self.awaited: Task[Any] | None = None
        """The work that it waits for."""
        self.since = 0.0
        """The time by ``time.monotonic()`` since which it waits."""
        self.withdrawn = False
        """Whether its result is in vain by now: then it ends at its next call, with :class:`Cancelled`."""

    @property
    def begun(self) -> bool:
        """Whether it waits for a call."""
        return self.call is not None

    @property
    def key(self) -> Hashable:
        """The key of the call that it waits for."""
        return None if self.call is None else self.call.key

    @property
    def place(self) -> Place | None:
        """The place of the call that it waits for."""
        return None if self.call is None else self.call.place

    @property
    def ready(self) -> bool:
        """Whether no other work keeps it from going on."""
        return self.awaited is None or self.awaited.future.done()

    @property
    def over(self) -> bool:
        """Whether the work is given up."""
        return self.withdrawn or (self.owner is not None and self.owner.cancelled)

    def end(self, error: BaseException) -> None:
        """Let it go no further. What clears up after it must not need a call."""
        self.steps.close()
        self.future.set_exception(error)

    def hurry(self) -> None:
        """Make the work that it waits for as urgent as itself, and so on to what that waits for."""
        task: Task[Any] = self
        while (other := task.awaited) is not None:
            other.priority, other.deadline = min(other.priority, task.priority), min(other.deadline, task.deadline)
            task = other

    def begin(self) -> bool:
        """Run to the first call, or on from where it waited for other work; whether there is something to wait for."""
        if self.awaited is None:
            return self.go_on(None)
        try:
            result = self.awaited.future.result()
        except BaseException as error:
            return self.fail(error)
        return self.go_on(result)

    def go_on(self, result: object) -> bool:
        """Run to the next thing to wait for, and return whether there is one."""
        return self._until_next(lambda: self.steps.send(result))

    def fail(self, error: BaseException) -> bool:
        """Raise ``error``, which came of what it waited for; whether it goes on to wait for something else."""
        return self._until_next(lambda: self.steps.throw(error))

    def _until_next(self, run: "Callable[[], Call | Task[Any]]") -> bool:
        try:
            wanted = run()
        except StopIteration as end:
            self.future.set_result(end.value)
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.call, self.awaited = (None, wanted) if isinstance(wanted, Task) else (wanted, None)
            return True
        return False


class Lane:
    """Runs work in threads of its own. Thread-safe."""

    def __init__(
        self,
        name: str = "hearsay-lane",
        most: int = MOST,
        stopwatch: Callable[[], float] = time.perf_counter,
        processor: Callable[[], float] | None = None,
        *,
        threads: int = 1,
        hands: int = 0,
        beginnings: int = 1,
    ) -> None:
        """
        Args:
            most: how many calls are merged into one at most.
            stopwatch: gives seconds, by which it is measured how long a call takes.
            processor: gives seconds of a processor that the thread which asks has taken, where a call takes no others.
            threads: how many threads run calls; calls of one place run one at a time.
            hands: how many more threads take the work from a merged call to its next calls: what a card answers for
                many sessions at once is more than one thread reads while the card computes.
            beginnings: how many pieces of work a thread begins at once.
        """
        self._stopwatch, self._processor, self._most, self._beginnings = stopwatch, processor, most, beginnings
        self._wake = threading.Condition()
        self._waiting: list[Task[Any]] = []
        self._idle = 0
        self._closed = False
        self._pace = Pace()
        self._running: dict[int, float] = {}
        """For each thread that runs a call, the time by ``time.monotonic()`` at which that began."""
        self.busy = dict.fromkeys(Priority, 0.0)
        """Seconds that calls took, divided by the number of threads, by the most urgent priority in each call."""
        self.worked = self.busy if processor is None else dict(self.busy)
        """The same in seconds of a processor: however many others want it, a call takes the same."""
        self.late_at = -math.inf
        """The time by ``time.monotonic()`` at which a call for a final last began :data:`LATE` or more late."""
        self.batches = self.jobs = 0
        """How many calls were run, and how many were asked for."""
        self._hands = ThreadPoolExecutor(hands, f"{name}-hand") if hands else None
        names = [name, *(f"{name}-{number}" for number in range(2, threads + 1))]
        self._threads = [threading.Thread(target=self._work, name=each, daemon=True) for each in names]
        for thread in self._threads:
            thread.start()

    @property
    def threads(self) -> int:
        """How many calls may run at the same time."""
        return len(self._threads)

    @property
    def waiting(self) -> int:
        """How many pieces of work wait."""
        return len(self._waiting)

    @property
    def oldest(self) -> float:
        """Seconds since the oldest of the calls that run now began; 0 where none runs."""
        began = list(self._running.values())
        return time.monotonic() - min(began) if began else 0.0

    def start(self, task: Task[Any]) -> None:
        """Let ``task`` begin when its turn comes; its future tells what comes of it.

        Raises:
            Cancelled: the lane is closed.
        """
        with self._wake:
            if self._closed:
                task.steps.close()
                raise Cancelled
            self._put(task)
            self._wake.notify()

    def run(
        self,
        steps: Steps[T],
        priority: Priority = Priority.EARLY,
        *,
        owner: Owner | None = None,
        deadline: float | None = None,
    ) -> T:
        """Do ``steps`` and return what it returns. It begins here and now, and goes on in the lane, for which this call
        waits: so it must not come from a thread of the lane. The arguments are those of :class:`Task`.

        Raises:
            Cancelled: the owner was cancelled or the lane closed before its last call began.
            Exception: whatever ``steps`` raises.
        """
        task = Task(steps, priority, owner=owner, deadline=deadline)
        if task.over:
            raise Cancelled
        if task.go_on(None):
            self.start(task)
        return task.future.result()

    def wake(self) -> None:
        """Look again at what waits: it may be more urgent than it was, or given up."""
        with self._wake:
            self._wake.notify()

    def close(self) -> None:
        """Cancel what waits and end the threads. Idempotent. It must not come from one of them."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()
        if self._hands is not None:
            self._hands.shutdown()

    def _put(self, task: Task[Any]) -> None:
        task.since = time.monotonic()
        self._waiting.append(task)

    def _take(self) -> tuple[list[Task[Any]], list[Task[Any]]]:
        """Wait for something to do, and return the work that is given up, or else what runs next, whose place is then
        taken; neither where the lane is closed."""
        with self._wake:
            while True:
                over = [task for task in self._waiting if self._closed or task.over]
                if over or self._closed:
                    self._waiting = [task for task in self._waiting if task not in over]
                    return over, []
                for task in self._waiting:
                    task.hurry()
                ready = [task for task in self._waiting if task.ready]
                group = chosen(ready, time.monotonic(), self._pace, self._most, self._beginnings)
                if group:
                    break
                self._idle += 1
                self._wake.wait()
                self._idle -= 1
            self._waiting = [task for task in self._waiting if task not in group]
            if (place := group[0].place) is not None:
                place.taken = True
            self._running[threading.get_ident()] = time.monotonic()
            left = (task for task in ready if task not in group)
            if self._idle and any(task.place is None or not task.place.taken for task in left):
                self._wake.notify()
            return [], group

    def _work(self) -> None:
        while any(taken := self._take()):
            over, group = taken
            for task in over:
                task.end(Cancelled())
            if group:
                self._run(group)

    def _run(self, group: list[Task[Any]]) -> None:
        now, first = time.monotonic(), group[0]
        if any(task.priority is Priority.FINAL and now - max(task.since, task.deadline) > LATE for task in group):
            self.late_at = now
        priority = min(task.priority for task in group)
        place, shared = first.place, first.key is not None
        began, worked = self._stopwatch(), 0.0 if self._processor is None else self._processor()
        if first.call is None:
            going = [task for task in group if task.begin()]
        else:
            going = self._called(group)
        seconds = self._stopwatch() - began
        worked = 0.0 if self._processor is None else self._processor() - worked
        with self._wake:
            del self._running[threading.get_ident()]
            if place is not None:
                place.took(seconds, priority, time.monotonic(), shared=shared)
            self.busy[priority] += seconds / len(self._threads)
            if self._processor is not None:
                self.worked[priority] += worked / len(self._threads)
            self.batches += 1
            self.jobs += len(group)
            for task in going:
                self._put(task)

    def _called(self, group: list[Task[Any]]) -> list[Task[Any]]:
        """Run the call of ``group``, then all of them as far as their next calls, and return those that have one. Where
        the call fails each is tried alone: one of them may be the reason, and the others must not pay for it."""
        call, wrong, results = group[0].call, None, list[Any]()
        assert call is not None
        try:
            results = [*call.run([task.call.payload for task in group if task.call is not None])]
        except BaseException as error:
            if len(group) > 1:
                return [task for each in group for task in self._called([each])]
            wrong = error
        if wrong is None and len(results) != len(group):
            wrong = RuntimeError(f"{len(group)} jobs were run together, {len(results)} results came back")

        def go_on(number: int) -> bool:
            return group[number].go_on(results[number]) if wrong is None else group[number].fail(wrong)

        several = self._hands is not None and len(group) > 1
        gone = self._hands.map(go_on, range(len(group))) if several and self._hands else map(go_on, range(len(group)))
        return [task for task, more in zip(group, gone, strict=True) if more]
