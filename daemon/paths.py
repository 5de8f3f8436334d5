"""Every path of the daemon in one table: which slot a request to it takes, and in which shape it is refused."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from starlette.types import Scope


class Kind(Enum):
    """What a request needs a slot for."""

    HEARING = "hearing"
    SPEAKING = "speaking"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path.

    Attributes:
        path: as in the URL, and the label in the metrics.
        kind: what its WebSocket or POST needs a slot for.
        deepgram: its errors have Deepgram's shape (``{"err_code", "err_msg", "request_id"}``), else OpenAI's
            (``{"error": {"message", "type", "param", "code"}}``).
        open: answers anyone: it tells nothing but whether the daemon lives.
        keyless: answers without a key, after Host and Origin: what it holds is public.
        secrets: a client secret opens its WebSocket too.
    """

    path: str
    kind: Kind = Kind.NONE
    deepgram: bool = False
    open: bool = False
    keyless: bool = False
    secrets: bool = False

    def needs_slot(self, scope: Scope) -> bool:
        """Whether the request of ``scope`` holds a slot for as long as it lasts."""
        return self.kind is not Kind.NONE and (scope["type"] == "websocket" or scope["method"] == "POST")


LISTEN: Final = Endpoint("/v1/listen", Kind.HEARING, deepgram=True)
TURNS: Final = Endpoint("/v2/listen", Kind.HEARING, deepgram=True)
SPEAK: Final = Endpoint("/v1/speak", Kind.SPEAKING, deepgram=True)
SPEAK_TURNS: Final = Endpoint("/v2/speak", Kind.SPEAKING, deepgram=True)
TRANSCRIPTIONS: Final = Endpoint("/v1/audio/transcriptions", Kind.HEARING)
TRANSLATIONS: Final = Endpoint("/v1/audio/translations")
SPEECH: Final = Endpoint("/v1/audio/speech", Kind.SPEAKING)
REALTIME: Final = Endpoint("/v1/realtime", Kind.HEARING, secrets=True)
CLIENT_SECRETS: Final = Endpoint("/v1/realtime/client_secrets")
CALLS: Final = Endpoint("/v1/realtime/calls")
VOICES: Final = Endpoint("/v1/audio/voices", Kind.SPEAKING)
VOICE: Final = Endpoint("/v1/audio/voices/{id}")
MODELS: Final = Endpoint("/v1/models")
MODEL: Final = Endpoint("/v1/models/{id}")
HEALTHZ: Final = Endpoint("/healthz", open=True)
READYZ: Final = Endpoint("/readyz", open=True)
METRICS: Final = Endpoint("/metrics")
PAGE: Final = Endpoint("/", keyless=True)
PAGE_FILE: Final = Endpoint("/page/{id}", keyless=True)

WYOMING_TRANSCRIBE: Final = Endpoint("wyoming/transcribe", Kind.HEARING)
WYOMING_SYNTHESIZE: Final = Endpoint("wyoming/synthesize", Kind.SPEAKING)
"""Not paths of the web: what a slot is for, and the label in the metrics."""

ENDPOINTS: Final = (
    LISTEN, TURNS, SPEAK, SPEAK_TURNS, TRANSCRIPTIONS, TRANSLATIONS, SPEECH, REALTIME, CLIENT_SECRETS, CALLS, VOICES,
    VOICE, MODELS, MODEL, HEALTHZ, READYZ, METRICS, PAGE, PAGE_FILE,
)  # fmt: skip

_OTHER: Final = Endpoint("other")
_PAGE_FILES: Final = "/page/"
_BY_PATH: Final = {endpoint.path: endpoint for endpoint in ENDPOINTS}


def endpoint(path: str) -> Endpoint:
    """What is known of ``path``; of an unknown one, or one with an id in it, that it is ``other``."""
    if path.startswith(_PAGE_FILES):
        return PAGE_FILE
    return _BY_PATH.get(path, _OTHER)
