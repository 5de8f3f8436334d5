"""Every path of the daemon in one table: which slot a request to it takes, and in which shape a refusal is written."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from starlette.types import Scope


class Kind(Enum):
    """The kinds of slots that a request may need."""

    HEARING = "hearing"
    SPEAKING = "speaking"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path.

    Attributes:
        path: as in the URL, and the label in the metrics.
        kind: what its WebSocket or POST needs a slot for.
        door: the protocol that it belongs to, one of :data:`daemon.config.DOORS`; empty where it cannot be shut. Errors
            of ``deepgram`` have Deepgram's shape (``{"err_code", "err_msg", "request_id"}``), others OpenAI's
            (``{"error": {"message", "type", "param", "code"}}``).
        open: answers anyone: it tells nothing but whether the daemon lives.
        keyless: answers without a key, after Host and Origin: what it holds is public.
        secrets: the kind of ASGI scope that a client secret opens here too, ``websocket`` or ``http``.
    """

    path: str
    kind: Kind = Kind.NONE
    door: str = ""
    open: bool = False
    keyless: bool = False
    secrets: str = ""

    def needs_slot(self, scope: Scope) -> bool:
        """Whether the request of ``scope`` holds a slot for as long as it lasts."""
        return self.kind is not Kind.NONE and (scope["type"] == "websocket" or scope["method"] == "POST")


LISTEN: Final = Endpoint("/v1/listen", Kind.HEARING, door="deepgram")
TURNS: Final = Endpoint("/v2/listen", Kind.HEARING, door="deepgram")
SPEAK: Final = Endpoint("/v1/speak", Kind.SPEAKING, door="deepgram")
SPEAK_TURNS: Final = Endpoint("/v2/speak", Kind.SPEAKING, door="deepgram")
AGENT: Final = Endpoint("/v1/agent/converse", Kind.HEARING, door="deepgram")
TRANSCRIPTIONS: Final = Endpoint("/v1/audio/transcriptions", Kind.HEARING, door="openai")
TRANSLATIONS: Final = Endpoint("/v1/audio/translations", door="openai")
JOBS: Final = Endpoint("/v1/jobs", door="openai")
JOB: Final = Endpoint("/v1/jobs/{id}", door="openai")
SPEECH: Final = Endpoint("/v1/audio/speech", Kind.SPEAKING, door="openai")
CAPTIONED: Final = Endpoint("/dev/captioned_speech", Kind.SPEAKING, door="openai")
REALTIME: Final = Endpoint("/v1/realtime", Kind.HEARING, secrets="websocket", door="openai")
CLIENT_SECRETS: Final = Endpoint("/v1/realtime/client_secrets", door="openai")
CALLS: Final = Endpoint("/v1/realtime/calls", secrets="http", door="openai")
VOICES: Final = Endpoint("/v1/audio/voices", Kind.SPEAKING, door="openai")
VOICE: Final = Endpoint("/v1/audio/voices/{id}", door="openai")
ASR: Final = Endpoint("/asr", Kind.HEARING, door="whisper")
DETECT_LANGUAGE: Final = Endpoint("/detect-language", Kind.HEARING, door="whisper")
INFERENCE: Final = Endpoint("/inference", Kind.HEARING, door="whisper")
LOAD: Final = Endpoint("/load", door="whisper")
VOSK: Final = Endpoint("/vosk", Kind.HEARING, door="vosk")
TWILIO_CONVERSE: Final = Endpoint("/twilio/converse", Kind.HEARING, door="twilio")
TWILIO_HEAR: Final = Endpoint("/twilio/hear", Kind.HEARING, door="twilio")
TEXT_TO_SPEECH: Final = Endpoint("/v1/text-to-speech/{id}", Kind.SPEAKING, door="elevenlabs")
TEXT_TO_SPEECH_STREAM: Final = Endpoint("/v1/text-to-speech/{id}/stream", Kind.SPEAKING, door="elevenlabs")
STREAM_INPUT: Final = Endpoint("/v1/text-to-speech/{id}/stream-input", Kind.SPEAKING, door="elevenlabs")
MULTI_STREAM_INPUT: Final = Endpoint("/v1/text-to-speech/{id}/multi-stream-input", Kind.SPEAKING, door="elevenlabs")
TEXT_TIMED: Final = Endpoint("/v1/text-to-speech/{id}/with-timestamps", Kind.SPEAKING, door="elevenlabs")
TEXT_STREAM_TIMED: Final = Endpoint("/v1/text-to-speech/{id}/stream/with-timestamps", Kind.SPEAKING, door="elevenlabs")
SPEECH_TO_TEXT: Final = Endpoint("/v1/speech-to-text", Kind.HEARING, door="elevenlabs")
SPEECH_VOICES: Final = Endpoint("/v1/voices", door="elevenlabs")
SPEECH_VOICES_V2: Final = Endpoint("/v2/voices", door="elevenlabs")
SPEECH_VOICE: Final = Endpoint("/v1/voices/{id}", door="elevenlabs")
USER: Final = Endpoint("/v1/user", door="elevenlabs")
SUBSCRIPTION: Final = Endpoint("/v1/user/subscription", door="elevenlabs")
MODELS: Final = Endpoint("/v1/models")
MODEL: Final = Endpoint("/v1/models/{id}")
HEALTHZ: Final = Endpoint("/healthz", open=True)
READYZ: Final = Endpoint("/readyz", open=True)
METRICS: Final = Endpoint("/metrics")
PAGE: Final = Endpoint("/", keyless=True, door="page")
PAGE_FILE: Final = Endpoint("/page/{id}", keyless=True, door="page")

WYOMING_TRANSCRIBE: Final = Endpoint("wyoming/transcribe", Kind.HEARING)
WYOMING_SYNTHESIZE: Final = Endpoint("wyoming/synthesize", Kind.SPEAKING)
AUDIOSOCKET: Final = Endpoint("audiosocket", Kind.HEARING)
WEBRTC: Final = Endpoint("webrtc", Kind.HEARING)
"""These are no paths of the web: they say which slot a connection or a call takes, and are labels in the metrics."""

ENDPOINTS: Final = tuple(one for one in tuple(globals().values()) if isinstance(one, Endpoint) and one.path[0] == "/")
"""All of these."""

_OTHER: Final = Endpoint("other")
_PAGE_FILES: Final = "/page/"
_BY_PATH: Final = {endpoint.path: endpoint for endpoint in ENDPOINTS}


_WITH_ID: Final = tuple(
    (re.compile(re.escape(one.path).replace(r"\{id\}", "[^/]+")), one) for one in ENDPOINTS if "{id}" in one.path
)


def endpoint(path: str) -> Endpoint:
    """The endpoint of ``path``; of an unknown path it is ``other``."""
    if path.startswith(_PAGE_FILES):
        return PAGE_FILE
    found = _BY_PATH.get(path)
    return found or next((one for pattern, one in _WITH_ID if pattern.fullmatch(path)), _OTHER)
