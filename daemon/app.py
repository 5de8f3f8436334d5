"""The wiring: one ASGI application, the gate around everything."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon import catalogue, health, rest, speech
from daemon.config import Settings
from daemon.gate import Gate
from daemon.hub import Hub
from daemon.listen import Listen
from daemon.refusal import Refused, refuse
from daemon.speak import Speak
from daemon.speak_stream import PATH as SPEAK
from daemon.stream import PATH as LISTEN
from daemon.voices import PATH as VOICES
from daemon.voices import VoicesEndpoint

Handler = Callable[[Hub, Request], Response]

_GET: Final[dict[str, Handler]] = {
    "/healthz": health.healthz,
    "/readyz": health.readyz,
    "/metrics": health.metrics,
    "/v1/models": catalogue.models,
    "/v1/models/{id}": catalogue.models,
}


def create_app(settings: Settings, hub: Hub) -> ASGIApp:
    """The daemon as an ASGI application; its lifespan starts and stops ``hub``."""
    listening, transcriptions = Listen(hub), rest.Transcriptions(hub)
    speaking, voicing = Speak(hub), VoicesEndpoint(hub)
    routes = [
        *(Route(path, _endpoint(hub, handler), methods=["GET"]) for path, handler in _GET.items()),
        WebSocketRoute(LISTEN, listening),
        Route(LISTEN, listening),
        Route(rest.PATH, transcriptions),
        WebSocketRoute(SPEAK, speaking),
        Route(SPEAK, speaking),
        Route(speech.PATH, speech.Speech(hub)),
        Route(VOICES, voicing),
        Route(VOICES + "/{id}", voicing),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http, Exception: _fault})
    app.router.default = _unknown
    gate = Gate(app, settings, hub)

    async def daemon(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(hub, receive, send)
        else:
            await gate(scope, receive, send)

    return daemon


async def _live(hub: Hub, receive: Receive, send: Send) -> None:
    """Instead of starlette's, which writes a traceback where a second signal ends the process without a word."""
    await receive()
    await hub.start()
    await send({"type": "lifespan.startup.complete"})
    try:
        await receive()
    except asyncio.CancelledError:
        return
    await hub.stop()
    await send({"type": "lifespan.shutdown.complete"})


def _endpoint(hub: Hub, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return handler(hub, request)
        except Refused as refused:
            hub.metrics.denials.labels(refused.code).inc()
            return _rendered(request, refused)

    return endpoint


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    del receive
    await refuse(scope, send, Refused(404, "not_found", f"{scope['path']}: no such path"))


def _http(request: Request, error: Exception) -> Response:
    """What starlette refuses itself: wrong methods."""
    assert isinstance(error, HTTPException)
    return _rendered(request, Refused(error.status_code, "http", error.detail))


def _fault(request: Request, error: Exception) -> Response:
    del error  # starlette raises it again, for the log
    return _rendered(request, Refused(500, "fault", "a fault of the daemon"))


def _rendered(request: Request, refused: Refused) -> Response:
    headers = {name.decode(): value.decode() for name, value in refused.headers()}
    body = refused.body(request.url.path)
    return Response(body, refused.status, headers=headers, media_type="application/json")
