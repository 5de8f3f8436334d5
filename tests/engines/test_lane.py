"""The lane: threads, merged calls and cancellation; no work is lost and no caller left waiting. test_scheduling.py
shows who goes first."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import pytest

from engines.lane import LATE, Cancelled, Lane, Owner, Steps, Task, alone, call, outcome
from engines.scheduling import SLACK, Place, Priority
from tests.lanes import Clock, held, queue, until_waiting


@pytest.fixture
def lane(clock: Clock) -> Iterator[Lane]:
    """A lane that ends with the test."""
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

    threads = [threading.Thread(target=lambda: [lane.run(alone(job)) for _ in range(5)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == 1
    assert lane.jobs == 40


def test_jobs_of_one_key_share_a_call(lane: Lane) -> None:
    """Jobs that wait together under one key share a call, and each caller gets its own result."""
    sizes: list[int] = []

    def double(batch: list[int]) -> list[int]:
        sizes.append(len(batch))
        return [2 * x for x in batch]

    results: dict[int, int] = {}
    callers = [
        threading.Thread(target=lambda i=i: results.__setitem__(i, lane.run(call(double, i, key="double"))))
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
    """A job without a key has a call of its own."""
    assert lane.run(call(lambda batch: [len(batch)], 3)) == 1


def test_an_error_reaches_its_caller_and_the_lane_lives_on(lane: Lane) -> None:
    """An exception in a call is raised where the job was submitted."""
    with pytest.raises(ZeroDivisionError):
        lane.run(alone(lambda: 1 // 0))
    assert lane.run(alone(lambda: 5)) == 5


def test_a_cancelled_owner_gets_nothing_more(lane: Lane) -> None:
    """Waiting and new jobs of a cancelled owner raise; other owners' jobs run."""
    owner, other = Owner(), Owner()
    ran: list[str] = []
    outcome: list[str] = []

    def waiting() -> None:
        try:
            lane.run(alone(lambda: ran.append("cancelled")), owner=owner)
        except Cancelled:
            outcome.append("raised")

    waiter = threading.Thread(target=waiting)
    with held(lane):
        waiter.start()
        until_waiting(lane, 1)
        owner.cancel()
    waiter.join()
    lane.run(alone(lambda: ran.append("other")), owner=other)
    with pytest.raises(Cancelled):
        lane.run(alone(lambda: ran.append("late")), owner=owner)
    assert outcome == ["raised"]
    assert ran == ["other"]


def test_closing_cancels_what_waits_and_ends_the_thread() -> None:
    """No thread is left and no caller hangs."""
    lane = Lane("closing")
    outcome: list[str] = []

    def waiting() -> None:
        try:
            lane.run(alone(lambda: None))
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
        lane.run(alone(lambda: None))


def test_cancelled_work_is_answered_before_the_next_call_begins(lane: Lane) -> None:
    """A cancelled job is answered at once, however much waits before it, though it never runs."""
    done: list[str] = []
    given_up = Owner()

    def cancelled() -> None:
        with pytest.raises(Cancelled):
            lane.run(alone(lambda: done.append("ran")), Priority.BACKLOG, owner=given_up)
        done.append("answered")

    answered = threading.Thread(target=cancelled)
    with queue(lane) as add:
        answered.start()
        until_waiting(lane, 1)
        add(lambda: lane.run(alone(answered.join)))  # goes before it, and ends only when it was answered
        given_up.cancel()
    assert done == ["answered"]


def test_of_a_shared_call_that_fails_each_job_is_tried_alone(lane: Lane) -> None:
    """If a shared call fails, each job is tried by itself, so that only the one at fault gets the error."""
    calls: list[list[int]] = []
    told: dict[int, object] = {}

    def run(batch: list[int]) -> list[int]:
        calls.append(batch)
        if 0 in batch:
            raise ZeroDivisionError
        return [10 // each for each in batch]

    def submit(number: int) -> None:
        try:
            told[number] = lane.run(call(run, number, key="batch"))
        except ZeroDivisionError as error:
            told[number] = type(error)

    with queue(lane) as add:
        for number in (5, 0, 2):
            add(lambda number=number: submit(number))
    assert told == {5: 2, 0: ZeroDivisionError, 2: 5}
    assert calls == [[5, 0, 2], [5], [0], [2]]


@pytest.mark.parametrize("results", [[], [1, 2], [1, 2, 3, 4]])
def test_a_wrong_number_of_results_is_every_callers_error(lane: Lane, results: list[int]) -> None:
    """A call that gives too few results is an error for all its callers, and the lane goes on."""
    errors: list[str] = []

    def run(batch: list[int]) -> Sequence[int]:
        assert len(batch) == 3
        return results

    def submit() -> None:
        with pytest.raises(RuntimeError) as error:
            lane.run(call(run, 0, key="batch"))
        errors.append(str(error.value))

    with queue(lane) as add:
        for _ in range(3):
            add(submit)
    assert errors == [f"3 jobs were run together, {len(results)} results came back"] * 3
    assert lane.run(alone(lambda: 5)) == 5


def test_a_batch_is_as_large_as_it_may_be() -> None:
    lane, sizes = Lane("hearsay-test", most=4), list[int]()

    def run(batch: list[int]) -> list[int]:
        sizes.append(len(batch))
        return batch

    try:
        with queue(lane) as add:
            for _ in range(10):
                add(lambda: lane.run(call(run, 0, key="batch")))
    finally:
        lane.close()
    assert sizes == [4, 4, 2]


@pytest.mark.usefixtures("clock")
def test_time_is_booked_to_the_most_urgent_of_a_batch() -> None:
    """The time of a shared call counts for its most urgent job. The stopwatch moves only as calls say, since a busy
    machine takes longer."""
    seconds = 0.0

    def sleep(batch: list[float]) -> list[float]:
        nonlocal seconds
        seconds += max(batch)
        return batch

    lane = Lane("hearsay-test", stopwatch=lambda: seconds)
    lane.run(call(sleep, 0.03), Priority.INTERIM)
    lane.run(call(sleep, 0.02), Priority.BACKLOG)
    with queue(lane) as add:
        for priority in (Priority.INTERIM, Priority.EARLY):
            add(lambda priority=priority: lane.run(call(sleep, 0.04, key="batch"), priority))
    lane.close()
    booked = {Priority.FINAL: 0.0, Priority.EARLY: 0.04, Priority.INTERIM: 0.03, Priority.BACKLOG: 0.02}
    assert lane.busy == pytest.approx(booked)


def test_only_a_final_that_waited_long_shows_a_full_machine(lane: Lane, clock: Clock) -> None:
    """Neither backlog nor interims that are late show a full machine, nor work without an owner, nor a final in
    time."""
    with queue(lane) as add:
        add(lambda: lane.run(alone(lambda: None)))
        clock.now += LATE
    with queue(lane) as add:
        for priority in (Priority.EARLY, Priority.INTERIM, Priority.BACKLOG):
            add(lambda priority=priority: lane.run(alone(int), priority))
        clock.now += SLACK[Priority.BACKLOG] + LATE + 0.01
        add(lambda: lane.run(alone(lambda: None)))
        clock.now += LATE + 0.01
    assert lane.late_at < 0
    with queue(lane) as add:
        add(lambda: lane.run(alone(int), Priority.FINAL))
        clock.now += LATE + 0.01
    assert lane.late_at == clock.now


# ---------------------------------------------------------------------------------------------------- pieces of work


def counting(done: list[str], name: str, calls: int, place: Place | None = None) -> Steps[str]:
    """Work of so many calls, each of which writes down that it ran."""
    for number in range(calls):
        yield from alone(lambda number=number: done.append(f"{name}{number}"), place)
    return name


def test_work_goes_from_call_to_call_and_more_urgent_work_between_them(lane: Lane) -> None:
    """More urgent work runs between the calls of a piece of work, whose urgency may change on its way. Its caller gets
    its result."""
    done: list[str] = []
    slow = Task(counting(done, "slow", 3), Priority.INTERIM)
    fast = Task(counting(done, "fast", 2), Priority.FINAL)

    def meanwhile() -> Steps[None]:
        yield from alone(lambda: done.append("first"))
        lane.start(fast)

    with held(lane):
        lane.start(slow)
        lane.start(Task(meanwhile(), Priority.EARLY))
    assert (slow.future.result(60), fast.future.result(60)) == ("slow", "fast")
    assert done == ["first", "fast0", "fast1", "slow0", "slow1", "slow2"]
    with held(lane):
        done.clear()
        tasks = [Task(counting(done, name, 1), Priority.INTERIM) for name in "ab"]
        for task in tasks:
            lane.start(task)
        tasks[1].priority = Priority.FINAL
    assert [task.future.result(60) for task in tasks] == ["a", "b"]
    assert done == ["b0", "a0"]


@pytest.mark.parametrize("begun", [False, True])
def test_work_that_is_given_up_ends_at_its_next_call(lane: Lane, begun: bool) -> None:
    """Work that is cancelled makes no further call, but runs its own finally blocks."""
    done: list[str] = []

    def steps() -> Steps[None]:
        try:
            yield from alone(lambda: begin.set() or gate.wait())
            yield from alone(lambda: done.append("ran"))
        finally:
            done.append("cleared up")

    begin, gate, task = threading.Event(), threading.Event(), Task(steps())
    with nullcontext() if begun else held(lane):
        lane.start(task)
        if begun:
            begin.wait(60)
        task.withdrawn = True
        gate.set()
    with pytest.raises(Cancelled):
        task.future.result(60)
    assert done == (["cleared up"] if begun else [])


def test_work_may_go_on_where_a_call_of_it_fails(lane: Lane) -> None:
    """The error of a call is raised where it was yielded, and may be caught there."""

    def steps() -> Steps[str]:
        try:
            yield from alone(lambda: 1 // 0)
        except ZeroDivisionError:
            yield from alone(int)
            return "mended"
        return "whole"

    assert lane.run(steps()) == "mended"


def test_several_threads_run_calls_beside_each_other_but_those_of_one_place() -> None:
    """Calls run side by side in several threads, but those of one place one at a time, and all threads end with the
    lane."""
    lane, here = Lane("pair", threads=2), Place()
    inside = dict.fromkeys(("here", "anywhere"), 0)
    worst, lock = dict(inside), threading.Lock()
    met = threading.Barrier(2)

    def job(name: str) -> None:
        with lock:
            inside[name] += 1
            worst[name] = max(worst[name], inside[name])
        time.sleep(0.002)
        with lock:
            inside[name] -= 1

    tasks = [Task(alone(lambda: job("here"), here)) for _ in range(8)]
    for task in tasks:
        lane.start(task)
    for task in tasks:
        task.future.result(60)
    both = [Task(alone(lambda: met.wait(60))) for _ in range(2)]
    for each in both:
        lane.start(each)
    assert sorted(each.future.result(60) for each in both) == [0, 1], "they met inside"
    assert worst["here"] == 1
    lane.close()
    assert not any(thread.name.startswith("pair") for thread in threading.enumerate())


def test_hands_take_the_answers_of_a_shared_call_on_beside_each_other() -> None:
    """While one thread runs calls of a place, others go on with the work between them, so that two pieces of work
    meet."""
    lane, met, place = Lane("hearsay-test", threads=1, hands=2), threading.Barrier(2), Place(flat=True)

    def steps() -> Steps[int]:
        yield from call(lambda batch: batch, 0, key="step", place=place)
        return met.wait(60)

    found: list[int] = []
    with queue(lane) as add:
        for _ in range(2):
            add(lambda: found.append(lane.run(steps())))
    assert sorted(found) == [0, 1]
    lane.close()


def test_a_lane_may_begin_many_pieces_of_work_at_once_and_none_that_is_less_urgent() -> None:
    """A thread chooses once for so many of them. The call that holds the lane counts too."""
    for beginnings, choices in ((8, 1 + 2 + 1), (1, 1 + 16 + 1)):
        lane, order = Lane("hearsay-test", beginnings=beginnings), list[str]()

        def steps(name: str, order: list[str] = order) -> Steps[None]:
            order.append(name)
            return
            yield  # It has no call, and ends as soon as it begins.

        early = [Task(steps("early"), Priority.EARLY) for _ in range(16)]
        backlog = Task(steps("backlog"), Priority.BACKLOG)
        with held(lane):
            for task in (backlog, *early):
                lane.start(task)
        backlog.future.result(60)
        lane.close()
        assert order == ["early"] * len(early) + ["backlog"]
        assert lane.batches == choices


def test_work_that_waits_for_other_work_takes_up_no_thread(lane: Lane) -> None:
    """In the lane's only thread the other work runs meanwhile; its result or its error comes of it."""

    def waits(other: Task[int]) -> Steps[int]:
        lane.start(other)
        return 1 + (yield from outcome(other))

    assert lane.run(waits(Task(alone(lambda: 5)))) == 6
    with pytest.raises(ZeroDivisionError):
        lane.run(waits(Task(alone(lambda: 1 // 0))))


def test_work_is_as_urgent_as_what_waits_for_it(lane: Lane) -> None:
    """Backlog that a final waits for goes before other early work."""
    done: list[str] = []
    needed = Task(counting(done, "needed", 1), Priority.BACKLOG)
    final, early = Task(outcome(needed), Priority.FINAL), Task(counting(done, "early", 1))
    with held(lane):
        for task in (needed, early, final):
            lane.start(task)
    assert (final.future.result(60), early.future.result(60)) == ("needed", "early")
    assert done == ["needed0", "early0"]


def test_work_that_waits_for_other_work_can_be_given_up(lane: Lane) -> None:
    """It ends though what it waits for never begins, and so it does where the lane is closed."""
    never = Task(alone(int))
    withdrawn, left = Task(outcome(never)), Task(outcome(never))
    for task in (withdrawn, left):
        lane.start(task)
    withdrawn.withdrawn = True
    lane.wake()
    with pytest.raises(Cancelled):
        withdrawn.future.result(60)
    lane.close()
    with pytest.raises(Cancelled):
        left.future.result(60)
