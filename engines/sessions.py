"""The sessions of one loaded model: which are open, how many may be, and how much work all of them made.

A model opens its sessions through :class:`Sessions`; a session calls ``on_close`` when it has closed. Each session
counts its work in a dataclass derived from :class:`Counts`, which is added to the model's when it closes.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Generic, Protocol, TypeVar


class Busy(RuntimeError):
    """All sessions, or all sequences of a KV cache, are taken, or there is no memory for another."""


class OptionError(ValueError):
    """A session cannot do what an option asks. ``field`` names the option, ``reason`` says why, without its name."""

    def __init__(self, field_name: str, reason: str) -> None:
        super().__init__(f"{field_name}: {reason}")
        self.field, self.reason = field_name, reason


@dataclass(slots=True)
class Counts:
    """The base of dataclasses whose fields are all numbers."""

    def add(self, other: "Counts") -> None:
        """Add each number of ``other``, of the same class, to this one's."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Session(Protocol):
    """A session of a model: a listener or a speaker."""

    @property
    def work(self) -> Counts:
        """The work that the session made so far."""
        ...

    def close(self) -> None:
        """Give everything back, and call ``on_close`` with the session. Idempotent."""
        ...


S = TypeVar("S", bound=Session)
C = TypeVar("C", bound=Counts)


class Sessions(Generic[S, C]):
    """At most ``most`` open sessions. Thread-safe."""

    def __init__(self, most: int, counts: type[C]) -> None:
        """``counts`` is the class of every session's ``work``."""
        self.most = most
        self._counts = counts
        self._lock = threading.Lock()
        self._open: set[S] = set()
        self._closed = counts()

    def open(self, make: Callable[[Callable[[S], None]], S]) -> S:
        """Open the session that ``make(on_close)`` returns. It counts as open until it calls ``on_close`` with itself.

        Raises:
            Busy: ``most`` sessions are open.
            Exception: whatever ``make`` raises; no session is open then.
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
        """How many sessions are open."""
        return len(self._open)

    def count(self, wanted: Callable[[S], bool]) -> int:
        """How many sessions are open for which ``wanted`` is true."""
        with self._lock:
            return sum(map(wanted, self._open))

    @property
    def work(self) -> C:
        """The work of all sessions so far, closed ones included."""
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
