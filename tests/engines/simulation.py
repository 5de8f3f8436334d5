"""A simulated lane, which tells for thousands of sessions how long they wait under the policy of
``engines.scheduling``. It has no threads and no model: a call is the seconds that it takes."""

import heapq
import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engines.scheduling import SLACK, Pace, Place, Priority, chosen


@dataclass(frozen=True)
class Cost:
    """How many seconds a piece of work takes: its encoder's call, its prefill, and each of its ``steps`` steps. A
    shared step takes ``more`` longer for each further row."""

    encoder: float
    prefill: float
    step: float = 0.0
    steps: int = 0
    more: float = 0.25


@dataclass(eq=False)
class Job:
    """A piece of work that waits for its next call."""

    priority: Priority
    deadline: float
    calls: list[tuple[float, Hashable, Place | None]]
    done: Callable[[float], None]
    in_vain: Callable[[], bool] = lambda: False
    asked: float = 0.0
    begun: bool = True

    @property
    def key(self) -> Hashable:
        """The key of the next call."""
        return self.calls[0][1]

    @property
    def place(self) -> Place | None:
        """The place of the next call."""
        return self.calls[0][2]


class Lane:
    """A lane with so many threads. ``at`` schedules what happens, ``run`` lets it happen."""

    def __init__(self, threads: int, most: int = 64, more: float = 0.25) -> None:
        self.now = 0.0
        self.busy = 0.0
        """Seconds of all threads that ran something."""
        self._free, self._most, self._more = threads, most, more
        self._pace, self._number = Pace(), itertools.count()
        self._waiting: list[Job] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Let ``what`` happen at ``when``."""
        heapq.heappush(self._events, (when, next(self._number), what))

    def put(self, job: Job) -> None:
        """Let ``job`` wait from now on."""
        job.asked = self.now
        self._waiting.append(job)

    def run(self, until: float) -> None:
        """Let time pass until nothing is scheduled any more."""
        while self._events and self._events[0][0] <= until:
            self.now, _, what = heapq.heappop(self._events)
            what()
            while self._free:
                self._waiting = [job for job in self._waiting if not job.in_vain()]
                group = chosen(self._waiting, self.now, self._pace, self._most)
                if not group:
                    break
                self._begin(group)

    def _begin(self, group: Sequence[Job]) -> None:
        self._waiting = [job for job in self._waiting if job not in group]
        seconds, key, place = group[0].calls[0]
        seconds *= 1 + self._more * (len(group) - 1)
        self._free -= 1
        self.busy += seconds
        if place is not None:
            place.taken = True

        def end() -> None:
            self._free += 1
            if place is not None:
                place.took(seconds, group[0].priority, self.now, shared=key is not None)
            for job in group:
                del job.calls[0]
                if job.calls:
                    self.put(job)
                else:
                    job.done(self.now)

        self.at(self.now + seconds, end)


@dataclass
class Figures:
    """Lists of seconds, with one entry for each utterance or interim."""

    finals: list[float] = field(default_factory=list[float])
    """From the endpoint to the final."""
    words: list[float] = field(default_factory=list[float])
    """From the audio of an interim to its text, and the time since the last one: how old a word may be."""

    def late(self, values: list[float], percent: float = 95) -> float:
        """A percentile of the seconds."""
        return float(np.percentile(values, percent)) if values else 0.0


@dataclass(eq=False)
class Speaker:
    """A live session that speaks for some seconds, pauses, and so on. A new interim is due as soon as the last one is
    made."""

    lane: Lane
    figures: Figures
    interim: Cost
    final: Cost
    place: Place | None
    random: np.random.Generator
    until: float
    """When it leaves."""
    _speaking: bool = False
    _under_way: bool = False
    _looked: float = 0.0

    def begin(self) -> None:
        """Begin to speak."""
        now = self.lane.now
        if now >= self.until:
            return
        self._speaking, self._looked = True, now
        self.lane.at(now + float(self.random.uniform(1.5, 6)), self._pause)
        self.lane.at(now + 0.3, self._look)

    def _calls(self, cost: Cost) -> list[tuple[float, Hashable, Place | None]]:
        steps = [(cost.step, "step", self.place)] * cost.steps
        return [(cost.encoder, None, None), (cost.prefill, None, self.place), *steps]

    def _look(self) -> None:
        if not self._speaking or self._under_way:
            return
        now, before = self.lane.now, self._looked
        if now < before + 0.25:
            self.lane.at(before + 0.25, self._look)
            return
        self._under_way = True

        def done(at: float) -> None:
            self._under_way = False
            # As the audio of its turn: that of half of what it waited is heard already.
            self.figures.words.append(at - before)
            self._looked = now
            self._look()

        job = Job(Priority.INTERIM, now + SLACK[Priority.INTERIM], self._calls(self.interim), done)
        job.in_vain = self._gives_up
        self.lane.put(job)

    def _gives_up(self) -> bool:
        if not self._speaking:
            self._under_way = False
        return not self._speaking

    def _pause(self) -> None:
        self._speaking = False
        ended = self.lane.now + 0.4

        def done(at: float) -> None:
            self.figures.finals.append(max(0.0, at - ended))
            self.lane.at(max(at, ended) + float(self.random.uniform(0.2, 1.5)), self.begin)

        early = Job(Priority.EARLY, self.lane.now + SLACK[Priority.EARLY], self._calls(self.final), done)

        def due() -> None:
            early.priority, early.deadline = Priority.FINAL, min(early.deadline, ended)

        self.lane.put(early)
        self.lane.at(ended, due)


def crowd(
    count: int, seconds: float, interim: Cost, final: Cost, *, threads: int = 2, files: int = 0, flat: bool = False
) -> Figures:
    """Simulate ``count`` live sessions, each of which stays for so many seconds, on a lane with so many threads and
    decoders, which may be ``flat``, beside ``files`` that are heard as backlog without an end."""
    lane, figures, places = Lane(threads, more=interim.more), Figures(), [Place(flat=flat) for _ in range(threads)]
    for number in range(count):
        random = np.random.default_rng(number)
        speaker = Speaker(lane, figures, interim, final, places[number % threads], random, seconds)
        lane.at(float(random.uniform(0, 5)), speaker.begin)

    def file(number: int) -> None:
        calls: list[tuple[float, Hashable, Place | None]] = [(0.05, None, None), (0.05, None, places[number % threads])]
        deadline = lane.now + SLACK[Priority.BACKLOG]
        lane.put(Job(Priority.BACKLOG, deadline, calls, lambda _: file(number)))

    for number in range(files):
        lane.at(0.0, lambda number=number: file(number))
    lane.run(seconds)
    return figures
