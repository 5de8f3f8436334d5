"""OpenAI's ``POST /v1/audio/speech``: a text to a file that arrives while it is made."""

from typing import Final

from starlette.types import Receive, Scope, Send

from daemon import speech_request
from daemon.answer import answering
from daemon.hub import Hub
from daemon.refusal import Refused
from daemon.spoken_file import speak_file

PATH: Final = "/v1/audio/speech"


class Speech:
    """The ASGI endpoint."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the request, speak, send what is made."""
        hub = self._hub
        async with answering(hub, scope, send):
            if scope["method"] != "POST":
                raise Refused(405, "method", "POST a JSON object with input")
            request = await speech_request.read(scope, receive, hub.settings, hub.speaking_model().name)
            await speak_file(hub, PATH, request, receive, send)
