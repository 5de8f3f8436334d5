"""``GET /v1/speak``: a WebSocket in Deepgram's shape; text streams in, raw audio streams out."""

from starlette.types import Receive, Scope, Send

from daemon import encoder
from daemon.hub import Hub
from daemon.listen import echoed
from daemon.narration import Narration
from daemon.refusal import Refused, refuse
from daemon.speak_query import parse
from daemon.speak_stream import PATH, SpeakStream


class Speak:
    """The ASGI endpoint."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, open a speaker, run the stream."""
        hub = self._hub
        try:
            if scope["type"] != "websocket":
                raise Refused(426, "upgrade", f"{PATH} is a WebSocket; files come from POST /v1/audio/speech")
            loaded = hub.speaking_model()
            request = parse(scope["query_string"], loaded.name)
            speaking = await hub.speak(request.options)
        except Refused as refused:
            hub.metrics.denials.labels(refused.code).inc()
            await refuse(scope, send, refused)
            return
        wire = encoder.raw(request.encoding, request.sample_rate)
        try:
            narration = Narration(speaking, wire, hub.metrics, PATH, hub.crowd)
            await SpeakStream(hub, loaded, request, narration, receive, send).run(echoed(scope))
        finally:
            await speaking.close()
            wire.close()
