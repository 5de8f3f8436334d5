"""``POST /v1/jobs``: a file of hours, asked for as at ``/v1/audio/transcriptions``, heard while nobody waits.

The answer, 202, names the job; ``GET /v1/jobs/{id}`` tells how far it is and then the result, ``DELETE`` forgets it. A
``callback`` is posted what GET would tell, where the setting ``callbacks`` allows it.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from audio.recording import RecordingError, open_recording
from audio.sound import Notes
from daemon.answer import in_time, json
from daemon.fetch import check_callback, post
from daemon.fields import Fields
from daemon.file_transcript import FileTranscript
from daemon.heard_upload import Upload, finals, uploaded
from daemon.hub import Hub
from daemon.jobs import Job
from daemon.openai.transcriptions import DIALECT
from daemon.parameters import warning_header
from daemon.paths import JOBS
from daemon.refusal import Refused

_RETRY_SECONDS: Final = 0.5
"""Seconds between two looks whether a file may be heard."""
_FIELDS: Final = Fields(
    DIALECT.fields.honoured - {"stream"} | {"callback"}, DIALECT.fields.others, DIALECT.fields.idle | {"stream"}
)
_DIALECT: Final = replace(DIALECT, endpoint=JOBS, fields=_FIELDS)


async def jobs(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the request."""
    asked: str | None = scope.get("path_params", {}).get("id")
    match scope["method"], asked:
        case "POST", None:
            job = await _taken(hub, scope, receive)
            answer = json(job.told(), 202)
            answer.raw_headers += warning_header(job.warnings)
        case "GET", str():
            answer = json(hub.jobs.find(asked).told())
        case "DELETE", str():
            await hub.jobs.forget(hub.jobs.find(asked))
            answer = json({"id": asked, "object": "job.deleted", "deleted": True})
        case _:
            allowed = "POST" if asked is None else "GET, DELETE"
            raise Refused(405, "method", f"{allowed} {scope['path']}", allow=allowed)
    async with in_time(hub):
        await answer(scope, receive, send)


async def _taken(hub: Hub, scope: Scope, receive: Receive) -> Job:
    loaded = hub.hearing_model()
    if hub.draining:
        raise Refused(503, "draining", "the daemon is shutting down", retry_after=5)
    with hub.jobs.place():
        async with AsyncExitStack() as held:
            upload = await held.enter_async_context(uploaded(hub, _DIALECT, scope, receive, loaded))
            if upload.callback:
                check_callback(upload.callback, hub.settings)
            duration = await hub.run(partial(_seconds, upload))
            job = Job(partial(_work, hub, upload), held.pop_all(), duration=duration, warnings=upload.warnings)
            hub.jobs.add(job)
    return job


def _seconds(upload: Upload) -> float | None:
    """In a worker thread: the length that the file tells of itself.

    Raises:
        Refused: 400, it is no recording.
    """
    if upload.raw:
        return None
    try:
        told = open_recording(upload.file).seconds or None
    except RecordingError as error:
        raise Refused(400, "invalid_file", f"file: {error}", param="file") from None
    upload.file.seek(0)
    return told


async def _work(hub: Hub, upload: Upload, job: Job) -> None:
    """Hear the file, then tell who is to be told."""
    heard = FileTranscript()
    try:
        while job.result is None:
            try:
                async with hub.slot(JOBS, live=False):
                    await _until_leaving(hub, _hear(hub, upload, job, heard))
            except Refused as refused:
                if refused.status != 429:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
    except RecordingError as error:
        raise Refused(400, "invalid_file", f"file: {error}", param="file") from None
    finally:
        if upload.callback and job.result is not None:
            told: dict[str, Any] = {**job.told(), "status": "done", "progress": 1.0}
            await post(upload.callback, msgspec.json.encode(told), hub.settings)


async def _until_leaving(hub: Hub, work: Coroutine[Any, Any, None]) -> None:
    """Do ``work``.

    Raises:
        Refused: 503, the drain deadline came first.
    """
    working, leaving = asyncio.create_task(work), asyncio.create_task(hub.leave.wait())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            hub.lost += 1
            raise Refused(503, "draining", "the daemon is shutting down")
        working.result()
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _hear(hub: Hub, upload: Upload, job: Job, heard: FileTranscript) -> None:
    notes = Notes()
    worker = await hub.hear(upload.options, upload.names, live=False)
    try:
        async for _ in finals(hub, _DIALECT, upload, worker, heard, notes):
            job.seconds = heard.duration
    finally:
        await worker.close()
    job.warnings = (*upload.warnings, *notes.warnings())
    answer = _DIALECT.formats[upload.format](heard, upload)
    body = bytes(answer.body)
    job.result = msgspec.Raw(body) if answer.media_type == "application/json" else body.decode()
