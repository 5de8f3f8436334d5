"""The wiring: one ASGI application, the gate around everything, and what tells how the daemon is.

``/healthz`` and ``/readyz`` are open to anyone and tell little else; ``/metrics`` is behind the gate.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon import paths
from daemon.answer import Answering, json
from daemon.config import Settings
from daemon.deepgram.agent import agent
from daemon.deepgram.listen import listen
from daemon.deepgram.speak import speak
from daemon.deepgram.turns import turns
from daemon.elevenlabs import account
from daemon.elevenlabs.speech_to_text import speech_to_text
from daemon.elevenlabs.text_to_speech import text_to_speech
from daemon.gate import Gate
from daemon.hub import Hub
from daemon.openai.jobs import jobs
from daemon.openai.models import models
from daemon.openai.realtime.calls import calls
from daemon.openai.realtime.secrets import client_secrets
from daemon.openai.realtime.session import realtime
from daemon.openai.speech import speech
from daemon.openai.transcriptions import transcriptions, translations
from daemon.openai.voices import voices
from daemon.page.files import page
from daemon.paths import Endpoint
from daemon.refusal import Refused, refuse
from daemon.telephone.twilio import twilio
from daemon.vosk import vosk
from daemon.whisper.server import inference, load
from daemon.whisper.webservice import asr, detect_language

Handler = Callable[[Hub, Request], Response]


def create_app(settings: Settings, hub: Hub, others: Mapping[Endpoint, Handler] | None = None) -> ASGIApp:
    """The daemon as an ASGI application, whose lifespan starts and stops ``hub``. ``others`` answer in place of the
    handlers of this module."""
    app = Starlette(
        routes=_routes(hub, {**_GET, **(others or {})}), exception_handlers={HTTPException: _http, Exception: _fault}
    )
    app.router.default = _unknown
    gate = Gate(app, settings, hub)

    async def daemon(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(hub, receive, send)
        else:
            await gate(scope, receive, send)

    return daemon


def _routes(hub: Hub, handlers: Mapping[Endpoint, Handler]) -> list[BaseRoute]:
    """A route for every endpoint of the table, and one more for its WebSocket where there is one."""
    protocols: dict[Endpoint, ASGIApp] = {endpoint: Answering(hub, answer) for endpoint, answer in _PROTOCOLS.items()}
    routes: list[BaseRoute] = [WebSocketRoute(one.path, protocols[one]) for one in _SOCKETS]
    for one in paths.ENDPOINTS:
        if one in protocols:
            routes.append(Route(one.path, protocols[one]))
        else:
            # A model's name may hold a slash: Systran/faster-whisper-small.
            path = one.path.replace("{id}", "{id:path}") if one is paths.MODEL else one.path
            methods = ["GET", "POST"] if one in (paths.TRANSLATIONS, paths.LOAD) else ["GET"]
            routes.append(Route(path, _endpoint(hub, handlers[one]), methods=methods))
    return routes


async def _live(hub: Hub, receive: Receive, send: Send) -> None:
    """The lifespan. Starlette's own writes a traceback where a second signal ends the process, which is no fault."""
    await receive()
    await hub.start()
    await send({"type": "lifespan.startup.complete"})
    try:
        await receive()
    except asyncio.CancelledError:
        return
    await hub.stop()
    await send({"type": "lifespan.shutdown.complete"})


# ------------------------------------------------------------------------------------------------------------ health


def healthz(hub: Hub, request: Request) -> Response:
    """Answer 200 as long as the event loop turns."""
    del hub, request
    return _status(200, "ok")


def readyz(hub: Hub, request: Request) -> Response:
    """Answer 200 while new work is taken and done: the models are loaded, no call to them hangs, and the daemon does
    not drain. The answer tells what is warming up, and whether this machine keeps the models live."""
    del request
    if hub.draining:
        return _status(503, "draining")
    if hub.models is None:
        return _status(503, "failed" if hub.failure else "loading")
    if hub.stalled:
        return _status(503, "stalled")
    models = hub.models
    unknown = models.warming and not models.why_not_live
    told: dict[str, object] = {"live": None if unknown else not models.why_not_live}
    if hub.settings.llm_url and models.speaking is not None:
        told["converses"] = True
    if models.why_not_live:
        told["why"] = models.why_not_live
    if models.warming:
        told["warming"] = models.warming
    return _status(200, "ready", speaking=models.speaking is not None, headroom=hub.headroom, **told)


def metrics(hub: Hub, request: Request) -> Response:
    """Answer with the metrics in Prometheus' text format."""
    del request
    return Response(hub.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


def _status(code: int, status: str, **more: object) -> Response:
    return json({"status": status, **more}, code)


_PROTOCOLS: Final = {
    paths.LISTEN: listen,
    paths.TURNS: turns,
    paths.AGENT: agent,
    paths.TWILIO_CONVERSE: twilio,
    paths.TWILIO_HEAR: twilio,
    paths.SPEAK: speak,
    paths.SPEAK_TURNS: speak,
    paths.TRANSCRIPTIONS: transcriptions,
    paths.JOBS: jobs,
    paths.JOB: jobs,
    paths.SPEECH: speech,
    paths.CAPTIONED: speech,
    paths.REALTIME: realtime,
    paths.CLIENT_SECRETS: client_secrets,
    paths.CALLS: calls,
    paths.VOICES: voices,
    paths.VOICE: voices,
    paths.ASR: asr,
    paths.DETECT_LANGUAGE: detect_language,
    paths.INFERENCE: inference,
    paths.VOSK: vosk,
    paths.TEXT_TO_SPEECH: text_to_speech,
    paths.TEXT_TO_SPEECH_STREAM: text_to_speech,
    paths.STREAM_INPUT: text_to_speech,
    paths.MULTI_STREAM_INPUT: text_to_speech,
    paths.TEXT_TIMED: text_to_speech,
    paths.TEXT_STREAM_TIMED: text_to_speech,
    paths.SPEECH_TO_TEXT: speech_to_text,
    paths.SPEECH_VOICES: account.voices,
    paths.SPEECH_VOICES_V2: account.voices,
    paths.SPEECH_VOICE: account.voices,
}
_SOCKETS: Final = (
    paths.LISTEN, paths.TURNS, paths.SPEAK, paths.SPEAK_TURNS, paths.REALTIME, paths.VOSK, paths.STREAM_INPUT,
    paths.MULTI_STREAM_INPUT, paths.AGENT, paths.TWILIO_CONVERSE, paths.TWILIO_HEAR,
)  # fmt: skip
"""Where WebSockets are taken."""
_GET: Final[dict[Endpoint, Handler]] = {
    paths.HEALTHZ: healthz,
    paths.READYZ: readyz,
    paths.METRICS: metrics,
    paths.MODELS: models,
    paths.MODEL: models,
    paths.PAGE: page,
    paths.PAGE_FILE: page,
    paths.TRANSLATIONS: translations,
    paths.LOAD: load,
    paths.USER: account.user,
    paths.SUBSCRIPTION: account.user,
}


def _endpoint(hub: Hub, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return handler(hub, request)
        except Refused as refused:
            hub.metrics.denials.labels(refused.code).inc()
            return _rendered(request, refused)

    return endpoint


# ------------------------------------------------------------------------------------------------------- what is wrong


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    del receive
    await refuse(scope, send, Refused(404, "not_found", f"{scope['path']}: no such path"))


def _http(request: Request, error: Exception) -> Response:
    """The answer to what starlette itself refuses, such as wrong methods."""
    assert isinstance(error, HTTPException)
    allow = (error.headers or {}).get("Allow")
    return _rendered(request, Refused(error.status_code, "http", error.detail, allow=allow))


def _fault(request: Request, error: Exception) -> Response:
    del error  # Starlette raises the error again, for the log.
    return _rendered(request, Refused(500, "fault", "a fault of the daemon"))


def _rendered(request: Request, refused: Refused) -> Response:
    headers = {name.decode(): value.decode() for name, value in refused.headers()}
    body = refused.body(request.url.path)
    return Response(body, refused.status, headers=headers, media_type="application/json")
