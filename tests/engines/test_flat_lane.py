"""A flat lane: on a card, what nobody shares goes between shared calls, so that the steps of many sessions meet."""

import math
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from engines.batching import ASIDE, Lane, Priority, Task
from tests.lanes import held, noting, queue, task, until_waiting

CALL = 1 / 64
"""Seconds of a call here; a power of two, so that sums of it are exact."""


class Counted:
    """A flat lane on whose stopwatch every call takes ``CALL``, and what ran in it, in order."""

    def __init__(self) -> None:
        self.seconds, self.done = 0.0, list[str]()
        self.lane = Lane("hearsay-test", stopwatch=lambda: self.seconds, flat=True)

    def run(self, batch: list[str]) -> list[str]:
        """What its jobs bring."""
        self.seconds += CALL
        self.done.extend(batch)
        return batch


@pytest.mark.usefixtures("clock")
def test_in_a_flat_lane_what_nobody_shares_goes_first_for_as_long_as_a_shared_call_took() -> None:
    """Then the shared call of an earlier deadline, with all that has come meanwhile."""
    seconds, done = 0.0, list[list[str]]()
    lane = Lane("hearsay-test", stopwatch=lambda: seconds, flat=True)
    urgent, other, waiting = task(Priority.FINAL), task(Priority.EARLY), task(Priority.INTERIM)

    def shared(batch: list[str]) -> list[str]:
        nonlocal seconds
        seconds += 2 * CALL
        done.append(batch)
        if len(done) == 1:
            following.start()
            until_waiting(lane, 5)
        return batch

    def alone(batch: list[str]) -> list[str]:
        nonlocal seconds
        seconds += CALL
        done.append(batch)
        return batch

    following = threading.Thread(target=lambda: lane.submit("second step", shared, key="step", owner=urgent))
    try:
        with queue(lane) as add:
            add(lambda: lane.submit("first step", shared, key="step", owner=urgent))
            for name in ("one", "two", "three"):
                add(lambda name=name: lane.submit(name, alone, owner=waiting))
            add(lambda: lane.submit("before them", alone, owner=other))
        following.join(60)
    finally:
        lane.close()
    assert done == [["first step"], ["before them"], ["one"], ["second step"], ["two"], ["three"]]


@pytest.mark.usefixtures("clock")
def test_in_a_flat_lane_backlog_goes_before_no_live_step() -> None:
    counted = Counted()
    lane = counted.lane
    live, late, backlog = task(Priority.INTERIM), task(Priority.BACKLOG), task(Priority.BACKLOG)

    try:
        for owner in (live, late):
            lane.submit("step", counted.run, key="step", owner=owner)
            with queue(lane) as add:
                add(lambda owner=owner: lane.submit("next step", counted.run, key="step", owner=owner))
                add(lambda: lane.submit("backlog", counted.run, owner=backlog))
    finally:
        lane.close()
    assert counted.done == ["step", "next step", "backlog", "step", "backlog", "next step"]


@pytest.mark.usefixtures("clock")
def test_a_flat_lane_saves_up_no_time_for_what_nobody_shares() -> None:
    """However many shared calls found nothing to let go first."""
    counted = Counted()
    lane = counted.lane
    urgent, waiting = task(Priority.FINAL), task(Priority.INTERIM)

    try:
        for _ in range(3):
            lane.submit("step", counted.run, key="step", owner=urgent)
        with queue(lane) as add:
            add(lambda: lane.submit("last step", counted.run, key="step", owner=urgent))
            for name in ("one", "two"):
                add(lambda name=name: lane.submit(name, counted.run, owner=waiting))
    finally:
        lane.close()
    assert counted.done[3:] == ["one", "last step", "two"]


@pytest.mark.usefixtures("clock")
def test_a_flat_lane_lets_nobody_go_first_for_long_after_a_long_shared_call() -> None:
    """A card's first call of a kind takes seconds."""
    counted = Counted()
    lane = counted.lane
    urgent, waiting = task(Priority.FINAL), task(Priority.INTERIM)
    names = [str(number) for number in range(20)]

    def first(batch: list[str]) -> list[str]:
        counted.seconds += 5
        return batch

    try:
        lane.submit("first step", first, key="step", owner=urgent)
        with queue(lane) as add:
            add(lambda: lane.submit("second step", counted.run, key="step", owner=urgent))
            for name in names:
                add(lambda name=name: lane.submit(name, counted.run, owner=waiting))
    finally:
        lane.close()
    before = math.ceil(ASIDE / CALL)
    assert 1 < before < len(names)
    assert counted.done == [*names[:before], "second step", *names[before:]]


@pytest.mark.usefixtures("clock")
def test_in_a_flat_lane_too_a_job_gives_way_only_to_what_is_more_urgent() -> None:
    """A shared call inside it lets nothing of a later deadline in."""
    done: list[str] = []
    lane = Lane("hearsay-test", flat=True)
    urgent, long, later = task(Priority.FINAL), task(Priority.EARLY), task(Priority.INTERIM)

    def shared(batch: list[str]) -> list[str]:
        done.extend(batch)
        return batch

    def parts() -> list[Future[Any]]:
        others: list[Future[Any]] = [pool.submit(noting(lane, done, "later", later))]
        others += [pool.submit(lane.submit, name, shared, key=name, owner=urgent) for name in ("step", "another")]
        until_waiting(lane, 3)
        for name in ("one", "two"):
            noting(lane, done, name, long)()
        return others

    try:
        with ThreadPoolExecutor(3) as pool:
            for other in lane.call(parts, owner=long):
                other.result(60)
    finally:
        lane.close()
    assert sorted(done[:2]) == ["another", "step"]
    assert done[2:] == ["one", "two", "later"]


def together(*, flat: bool, sessions: int = 24, steps: int = 8) -> list[int]:
    """Sizes of the shared calls of sessions that each have a piece of work, one call that nobody shares and then
    ``steps`` that they may; every call takes a second, in which whoever was served by the one before brings the
    next."""
    seconds, working, sizes = 0.0, sessions, list[int]()
    lane = Lane("hearsay-test", stopwatch=lambda: seconds, flat=flat)
    served = list[int]()

    def call(batch: list[tuple[int, int]]) -> list[int]:
        nonlocal seconds, working, served
        seconds += 1
        # A session ends with its last step: it brings nothing while the next call runs.
        working -= sum(step == steps for step in served)
        served = [step for _, step in batch]
        if served[0] > 0:
            sizes.append(len(batch))
        until_waiting(lane, working - len(batch))
        return [session for session, _ in batch]

    def session(number: int, owner: Task) -> None:
        assert lane.submit((number, 0), call, owner=owner) == number
        for step in range(1, steps + 1):
            assert lane.submit((number, step), call, key="step", owner=owner) == number

    try:
        with ThreadPoolExecutor(sessions) as pool:
            with held(lane):
                ends = [pool.submit(session, number, task(Priority.FINAL)) for number in range(sessions)]
                until_waiting(lane, sessions)
            for end in ends:
                end.result(60)
    finally:
        lane.close()
    assert sum(sizes) == sessions * steps
    return sizes


def test_steps_of_many_sessions_meet_in_a_flat_lane() -> None:
    """By deadlines alone the two most urgent take turns, each alone, and all others wait."""
    assert set(together(flat=False)) == {1}
    sizes = together(flat=True)
    assert sum(sizes) / len(sizes) > 4
