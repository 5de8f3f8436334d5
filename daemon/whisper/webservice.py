"""whisper-asr-webservice's ``POST /asr`` and ``POST /detect-language``, as Bazarr and SubGen ask for them.

Options come in the query and the recording in a form; with ``encode=false`` it is linear16 at 16 kHz without a header.
Field names and answers follow whisper-asr-webservice 1.9 (``app/webservice.py``, ``app/utils.py``).
"""

from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daemon.answer import json
from daemon.fields import Fields
from daemon.file_transcript import FileTranscript
from daemon.heard_upload import Dialect, Upload, hear_upload, srt_answer, text_answer, vtt_answer
from daemon.hub import Hub
from daemon.paths import ASR, DETECT_LANGUAGE
from streaming.events import Transcript
from streaming.prompt import LANGUAGES

_FIELDS: Final = Fields(
    frozenset({"file", "task", "language", "prompt", "response_format", "word_timestamps", "encode"}),
    {"audio_file": "file", "initial_prompt": "prompt", "output": "response_format"},
    # Silence never becomes text here, whether a client asks for a filter or not, and there is one method to decode.
    idle=frozenset({"vad_filter", "method"}),
)
_FILES: Final = frozenset({"audio_file", "file"})
_LANGUAGE_SECONDS: Final = 30.0
"""How many seconds of a recording decide its language: as many as Whisper looks at."""


async def asr(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the form, transcribe the recording, and answer."""
    await hear_upload(hub, _HEARD, scope, receive, send)


async def detect_language(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the form, transcribe the recording's beginning, and answer with its language."""
    await hear_upload(hub, _DETECTED, scope, receive, send)


def _whisper(heard: FileTranscript, upload: Upload) -> Response:
    """Answer with the dictionary that Whisper's own ``transcribe`` gives."""
    segments = [_segment(number, final, words=upload.words) for number, final in enumerate(heard.finals)]
    return json({"text": heard.text, "segments": segments, "language": heard.language or ""})


def _segment(number: int, final: Transcript, *, words: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": number, "start": final.start, "end": final.end, "text": final.text}
    if words:
        entry["words"] = [
            {"word": " " + word.text, "start": word.start, "end": word.end, "probability": word.confidence}
            for word in final.words
        ]
    return entry


def _tsv(heard: FileTranscript, upload: Upload) -> Response:
    """Answer with lines of start and end, in whole milliseconds, and text, parted by tabs."""
    del upload
    rows = [f"{round(1000 * one.start)}\t{round(1000 * one.end)}\t{one.text}" for one in heard.finals]
    return Response("\n".join(["start\tend\ttext", *rows]) + "\n", media_type="text/tab-separated-values")


def _language(heard: FileTranscript, upload: Upload) -> Response:
    del upload
    code, confidence = heard.language, heard.language_confidence
    name = LANGUAGES.get(code, code).lower() if code else ""
    return json({"detected_language": name, "language_code": code or "", "confidence": confidence})


_HEARD: Final = Dialect(
    ASR,
    _FIELDS,
    _FILES,
    {"txt": text_answer, "vtt": vtt_answer, "srt": srt_answer, "tsv": _tsv, "json": _whisper},
    {"text": "txt", "plain": "txt", "webvtt": "vtt", "subrip": "srt", "verbose_json": "json"},
    worded=frozenset({"json"}),
    in_query=True,
)
_DETECTED: Final = Dialect(
    DETECT_LANGUAGE, _FIELDS, _FILES, {"json": _language}, in_query=True, seconds=_LANGUAGE_SECONDS
)
