"""Work that lasts longer than a request: taken at once, done one after the other, its result kept for a while."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from daemon.refusal import Refused

MOST_JOBS: Final = 16
"""Jobs that wait, run or are kept. A result of four hours is some megabytes, and an upload waits on disk."""
KEPT_SECONDS: Final = 3600.0
"""Seconds for which a result is kept: whoever asks for it does so within minutes."""

log: Final = logging.getLogger("hearsay.jobs")


@dataclass(slots=True, eq=False)
class Job:
    """Something that is done later. ``work`` does it, ``held`` is given back after it."""

    work: "Callable[[Job], Coroutine[Any, Any, None]]"
    held: AsyncExitStack
    id: str = field(default_factory=lambda: f"job_{secrets.token_hex(12)}")
    status: Literal["queued", "running", "done", "failed"] = "queued"
    seconds: float = 0.0
    """Seconds of audio that are done."""
    duration: float | None = None
    """Seconds of audio there are; None where nobody knows."""
    result: Any = None
    warnings: tuple[str, ...] = ()
    """What was ignored or changed of the request, and once it is done what was not as it should be in the recording."""
    error: str = ""
    over_at: float = float("inf")
    """The ``time.monotonic()`` at which the job was over."""

    def told(self) -> dict[str, Any]:
        """The job as a client is told."""
        progress = min(1.0, self.seconds / self.duration) if self.duration else None
        told: dict[str, Any] = {
            "id": self.id,
            "object": "job",
            "status": self.status,
            "seconds": round(self.seconds, 3),
        }
        told |= {"duration": self.duration, "progress": 1.0 if self.status == "done" else progress}
        if self.warnings:
            told["warnings"] = self.warnings
        if self.status == "failed":
            told["error"] = {"message": self.error}
        return told if self.result is None else {**told, "result": self.result}


class Jobs:
    """The jobs of a daemon."""

    def __init__(self) -> None:
        self.taken_here = True
        """Whether any are taken: of many daemons behind one address another would be asked for the result."""
        self._jobs: dict[str, Job] = {}
        self._coming = 0
        """Jobs whose request is not whole yet."""
        self._waiting = asyncio.Queue[Job]()
        self._worker: asyncio.Task[None] | None = None
        self._running: tuple[Job, asyncio.Task[None]] | None = None

    @property
    def unfinished(self) -> int:
        """Jobs that wait or run."""
        return sum(job.status in ("queued", "running") for job in self._jobs.values())

    @contextmanager
    def place(self) -> Generator[None]:
        """A place for a job while its request comes.

        Raises:
            Refused: 429, there is none; 501, no jobs are taken here.
        """
        if not self.taken_here:
            raise Refused(501, "not_implemented", "a cluster takes no jobs; POST the file to /v1/audio/transcriptions")
        now = time.monotonic()
        over = [job for job in self._jobs.values() if job.over_at < float("inf")]
        full = len(self._jobs) + self._coming >= MOST_JOBS
        for place, job in enumerate(over):  # in the order in which they came
            if job.over_at + KEPT_SECONDS < now or (full and place == 0):
                del self._jobs[job.id]
        if len(self._jobs) + self._coming >= MOST_JOBS:
            raise Refused(429, "jobs", f"{MOST_JOBS} jobs wait, which is the limit", retry_after=30)
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    def add(self, job: Job) -> None:
        """Do ``job`` when its turn comes."""
        self._jobs[job.id] = job
        self._waiting.put_nowait(job)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())

    def find(self, identifier: str) -> Job:
        """
        Raises:
            Refused: 404, there is no such job.
        """
        job = self._jobs.get(identifier)
        if job is None or job.over_at + KEPT_SECONDS < time.monotonic():
            raise Refused(404, "job_not_found", f"there is no job {identifier[:80]!r} (any more)", param="id")
        return job

    async def forget(self, job: Job) -> None:
        """End a job, and forget it."""
        self._jobs.pop(job.id, None)
        if self._running is not None and self._running[0] is job:
            self._running[1].cancel()
            await asyncio.wait((self._running[1],))  # The file is closed by who hears it.
        else:
            await job.held.aclose()

    async def stop(self) -> None:
        """End all of them."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        for job in self._jobs.values():
            await job.held.aclose()

    async def _work(self) -> None:
        while True:
            job = await self._waiting.get()
            if job.id not in self._jobs:
                continue
            job.status, task = "running", asyncio.create_task(job.work(job))
            self._running = job, task
            try:
                await asyncio.wait((task,))
            finally:
                task.cancel()
                outcome = (await asyncio.gather(task, return_exceptions=True))[0]
                self._running = None
                await job.held.aclose()
                self._end(job, outcome)

    def _end(self, job: Job, outcome: BaseException | None) -> None:
        job.over_at = time.monotonic()
        job.status = "done" if outcome is None else "failed"
        match outcome:
            case None:
                pass
            case Refused():
                job.error = outcome.message
            case Exception():
                job.error = f"a fault of the daemon: {type(outcome).__name__}"
                log.error("job %s failed", job.id, exc_info=outcome)
            case _:
                job.error = "the daemon is shutting down"
