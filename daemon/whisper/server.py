"""The paths of whisper.cpp's server: ``POST /inference``, whose fields are those of OpenAI's clients, and
``POST /load``."""

from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daemon.heard_upload import hear_upload
from daemon.hub import Hub
from daemon.openai.transcriptions import DIALECT
from daemon.paths import INFERENCE
from daemon.refusal import Refused

_DIALECT: Final = replace(DIALECT, endpoint=INFERENCE)


async def inference(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the form, transcribe the recording, and answer."""
    await hear_upload(hub, _DIALECT, scope, receive, send)


def load(hub: Hub, request: Request) -> Response:
    """Refuse ``/load``, since the models are chosen when the daemon starts."""
    del request
    told = f"{hub.hearing_model().name} is loaded, and stays; hearsay serve --asr-model NAME loads another"
    raise Refused(501, "not_implemented", told)
