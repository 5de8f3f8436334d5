"""``/v1/speak`` in Deepgram's shape: a WebSocket where text streams in and raw audio out, and a POST of one text."""

from starlette.types import Receive, Scope, Send

from daemon import encoder, speak_file_request
from daemon.answer import answering
from daemon.encoder import Encoder
from daemon.hub import Hub
from daemon.listen import echoed
from daemon.narration import Narration
from daemon.refusal import Refused
from daemon.speak_query import parse
from daemon.speak_stream import PATH, SpeakStream
from daemon.spoken_file import speak_file


class Speak:
    """The ASGI endpoint."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, open a speaker, speak."""
        hub = self._hub
        async with answering(hub, scope, send):
            loaded = hub.speaking_model()
            if scope["type"] == "websocket":
                await self._stream(scope, receive, send)
            elif scope["method"] == "POST":
                request = await speak_file_request.read(scope, receive, hub.settings, loaded)
                await speak_file(hub, PATH, request, receive, send)
            else:
                raise Refused(426, "upgrade", f"{PATH} is a WebSocket, or a POST of a JSON object with text")

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self._hub
        loaded = hub.speaking_model()
        request = parse(scope["query_string"], loaded.name)
        speaking = await hub.speak(request.options)
        wire: Encoder | None = None
        try:
            wire = encoder.raw(request.encoding, request.sample_rate)
            narration = Narration(speaking, wire, hub.metrics, PATH, hub.crowd)
            await SpeakStream(hub, loaded, request, narration, receive, send).run(echoed(scope))
        finally:
            await speaking.close()
            if wire is not None:
                wire.close()
