"""``GET /v1/listen``: a WebSocket in Deepgram's shape, the public protocol with revisable interim text."""

from starlette.types import Receive, Scope, Send

from daemon.answer import answering
from daemon.hub import Hub
from daemon.query import NAMES, parse
from daemon.refusal import Refused
from daemon.stream import PATH, Stream


class Listen:
    """The ASGI endpoint."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, open a listener, run the stream."""
        hub = self._hub
        async with answering(hub, scope, send):
            if scope["type"] != "websocket":
                raise Refused(426, "upgrade", f"{PATH} is a WebSocket; files go to POST /v1/audio/transcriptions")
            loaded = hub.hearing_model()
            request = parse(scope["query_string"], loaded.name)
            hearing = await hub.hear(request.options, NAMES)
            try:
                await Stream(hub, loaded, request, hearing, receive, send).run(echoed(scope))
            finally:
                await hearing.close()


def echoed(scope: Scope) -> str | None:
    """The subprotocol to confirm: the public half of a pair that brought a key. Browsers fail without."""
    public = ("token", "bearer", "realtime")
    return next((name for name in scope.get("subprotocols", []) if name.lower() in public), None)
