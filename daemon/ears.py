"""The thread in which streams hear: wire formats, voice activity, the clock. It waits for no lane.

Streams that are due at the same moment go on side by side, frame by frame, so that their voice activity is one call.
"""

import math
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from engines.lane import Call, Steps


class Ear(Protocol):
    """One stream that hears."""

    due: float
    """The time by ``time.monotonic()`` from which it has something to hear; infinity where it has nothing."""

    def hear(self) -> Steps[None]:
        """Hear some of it, which takes milliseconds, and set ``due`` anew. What goes wrong it tells by itself."""
        ...


class Ears:
    """A thread for many streams, which begins with the first one. Thread-safe. It must be closed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._wake, self._hearing = threading.Condition(), threading.Lock()
        self._ears: set[Ear] = set()
        self._next, self._closed = math.inf, False
        self._thread: threading.Thread | None = None

    def join(self, ear: Ear) -> None:
        """Let ``ear`` hear here from now on."""
        with self._wake:
            self._ears.add(ear)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._wake.notify()

    def leave(self, ear: Ear) -> None:
        """Let ``ear`` hear no more, not even what it is about to. This takes milliseconds. Idempotent."""
        with self._wake:
            self._ears.discard(ear)
        with self._hearing:
            pass

    def wake(self, due: float) -> None:
        """Say that an ear is due at ``due``. Returns at once."""
        if due < self._next:
            with self._wake:
                self._wake.notify()

    def close(self) -> None:
        """End the thread. Idempotent."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._wake:
                while True:
                    if self._closed:
                        return
                    now = time.monotonic()
                    due = [ear for ear in self._ears if ear.due <= now]
                    if due:
                        break
                    self._next = min((ear.due for ear in self._ears), default=math.inf)
                    # One may have become due meanwhile, through somebody who saw no need to wake this thread.
                    if (first := min((ear.due for ear in self._ears), default=math.inf)) < self._next:
                        continue
                    self._wake.wait(None if first == math.inf else max(0.0, first - time.monotonic()))
                self._next = -math.inf
            with self._hearing:
                _together([ear.hear() for ear in due if ear in self._ears])


def _together(hearing: Sequence[Steps[None]]) -> None:
    """Run all of ``hearing`` to the end. Calls of the same function that they wait for are one."""
    going: list[tuple[Steps[None], Any]] = [(steps, None) for steps in hearing]
    while going:
        asked: list[tuple[Steps[None], Call]] = []
        for steps, result in going:
            with suppress(StopIteration):
                wanted = steps.send(result)
                assert isinstance(wanted, Call)  # hearing waits for no other work
                asked.append((steps, wanted))
        going = []
        while asked:
            run = asked[0][1].run
            alike = [(steps, call) for steps, call in asked if call.run == run]
            asked = [(steps, call) for steps, call in asked if call.run != run]
            try:
                results = run([call.payload for _, call in alike])
            except Exception as error:
                for steps, _ in alike:
                    with suppress(StopIteration):
                        steps.throw(error)
            else:
                going += [(steps, result) for (steps, _), result in zip(alike, results, strict=True)]
