"""OpenAI's ``POST /v1/audio/transcriptions``: a form with a file, bounded in size and time, becomes its text."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daemon.answer import json
from daemon.fields import Fields
from daemon.heard_upload import Dialect, hear_upload, srt_answer, text_answer, vtt_answer
from daemon.hub import Hub
from daemon.paths import TRANSCRIPTIONS
from daemon.refusal import Refused

FIELDS: Final = Fields(
    frozenset({
        "file", "model", "language", "languages", "prompt", "keywords", "response_format", "timestamp_granularities",
        "stream", "task", "word_timestamps", "max_line_width", "max_line_count", "track", "diarize",
        "known_speaker_names", "known_speaker_references",
    }),
    {
        "audio": "file", "audio_file": "file", "upload": "file", "model_id": "model", "model_name": "model",
        "lang": "language", "lang_code": "language", "language_code": "language", "source_language": "language",
        "initial_prompt": "prompt", "hotwords": "keywords", "keyterms": "keywords", "keyterm": "keywords",
        "format": "response_format", "output_format": "response_format", "output": "response_format",
        "max_line_length": "max_line_width", "max_lines": "max_line_count",
        "timestamps_granularity": "timestamp_granularities", "timestamp_granularity": "timestamp_granularities",
    },
    # Silence is never written down here, and a file is cut where it is silent, whether a client asks for that or not.
    idle=frozenset({"user", "vad_filter", "chunking_strategy", "temperature"}),
)  # fmt: skip
"""The fields of the door, and those that speaches, LocalAI, whisper.cpp, servers of faster-whisper and others send
besides."""


DIALECT: Final = Dialect(
    TRANSCRIPTIONS,
    FIELDS,
    frozenset({"file", "file[]", "audio", "audio_file", "upload"}),
    {
        "json": lambda heard, upload: json(heard.json(words=upload.words)),
        "text": text_answer,
        "srt": srt_answer,
        "vtt": vtt_answer,
        "verbose_json": lambda heard, upload: json(heard.verbose(words=upload.words)),
        "diarized_json": lambda heard, upload: json(heard.diarized()),
    },
    {"txt": "text", "plain": "text", "webvtt": "vtt", "subrip": "srt", "verbose": "verbose_json"},
    worded=frozenset({"json", "verbose_json"}),
    streamed=frozenset({"json", "text", "diarized_json"}),
)


async def transcriptions(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the form, hear the file, and answer."""
    await hear_upload(hub, DIALECT, scope, receive, send)


def translations(hub: Hub, request: Request) -> Response:
    """Refuse ``/v1/audio/translations``: nothing is translated here."""
    del hub, request
    told = f"speech is not translated here; POST {TRANSCRIPTIONS.path} writes it down as it is spoken"
    raise Refused(501, "not_implemented", told)
