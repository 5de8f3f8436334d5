"""The load: the time that lanes spent, set against what it was spent for."""

import time
from collections.abc import Callable, Iterator

import pytest

from engines.lane import LATE, Lane, alone
from engines.load import HALF_LIFE_SECONDS, INTERIM_SECONDS, LARGE_INTERIM_SECONDS, LATE_SECONDS, UNKNOWN, USABLE, Load
from engines.scheduling import Place, Priority
from tests.lanes import Clock, queue


class Stopwatch:
    """A clock that only the jobs of a test move, since a busy machine would take longer."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def take(self, seconds: float) -> None:
        """Let a job take so many seconds."""
        self.seconds += seconds


@pytest.fixture
def stopwatch() -> Stopwatch:
    """The stopwatch, in place of the clock of lanes."""
    return Stopwatch()


@pytest.fixture
def lane(stopwatch: Stopwatch, clock: Clock) -> Iterator[Lane]:
    """A lane that ends with the test."""
    lane = Lane("hearsay-test", stopwatch=stopwatch)
    yield lane
    lane.close()


Work = Callable[[Lane, float, Priority], float]


@pytest.fixture
def work(stopwatch: Stopwatch, clock: Clock) -> Work:
    """A function that lets a lane work for so many seconds, and returns for how many it did."""

    def take(seconds: float) -> None:
        stopwatch.seconds += seconds
        clock.now += seconds

    def work(lane: Lane, seconds: float, priority: Priority) -> float:
        lane.run(alone(lambda: take(seconds)), priority)
        lane.run(alone(lambda: None))  # the time is booked by now
        return seconds

    return work


def test_what_was_not_measured_has_room(lane: Lane) -> None:
    load = Load(lane)
    assert load.room(0) == UNKNOWN and load.room(UNKNOWN + 5) == 0


def test_the_busiest_place_decides_how_many_fit(stopwatch: Stopwatch, clock: Clock) -> None:
    """With two threads, the place that all sessions go through decides, else the work of both threads."""
    pair, place = Lane("hearsay-test", stopwatch=stopwatch, threads=2), Place()
    try:
        pair.run(alone(lambda: stopwatch.take(0.02)), Priority.FINAL)
        pair.run(alone(lambda: stopwatch.take(0.08), place), Priority.FINAL)
        pair.run(alone(lambda: None))
    finally:
        pair.close()
    alone_, through = Load(pair), Load(pair, [place])
    for load in (alone_, through):
        load._seen[:] = 0  # pyright: ignore[reportPrivateUsage]
        load.heard(1.0)
        clock.now += 0.001
    assert alone_.room(0) == int(USABLE / 0.05)
    assert through.room(0) == int(USABLE / 0.08)


def test_what_threads_beside_the_lane_take_of_its_cores_counts(stopwatch: Stopwatch, clock: Clock) -> None:
    """For each second that is fed, at most as much again as the lane's own; not where the lane has its own cores."""

    def burn(load: Load, seconds: float) -> None:
        load.beside()
        began = time.thread_time()
        while time.thread_time() - began < seconds:
            pass
        load.beside(2.0)

    for cores, burnt, expected in ((2, 0.02, 0.05 + 0.005), (2, 1.0, 0.1), (4, 0.02, 0.05), (0, 0.02, 0.05)):
        pair = Lane("hearsay-test", stopwatch=stopwatch, threads=2)
        load = Load(pair, cores=cores)
        pair.run(alone(lambda: stopwatch.take(0.1)), Priority.FINAL)
        pair.close()
        burn(load, burnt)
        load.heard(1.0)
        clock.now += 0.001
        assert load.cost() == pytest.approx(expected, rel=0.1)


def test_by_the_clock_captions_must_stay_live_on_a_machine_that_others_use(stopwatch: Stopwatch, clock: Clock) -> None:
    """An interim every two seconds, at least; on a machine of its own the processor decides."""
    processor = Stopwatch()
    for slower, expected in ((1.0, (0.01 + 0.01 / 0.5)), (1.4, (0.01 + 0.01 / 0.5)), (4.0, 4 * (0.01 + 0.01 / 2))):
        pair = Lane("hearsay-test", stopwatch=stopwatch, processor=processor, threads=2)
        load = Load(pair, cores=2)

        def take(slower: float = slower) -> None:
            processor.take(0.02)
            stopwatch.take(0.02 * slower)

        for priority in (Priority.FINAL, Priority.INTERIM):
            pair.run(alone(take), priority)
        pair.close()
        load.heard(1.0)
        load.looked()
        clock.now += 0.001
        assert load.cost() == pytest.approx(expected, rel=0.01)


def test_what_the_lane_does_decides_how_many_fit(lane: Lane, work: Work) -> None:
    load = Load(lane)
    spent = work(lane, 0.08, Priority.FINAL)
    load.heard(1.0)
    assert load.room(0) == int(USABLE / spent) > 5
    assert load.room(3) == load.room(0) - 3
    assert load.room(1_000) == 0


def test_finals_in_advance_count_and_backlog_does_not(lane: Lane, work: Work) -> None:
    load = Load(lane)
    load.heard(1.0)
    work(lane, 0.05, Priority.BACKLOG)
    assert load.room(0) == UNKNOWN
    work(lane, 0.06, Priority.EARLY)
    assert load.room(0) == int(USABLE / 0.06)


def test_fewer_interims_cost_less_of_a_session_alone(lane: Lane, work: Work) -> None:
    load = Load(lane)
    final, interim = work(lane, 0.04, Priority.FINAL), work(lane, 0.06, Priority.INTERIM)
    assert load.cost() == 0
    load.heard(1.0)
    load.looked()
    assert load.cost(1.0) == pytest.approx(final + interim, rel=0.01)
    assert load.cost(2.0) == pytest.approx(final + interim / 2, rel=0.01)


def test_so_many_interims_are_planned_with_however_many_were_made(lane: Lane, work: Work) -> None:
    """Interims beyond those that are planned, for which there was time, keep nobody away. Of large models one a second
    is planned, so more of their sessions fit than of a small one that costs as much."""
    for apart in (INTERIM_SECONDS, LARGE_INTERIM_SECONDS):
        load = Load(lane, interim_seconds=apart)
        load.heard(1.0)
        spent = sum(work(lane, 0.02, Priority.INTERIM) for _ in range(10))
        for _ in range(10):
            load.looked()
        assert load.room(0) == int(USABLE / (spent / 10 / apart))


def test_one_session_always_fits(lane: Lane, work: Work) -> None:
    """One session fits on any machine: a slow one shows by its delays, not by refusing everybody."""
    load = Load(lane)
    work(lane, 0.05, Priority.FINAL)
    load.heard(0.01)
    assert (load.room(0), load.room(1)) == (1, 0)


def test_there_is_no_room_beside_a_live_session_while_finals_are_late(lane: Lane, clock: Clock) -> None:
    load = Load(lane, clock=clock)
    with queue(lane) as add:
        add(lambda: lane.run(alone(int), Priority.FINAL))
        clock.now += LATE + 0.01
    assert load.room(1) == 0
    assert load.room(0) > 0
    clock.now += LATE_SECONDS
    assert load.room(1) > 0


def test_what_was_measured_is_forgotten_in_favour_of_what_is_new(lane: Lane, work: Work, clock: Clock) -> None:
    load = Load(lane, clock=clock)
    work(lane, 0.2, Priority.FINAL)
    load.heard(2.0)
    clock.now += 0.001
    slow = load.room(0)
    assert slow <= int(USABLE / 0.1)
    for _ in range(6):
        clock.now += HALF_LIFE_SECONDS
        work(lane, 0.02, Priority.FINAL)
        load.heard(2.0)
        clock.now += 0.001
        now = load.room(0)
        assert now > slow
        slow = now
    assert int(USABLE / 0.02) <= slow


def test_an_idle_machine_keeps_its_figures(lane: Lane, work: Work) -> None:
    """Figures stay however long nobody speaks, and however often they are asked for."""
    clock = Clock()
    load = Load(lane, clock=clock)
    work(lane, 0.11, Priority.FINAL)
    load.heard(4.0)
    clock.now += 0.001
    room = load.room(0)
    for _ in range(20):
        clock.now += HALF_LIFE_SECONDS
        assert load.room(0) == room
