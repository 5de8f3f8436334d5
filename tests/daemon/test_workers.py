"""A session's work in a lane, for those who wait for it on the event loop."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from daemon.workers import SessionWorker
from engines.lane import Cancelled, Lane, Steps, Task, alone


class Nothing:
    """A session that has nothing to close."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("fails", [False, True])
def test_of_work_that_nobody_waits_for_any_more_only_a_failure_is_told(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A client goes while a call of its session runs: the work ends at its next call, and asyncio does not complain
    that nobody asked how. An error of that call is in the log."""
    told: list[dict[str, Any]] = []
    begun, gate = threading.Event(), threading.Event()

    def steps() -> Steps[None]:
        yield from alone(lambda: begun.set() or gate.wait(60) and fails and 1 // 0)
        yield from alone(int)

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        worker, task = SessionWorker(pool, Nothing()), Task(steps())
        waiter = asyncio.create_task(worker.done(lane, task))
        await asyncio.to_thread(begun.wait, 60)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        gate.set()
        ended = await asyncio.to_thread(task.future.exception, 60)
        assert isinstance(ended, ZeroDivisionError if fails else Cancelled)
        await asyncio.sleep(0.01)  # Its end comes to the event loop.
        await worker.close()

    lane = Lane()
    with ThreadPoolExecutor(1) as pool:
        asyncio.run(run())
    lane.close()
    assert told == []
    assert [record.getMessage() for record in caplog.records] == ["work of a session that is gone failed"] * fails
