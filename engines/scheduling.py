"""Who goes first: the policy of every lane, in one function. It knows no thread, no model and no clock.

A session says what it could do next, and a lane asks here whenever one of its threads is free; how urgent something is
gets decided at that moment. So a full machine makes fewer interims, not late finals; files get the time that is left;
and nobody starves.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import Final, Protocol, TypeVar


class Priority(IntEnum):
    """What a piece of work is for."""

    FINAL = 0
    """Somebody's final text waits for the work."""
    EARLY = 1
    """A final text that is not due yet needs the work, or a voice does."""
    INTERIM = 2
    """The work makes an interim text."""
    BACKLOG = 3
    """The work is a file's, or that of a session which is behind its own audio."""


SLACK: Final = {Priority.FINAL: 0.0, Priority.EARLY: 0.5, Priority.INTERIM: 1.0, Priority.BACKLOG: 6.0}
"""Seconds from the moment at which a piece of work is due to its deadline. Once in so many seconds an interim, and also
a piece of backlog, that is past its deadline goes before all others."""
ASIDE: Final = 0.15
"""Most seconds for which work that shares no call goes before shared calls of a flat place. A shared call of 200
sessions takes .13 on an H100, one of a few sessions .06 at 0.6B on two cores; a longer one was the first of its kind,
and what it took says nothing of the next."""
TOGETHER: Final = 2.0
"""Seconds by which deadlines may be apart in one call of a place that is not flat. What joins such a call makes it
longer for the most urgent: a file's step for a final, a voice that has plenty to play for one that has nothing."""


@dataclass(slots=True, eq=False)
class Place:
    """Something that takes one call at a time: a llama.cpp context, or a graphics card's graphs.

    ``flat``: a call takes much the same time whatever it holds, so it had better hold much: all calls of a card, and
    the steps of a large model. By deadlines alone such a call holds one step: the most urgent session goes on to its
    end, and all others wait to begin. So after a shared call what shares none goes first for as long as that took.
    """

    flat: bool = False
    least: Priority = Priority.EARLY
    """The least urgent work that goes before shared calls of finals so; interims always go before those of interims."""
    taken: bool = False
    busy: dict[Priority, float] = field(default_factory=lambda: dict.fromkeys(Priority, 0.0))
    """Seconds that its calls took, by the most urgent priority in each call."""
    aside: float = -math.inf
    """The time by the lane's clock until which work without a key goes before that with one."""

    def took(self, seconds: float, priority: Priority, now: float, *, shared: bool) -> None:
        """Note that a call of so many seconds ended at ``now``, by the lane's clock."""
        self.taken = False
        self.busy[priority] += seconds
        if self.flat and shared:
            self.aside = now + min(seconds, ASIDE)


class Waiting(Protocol):
    """A call that a piece of work waits for, or its beginning."""

    @property
    def priority(self) -> Priority: ...
    @property
    def deadline(self) -> float: ...
    @property
    def begun(self) -> bool:
        """Whether the work stands before a call; else it begins, or goes on after other work, and is not known to call
        anything."""
        ...

    @property
    def key(self) -> Hashable:
        """What calls that may be one have in common; None where a call shares with no other."""
        ...

    @property
    def place(self) -> Place | None:
        """Where the call runs; None where it may run beside any other."""
        ...


W = TypeVar("W", bound=Waiting)


@dataclass(slots=True)
class Pace:
    """The times, by the lane's clock, at which each class last had its turn."""

    at: dict[Priority, float] = field(default_factory=lambda: dict.fromkeys(Priority, -math.inf))


def chosen(waiting: Iterable[W], now: float, pace: Pace, most: int, beginnings: int = 1) -> list[W]:
    """Choose what runs next as one call: the most urgent first, then those that share its key and are due about then,
    ``most`` in all. If the most urgent has not begun, up to ``beginnings`` begin with it, none of them less urgent.
    Nothing is chosen where nothing waits whose place is free.

    Finals and what they need go by their deadlines; interims go where none of those waits, and backlog where no interim
    does. But where no interim ran for the slack of interims, one that is past its deadline goes first, and so with
    backlog.
    """
    able = [job for job in waiting if job.place is None or not job.place.taken]
    if not able:
        return []
    first = min(able, key=_order)
    for priority in (Priority.BACKLOG, Priority.INTERIM):
        if first.priority < priority and now - pace.at[priority] >= SLACK[priority]:
            overdue = (job for job in able if job.priority is priority and job.deadline < now)
            first = min(overdue, key=_deadline, default=first)
    place = first.place
    if first.key is not None and place is not None and now < place.aside:
        least = max(first.priority, place.least)  # backlog goes before no live step
        alone = (job for job in able if job.key is None and job.priority <= least)
        first = min(alone, key=_order, default=first)
    pace.at[first.priority] = now
    if not first.begun:
        more = (job for job in able if not job.begun and job is not first and job.priority <= first.priority)
        return [first, *islice(more, beginnings - 1)]
    if first.key is None:
        return [first]
    until = math.inf if place is not None and place.flat else first.deadline + TOGETHER
    alike = (
        job
        for job in able
        if job is not first and job.key == first.key and job.place is place and job.deadline <= until
    )
    return [first, *sorted(alike, key=_order)[: most - 1]]


def _order(job: Waiting) -> tuple[int, float]:
    return max(job.priority, Priority.EARLY), job.deadline


def _deadline(job: Waiting) -> float:
    return job.deadline
