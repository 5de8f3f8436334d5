"""Load: what lanes did, set against what it was for."""

from collections.abc import Callable, Iterator

import pytest

from engines.batching import LATE, Lane, Owner, Priority, Task
from engines.load import HALF_LIFE_SECONDS, LATE_SECONDS, UNKNOWN, USABLE, Load
from tests.lanes import Clock, queue


class Stopwatch:
    """Stands, but for what the jobs of a test say that they took: a machine that is busy takes longer."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def stopwatch() -> Stopwatch:
    """That of the lanes."""
    return Stopwatch()


@pytest.fixture
def lanes(stopwatch: Stopwatch, clock: Clock) -> Iterator[list[Lane]]:
    """Two that end with the test."""
    both = [Lane(f"hearsay-test-{i}", stopwatch=stopwatch) for i in range(2)]
    yield both
    for lane in both:
        lane.close()


Work = Callable[[Lane, float, Priority], float]


@pytest.fixture
def work(stopwatch: Stopwatch, clock: Clock) -> Work:
    """Lets a lane work so long; how long it did."""

    def take(seconds: float) -> None:
        stopwatch.seconds += seconds
        clock.now += seconds

    def work(lane: Lane, seconds: float, priority: Priority) -> float:
        lane.call(lambda: take(seconds), owner=Task(Owner(), priority))
        lane.call(lambda: None)  # the time is booked by now
        return seconds

    return work


def test_what_was_not_measured_has_room(lanes: list[Lane]) -> None:
    load = Load(lanes)
    assert load.room(0) == UNKNOWN and load.room(UNKNOWN + 5) == 0


def test_the_busiest_lane_decides_how_many_fit(lanes: list[Lane], work: Work) -> None:
    load = Load(lanes)
    work(lanes[1], 0.02, Priority.FINAL)
    spent = work(lanes[0], 0.08, Priority.FINAL)
    load.heard(1.0)
    assert load.room(0) == int(USABLE / spent) > 5
    assert load.room(3) == load.room(0) - 3
    assert load.room(1_000) == 0


def test_finals_in_advance_count_and_backlog_does_not(lanes: list[Lane], work: Work) -> None:
    load = Load(lanes)
    load.heard(1.0)
    work(lanes[0], 0.05, Priority.BACKLOG)
    assert load.room(0) == UNKNOWN
    work(lanes[0], 0.06, Priority.EARLY)
    assert load.room(0) == int(USABLE / 0.06)


def test_an_interim_a_second_is_planned_with_however_many_were_made(lanes: list[Lane], work: Work) -> None:
    """More are made where there is time; they keep nobody away."""
    load = Load(lanes)
    load.heard(1.0)
    spent = sum(work(lanes[0], 0.02, Priority.INTERIM) for _ in range(10))
    for _ in range(10):
        load.looked()
    assert load.room(0) == int(USABLE / (spent / 10))


def test_one_session_always_fits(lanes: list[Lane], work: Work) -> None:
    """A machine that is too slow is told by its delays, not by refusing everybody."""
    load = Load(lanes)
    work(lanes[0], 0.05, Priority.FINAL)
    load.heard(0.01)
    assert (load.room(0), load.room(1)) == (1, 0)


def test_there_is_no_room_beside_a_live_session_while_finals_are_late(lanes: list[Lane], clock: Clock) -> None:
    load = Load(lanes, clock)
    with queue(lanes[1]) as add:
        add(lambda: lanes[1].call(lambda: None, owner=Task(Owner(), Priority.FINAL)))
        clock.now += LATE + 0.01
    assert load.room(1) == 0
    assert load.room(0) > 0
    clock.now += LATE_SECONDS
    assert load.room(1) > 0


def test_what_was_measured_is_forgotten_in_favour_of_what_is_new(lanes: list[Lane], work: Work, clock: Clock) -> None:
    load = Load(lanes, clock)
    work(lanes[0], 0.2, Priority.FINAL)
    load.heard(2.0)
    clock.now += 0.001
    slow = load.room(0)
    assert slow <= int(USABLE / 0.1)
    for _ in range(6):
        clock.now += HALF_LIFE_SECONDS
        work(lanes[0], 0.02, Priority.FINAL)
        load.heard(2.0)
        clock.now += 0.001
        now = load.room(0)
        assert now > slow
        slow = now
    assert int(USABLE / 0.02) <= slow


def test_an_idle_machine_keeps_its_figures(lanes: list[Lane], work: Work) -> None:
    """However long nobody spoke, and however often it is asked in between."""
    clock = Clock()
    load = Load(lanes, clock)
    work(lanes[0], 0.11, Priority.FINAL)
    load.heard(4.0)
    clock.now += 0.001
    room = load.room(0)
    for _ in range(20):
        clock.now += HALF_LIFE_SECONDS
        assert load.room(0) == room
