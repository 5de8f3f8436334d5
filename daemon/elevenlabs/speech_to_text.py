"""``POST /v1/speech-to-text``, which transcribes a recording."""

import math
import uuid
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daemon.answer import json
from daemon.fields import Fields
from daemon.file_transcript import FileTranscript
from daemon.heard_upload import Dialect, Upload, hear_upload
from daemon.hub import Hub
from daemon.paths import SPEECH_TO_TEXT
from streaming.events import Word

_FIELDS: Final = Fields(
    frozenset({"file", "model", "language", "keywords", "timestamp_granularities"}),
    {
        "model_id": "model", "language_code": "language", "keyterms": "keywords",
        "timestamps_granularity": "timestamp_granularities",
    },
    # These change nothing: only words are transcribed here, and no request is kept.
    idle=frozenset({
        "tag_audio_events", "file_format", "enable_logging", "temperature", "seed", "no_verbatim",
        "use_speaker_library",
    }),
)  # fmt: skip


async def speech_to_text(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the form, transcribe the recording, and answer."""
    await hear_upload(hub, _DIALECT, scope, receive, send)


def _written(heard: FileTranscript, upload: Upload) -> Response:
    """Answer in ElevenLabs' shape, which always has the words, with entries of their own for spaces between them."""
    del upload
    words: list[dict[str, Any]] = []
    for number, word in enumerate(heard.words):
        if number:
            before = heard.words[number - 1].end
            words.append({"text": " ", "type": "spacing", "logprob": 0.0, "start": before, "end": word.start})
        words.append(_word(word))
    return json(
        {
            "language_code": heard.language or "",
            "language_probability": heard.language_confidence,
            "text": heard.text,
            "words": words,
            "transcription_id": str(uuid.uuid4()),
            "audio_duration_secs": round(heard.duration, 3),
        }
    )


def _word(word: Word) -> dict[str, Any]:
    sure = round(math.log(max(word.confidence, 1e-6)), 4)
    return {"text": word.text, "type": "word", "logprob": sure, "start": word.start, "end": word.end}


_DIALECT: Final = Dialect(
    SPEECH_TO_TEXT, _FIELDS, frozenset({"file"}), {"json": _written}, worded=frozenset({"json"}), in_query=True
)
