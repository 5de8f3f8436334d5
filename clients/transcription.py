"""The client of ``POST /v1/audio/transcriptions``: one recording up, its words back."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .events import ListenError
from .handshake import Refused
from .options import several
from .request import Form, request, unreadable

TRANSCRIPTIONS = "/v1/audio/transcriptions"
_LOOK_SECONDS = 0.25
"""Seconds between two looks at a job."""


class Transcription(dict[str, Any]):
    """A ``verbose_json`` answer. ``warnings``: what the daemon ignored or changed of the request, and what was not as
    it should be in the recording, a sentence each."""

    warnings: tuple[str, ...] = ()


def transcribe(
    url: str,
    path: Path | str,
    *,
    key: str | None = None,
    model: str | None = None,
    language: str | None = None,
    keyterms: Sequence[str] = (),
    speakers: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Transcription:
    """Have the daemon at ``url`` transcribe a file; its ``verbose_json`` answer, with words.

    Args:
        speakers: whether each word tells who says it.
        progress: is told again and again how many seconds of the file were heard.

    Raises:
        Refused, ListenError, ProtocolError, OSError: as ``clients.request.request``.
    """
    fields = [("model", model or "default"), ("response_format", "verbose_json"), ("timestamp_granularities[]", "word")]
    fields += [("timestamp_granularities[]", "segment")]
    fields += [("language", language)] if language is not None else []
    fields += [("diarize", "true")] if speakers else []
    fields += [("keywords[]", term) for term in several("keyterms", keyterms)]
    form = Form(fields, "file", Path(path))
    warnings = list[str]()
    if progress is None:
        answer = request(url, "POST", TRANSCRIPTIONS, key=key, form=form, warnings=warnings)
    else:
        answer = _as_job(url, key, form, progress, warnings)
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):  # pyright: ignore[reportUnknownMemberType]
        raise unreadable(answer)  # pyright: ignore[reportUnknownArgumentType]
    transcription = Transcription(answer)  # pyright: ignore[reportUnknownArgumentType]
    transcription.warnings = tuple(warnings)
    return transcription


def _as_job(url: str, key: str | None, form: Form, progress: Callable[[float], None], warnings: list[str]) -> Any:
    """What the daemon hears while it is asked again and again how far it is."""
    try:
        job = request(url, "POST", "/v1/jobs", key=key, form=form)
    except Refused as refused:
        if refused.status not in (404, 501):
            raise
        # This daemon takes no jobs.
        return request(url, "POST", TRANSCRIPTIONS, key=key, form=form, warnings=warnings)
    try:
        place = f"/v1/jobs/{job['id']}"
        try:
            while job["status"] in ("queued", "running"):
                time.sleep(_LOOK_SECONDS)
                job = request(url, "GET", place, key=key)
                progress(job["seconds"])
        finally:
            with suppress(ListenError):  # It is forgotten by itself after a while.
                request(url, "DELETE", place, key=key)
        if job["status"] == "failed":
            raise ListenError(job["error"]["message"])
        warnings += job.get("warnings", ())
        return job["result"]
    except (KeyError, TypeError) as error:
        raise unreadable(job) from error
