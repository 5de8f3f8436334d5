"""The client of ``POST /v1/audio/transcriptions``: one recording up, its words back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .request import Form, request, unreadable


def transcribe(
    url: str,
    path: Path | str,
    *,
    key: str | None = None,
    model: str | None = None,
    language: str | None = None,
    keyterms: Sequence[str] = (),
) -> dict[str, Any]:
    """Have the daemon at ``url`` transcribe a file; its ``verbose_json`` answer, with words.

    Raises:
        Refused, ListenError, ProtocolError, OSError: as ``clients.request.request``.
    """
    fields = [("model", model or "default"), ("response_format", "verbose_json"), ("timestamp_granularities[]", "word")]
    fields += [("timestamp_granularities[]", "segment")]
    fields += [("language", language)] if language is not None else []
    fields += [("keywords[]", term) for term in keyterms]
    answer = request(url, "POST", "/v1/audio/transcriptions", key=key, form=Form(fields, "file", Path(path)))
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):  # pyright: ignore[reportUnknownMemberType]
        raise unreadable(answer)  # pyright: ignore[reportUnknownArgumentType]
    return answer  # pyright: ignore[reportUnknownVariableType]
