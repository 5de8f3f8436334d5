"""The lane: one thread, merged batches, cancellation, no job lost."""

import functools
import threading
import time

import pytest

from engines.batching import Cancelled, Lane, Owner, Urgency
from tests.lanes import held, until_waiting


def test_calls_run_one_at_a_time() -> None:
    """Jobs from many threads never overlap."""
    lane = Lane()
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
    lane.close()
    assert worst == 1
    assert lane.jobs == 40


def test_jobs_of_one_key_share_a_call() -> None:
    """What waits together under one key is one batch, and each caller gets its own result."""
    lane = Lane()
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
    lane.close()
    assert sizes == [6]
    assert results == {i: 2 * i for i in range(6)}


def test_jobs_without_key_stay_alone() -> None:
    """A job without a key is its own batch."""
    lane = Lane()
    assert lane.submit(3, lambda batch: [len(batch)]) == 1
    lane.close()


def test_an_error_reaches_its_caller_and_the_lane_lives_on() -> None:
    """An exception in a call is raised where the job was submitted."""
    lane = Lane()
    with pytest.raises(ZeroDivisionError):
        lane.call(lambda: 1 // 0)
    assert lane.call(lambda: 5) == 5
    lane.close()


def test_a_cancelled_owner_gets_nothing_more() -> None:
    """Waiting and new jobs of a cancelled owner raise; other owners' jobs run."""
    lane = Lane()
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
    lane.close()
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


def test_what_is_due_goes_before_what_is_not_yet() -> None:
    """Whatever the order they came in: a step, a final, a final in advance, a look."""
    lane, done = Lane(), list[Urgency]()
    try:
        with held(lane):
            wanted = (Urgency.LOOK, Urgency.AHEAD, Urgency.DUE, Urgency.STEP)
            threads: list[threading.Thread] = []
            for count, urgency in enumerate(wanted, 1):
                one = threading.Thread(
                    target=lane.call, args=(functools.partial(done.append, urgency),), kwargs={"urgency": urgency}
                )
                one.start()
                threads.append(one)
                until_waiting(lane, count)
        for one in threads:
            one.join()
    finally:
        lane.close()
    assert done == [Urgency.STEP, Urgency.DUE, Urgency.AHEAD, Urgency.LOOK]
