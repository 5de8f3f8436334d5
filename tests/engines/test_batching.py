"""The lane: one thread, merged batches, deadlines, cancellation, no job lost and no caller left waiting."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from engines.batching import LATE, SLACK, Cancelled, Lane, Owner, Priority
from tests.lanes import Clock, held, noting, queue, task, until_waiting


@pytest.fixture
def lane(clock: Clock) -> Iterator[Lane]:
    """One that ends with the test."""
    lane = Lane("hearsay-test")
    yield lane
    lane.close()


def test_calls_run_one_at_a_time(lane: Lane) -> None:
    """Jobs from many threads never overlap."""
    inside = 0
    worst = 0

    def job() -> None:
        nonlocal inside, worst
        inside += 1
        worst = max(worst, inside)
        time.sleep(0.002)
        inside -= 1

    threads = [threading.Thread(target=lambda: [lane.call(job) for _ in range(5)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == 1
    assert lane.jobs == 40


def test_jobs_of_one_key_share_a_call(lane: Lane) -> None:
    """What waits together under one key is one batch, and each caller gets its own result."""
    sizes: list[int] = []

    def double(batch: list[int]) -> list[int]:
        sizes.append(len(batch))
        return [2 * x for x in batch]

    results: dict[int, int] = {}
    callers = [
        threading.Thread(target=lambda i=i: results.__setitem__(i, lane.submit(i, double, key="double")))
        for i in range(6)
    ]
    with held(lane):
        for caller in callers:
            caller.start()
        until_waiting(lane, 6)
    for caller in callers:
        caller.join()
    assert sizes == [6]
    assert results == {i: 2 * i for i in range(6)}


def test_jobs_without_key_stay_alone(lane: Lane) -> None:
    """A job without a key is its own batch."""
    assert lane.submit(3, lambda batch: [len(batch)]) == 1


def test_an_error_reaches_its_caller_and_the_lane_lives_on(lane: Lane) -> None:
    """An exception in a call is raised where the job was submitted."""
    with pytest.raises(ZeroDivisionError):
        lane.call(lambda: 1 // 0)
    assert lane.call(lambda: 5) == 5


def test_a_cancelled_owner_gets_nothing_more(lane: Lane) -> None:
    """Waiting and new jobs of a cancelled owner raise; other owners' jobs run."""
    owner, other = Owner(), Owner()
    ran: list[str] = []
    outcome: list[str] = []

    def waiting() -> None:
        try:
            lane.call(lambda: ran.append("cancelled"), owner=owner)
        except Cancelled:
            outcome.append("raised")

    waiter = threading.Thread(target=waiting)
    with held(lane):
        waiter.start()
        until_waiting(lane, 1)
        owner.cancel()
    waiter.join()
    lane.call(lambda: ran.append("other"), owner=other)
    with pytest.raises(Cancelled):
        lane.call(lambda: ran.append("late"), owner=owner)
    assert outcome == ["raised"]
    assert ran == ["other"]


def test_closing_cancels_what_waits_and_ends_the_thread() -> None:
    """No thread is left and no caller hangs."""
    lane = Lane("closing")
    outcome: list[str] = []

    def waiting() -> None:
        try:
            lane.call(lambda: None)
        except Cancelled:
            outcome.append("raised")

    waiter, closer = threading.Thread(target=waiting), threading.Thread(target=lane.close)
    with held(lane):
        waiter.start()
        until_waiting(lane, 1)
        closer.start()
        while not lane._closed:
            time.sleep(0.001)
    for thread in (waiter, closer):
        thread.join(60)
    assert outcome == ["raised"]
    assert not any(t.name == "closing" for t in threading.enumerate())
    with pytest.raises(Cancelled):
        lane.call(lambda: None)


def test_at_one_moment_the_priority_decides(lane: Lane) -> None:
    """Whatever the order they came in; a job of nobody's piece of work is a final's."""
    done: list[str] = []
    tasks = [task(priority) for priority in (Priority.BACKLOG, Priority.INTERIM, Priority.EARLY, Priority.FINAL)]
    with queue(lane) as add:
        for one in tasks:
            add(noting(lane, done, one.priority.name, one))
        add(noting(lane, done, "nobody's", None))
    assert done == ["FINAL", "nobody's", "EARLY", "INTERIM", "BACKLOG"]


def test_equal_deadlines_are_served_in_turn(lane: Lane) -> None:
    done: list[str] = []
    with queue(lane) as add:
        for name in "abcdef":
            add(noting(lane, done, name, None))
    assert done == list("abcdef")


def test_what_has_waited_longer_than_its_slack_goes_before_all_that_is_younger(lane: Lane, clock: Clock) -> None:
    """Nobody starves."""
    done: list[str] = []
    old, older = task(Priority.INTERIM), task(Priority.EARLY)
    clock.now += SLACK[Priority.INTERIM] + 0.01
    with queue(lane) as add:
        for name, owner in (("final", task(Priority.FINAL)), ("old", old), ("older", older)):
            add(noting(lane, done, name, owner))
    assert done == ["older", "old", "final"]


@pytest.mark.parametrize("priority", Priority)
def test_a_deadline_is_the_moment_of_asking_and_the_slack(clock: Clock, priority: Priority) -> None:
    asked = task(priority)
    assert asked.deadline == clock.now + SLACK[priority]
    assert asked.priority is priority


def test_jobs_of_one_piece_of_work_share_its_deadline(lane: Lane, clock: Clock) -> None:
    """A final that is half done goes on before one that is asked for later."""
    done: list[str] = []
    first = task(Priority.FINAL)
    clock.now += 0.01
    second = task(Priority.FINAL)
    with queue(lane) as add:
        add(noting(lane, done, "second", second))
        add(noting(lane, done, "first", first))
    assert done == ["first", "second"]


def test_hastened_work_goes_first_even_where_it_waits_already(lane: Lane) -> None:
    done: list[str] = []
    early = task(Priority.EARLY)
    with queue(lane) as add:
        other = task(Priority.EARLY)
        add(noting(lane, done, "other", other))
        add(noting(lane, done, "hastened", early))
        early.hasten(Priority.FINAL)
        assert (early.priority, other.priority) == (Priority.FINAL, Priority.EARLY)
        hastened = early.deadline
        early.hasten(Priority.INTERIM)  # nobody waits less for it
        assert (early.priority, early.deadline) == (Priority.FINAL, hastened)
    assert done == ["hastened", "other"]


def test_a_piece_of_work_ends_alone_or_with_its_session(lane: Lane) -> None:
    session = Owner()
    given_up, kept = task(Priority.INTERIM, session), task(Priority.FINAL, session)
    given_up.cancel()
    assert given_up.cancelled and not kept.cancelled and not session.cancelled
    assert lane.call(lambda: 1, owner=kept) == 1
    session.cancel()
    assert kept.cancelled
    for owner in (given_up, kept):
        with pytest.raises(Cancelled):
            lane.call(lambda: 1, owner=owner)


def test_a_cancelled_job_is_answered_before_the_next_one_begins(lane: Lane) -> None:
    """However many wait before it, and though it never runs."""
    done: list[str] = []
    given_up = task(Priority.BACKLOG)

    def cancelled() -> None:
        with pytest.raises(Cancelled):
            lane.call(lambda: done.append("ran"), owner=given_up)
        done.append("answered")

    answered = threading.Thread(target=cancelled)
    with queue(lane) as add:
        answered.start()
        until_waiting(lane, 1)
        add(lambda: lane.call(answered.join))  # goes before it, and ends only when it was answered
        given_up.cancel()
    assert done == ["answered"]


def test_a_job_gives_way_to_what_is_more_urgent_before_each_of_its_own(lane: Lane) -> None:
    """Its parts run inside it, one after the other; what waits with an earlier deadline goes between, and gives way to
    nothing itself; the rest comes after it."""
    done: list[str] = []
    long, begun = task(Priority.EARLY), threading.Event()
    final, interim = task(Priority.FINAL), task(Priority.INTERIM)
    first = task(Priority.FINAL)

    def part(name: str) -> None:
        lane.call(lambda: done.append(name), owner=long)

    def parts() -> None:
        part("one")
        begun.set()
        until_waiting(lane, 3)
        part("two")
        part("three")

    def urgent() -> None:
        done.append("final begins")
        lane.call(lambda: done.append("final ends"), owner=final)

    def submit(call: Callable[[], None], owner: Owner) -> threading.Thread:
        thread = threading.Thread(target=lambda: lane.call(call, owner=owner))
        thread.start()
        return thread

    callers = [submit(parts, long)]
    assert begun.wait(60)
    for waiting, (call, owner) in enumerate(
        [(lambda: done.append("interim"), interim), (urgent, final), (lambda: done.append("first"), first)]
    ):
        until_waiting(lane, waiting)
        callers.append(submit(call, owner))
    for caller in callers:
        caller.join(60)
    assert done == ["one", "final begins", "final ends", "first", "two", "three", "interim"]


def test_a_job_whose_owner_has_gone_ends_at_its_next_part(lane: Lane) -> None:
    owner, done = Owner(), list[str]()

    def parts() -> None:
        lane.call(lambda: done.append("one"), owner=owner)
        owner.cancel()
        lane.call(lambda: done.append("two"), owner=owner)

    with pytest.raises(Cancelled):
        lane.call(parts, owner=owner)
    assert done == ["one"]


@pytest.mark.parametrize("results", [[], [1, 2], [1, 2, 3, 4]])
def test_a_wrong_number_of_results_is_every_callers_error(lane: Lane, results: list[int]) -> None:
    """And the lane lives on."""
    errors: list[str] = []

    def run(batch: list[int]) -> Sequence[int]:
        assert len(batch) == 3
        return results

    def submit() -> None:
        with pytest.raises(RuntimeError) as error:
            lane.submit(0, run, key="batch")
        errors.append(str(error.value))

    with queue(lane) as add:
        for _ in range(3):
            add(submit)
    assert errors == [f"3 jobs were run together, {len(results)} results came back"] * 3
    assert lane.call(lambda: 5) == 5


def test_a_batch_is_as_large_as_it_may_be() -> None:
    lane, sizes = Lane("hearsay-test", most=4), list[int]()

    def run(batch: list[int]) -> list[int]:
        sizes.append(len(batch))
        return batch

    try:
        with queue(lane) as add:
            for _ in range(10):
                add(lambda: lane.submit(0, run, key="batch"))
    finally:
        lane.close()
    assert sizes == [4, 4, 2]


@pytest.mark.usefixtures("clock")
def test_of_more_jobs_than_fit_a_batch_the_most_urgent_go() -> None:
    """Whatever the order they came in."""
    lane, batches = Lane("hearsay-test", most=2), list[list[str]]()

    def run(batch: list[str]) -> list[str]:
        batches.append(batch)
        return batch

    try:
        with queue(lane) as add:
            for priority in (Priority.INTERIM, Priority.BACKLOG, Priority.EARLY, Priority.FINAL):
                add(lambda one=task(priority): lane.submit(one.priority.name, run, key="batch", owner=one))
    finally:
        lane.close()
    assert batches == [["FINAL", "EARLY"], ["INTERIM", "BACKLOG"]]


@pytest.mark.usefixtures("clock")
def test_time_is_booked_to_the_most_urgent_of_a_batch() -> None:
    """By a stopwatch that stands but for what the jobs say: a machine that is busy takes longer. What gave way is not
    booked twice."""
    seconds = 0.0

    def sleep(batch: list[float]) -> list[float]:
        nonlocal seconds
        seconds += max(batch)
        return batch

    lane = Lane("hearsay-test", stopwatch=lambda: seconds)

    lane.submit(0.03, sleep, owner=task(Priority.INTERIM))
    lane.submit(0.02, sleep, owner=task(Priority.BACKLOG))
    with queue(lane) as add:
        for priority in (Priority.BACKLOG, Priority.EARLY):
            add(lambda priority=priority: lane.submit(0.04, sleep, key="batch", owner=task(priority)))

    def long() -> None:
        nonlocal seconds
        seconds += 0.01
        with ThreadPoolExecutor(1) as pool:
            final = pool.submit(lambda: lane.submit(0.05, sleep, owner=task(Priority.FINAL)))
            until_waiting(lane, 1)
            lane.submit(0.02, sleep, owner=interim)
        final.result()

    interim = task(Priority.INTERIM)
    lane.call(long, owner=interim)
    lane.close()
    booked = {Priority.FINAL: 0.05, Priority.EARLY: 0.04, Priority.INTERIM: 0.06, Priority.BACKLOG: 0.02}
    assert lane.busy == pytest.approx(booked)


def test_only_a_final_that_waited_long_shows_a_full_machine(lane: Lane, clock: Clock) -> None:
    """Neither late backlog nor interims, nor what is nobody's work, nor a final that had its turn soon."""
    with queue(lane) as add:
        add(lambda: lane.call(lambda: None))
        clock.now += LATE
    with queue(lane) as add:
        for priority in (Priority.EARLY, Priority.INTERIM, Priority.BACKLOG):
            add(lambda priority=priority: lane.call(lambda: None, owner=task(priority)))
        clock.now += SLACK[Priority.BACKLOG] + LATE + 0.01
        add(lambda: lane.call(lambda: None))
        clock.now += LATE + 0.01
    assert lane.late_at < 0
    with queue(lane) as add:
        add(lambda: lane.call(lambda: None, owner=task(Priority.FINAL)))
        clock.now += LATE + 0.01
    assert lane.late_at == clock.now
