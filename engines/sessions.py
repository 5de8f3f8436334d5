"""The sessions of one loaded model: how many at a time, who is open, and what all of them did together.

A model opens its sessions through :class:`Sessions`; a session tells by ``on_close`` that it has closed. What it counts
is a dataclass of numbers made of :class:`Counts`, and is summed when it has gone.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Generic, Protocol, TypeVar


class Busy(RuntimeError):
    """Every session, or every sequence of a KV cache, is taken."""


class OptionError(ValueError):
    """An option lies outside what a session can do. ``field`` names it, ``reason`` says why, without the name."""

    def __init__(self, field_name: str, reason: str) -> None:
        super().__init__(f"{field_name}: {reason}")
        self.field, self.reason = field_name, reason


@dataclass(slots=True)
class Counts:
    """Base of dataclasses whose fields are all numbers."""

    def add(self, other: "Counts") -> None:
        """Sum ``other``, of the same class, into this one."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Session(Protocol):
    """What is held here: a listener, a speaker."""

    @property
    def work(self) -> Counts:
        """What it has done so far."""
        ...

    def close(self) -> None:
        """Give everything back, and call ``on_close`` with itself. Idempotent."""
        ...


S = TypeVar("S", bound=Session)
C = TypeVar("C", bound=Counts)


class Sessions(Generic[S, C]):
    """At most ``most`` open sessions. Thread-safe."""

    def __init__(self, most: int, counts: type[C]) -> None:
        """``counts``: the class of every session's ``work``."""
        self.most = most
        self._counts = counts
        self._lock = threading.Lock()
        self._open: set[S] = set()
        self._closed = counts()

    def open(self, make: Callable[[Callable[[S], None]], S]) -> S:
        """The session that ``make(on_close)`` returns; it takes a place until it calls ``on_close`` with itself.

        Raises:
            Busy: ``most`` sessions are open.
            Exception: whatever ``make`` raised; no place is taken then.
        """
        with self._lock:
            if len(self._open) >= self.most:
                raise Busy(f"all {self.most} sessions are taken")
            session = make(self._forget)
            self._open.add(session)
            return session

    def _forget(self, session: S) -> None:
        with self._lock:
            if session in self._open:
                self._open.remove(session)
                self._closed.add(session.work)

    @property
    def live(self) -> int:
        """Open sessions."""
        return len(self._open)

    @property
    def work(self) -> C:
        """Counters of all sessions so far, closed ones included."""
        total = self._counts()
        with self._lock:
            total.add(self._closed)
            for session in self._open:
                total.add(session.work)
        return total

    def close(self) -> None:
        """Close every session."""
        for session in list(self._open):
            session.close()
