"""``/healthz`` and ``/readyz``, open to anyone and telling little else; ``/metrics``, behind the gate."""

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from daemon.answer import json
from daemon.hub import Hub


def healthz(hub: Hub, request: Request) -> Response:
    """200 as long as the event loop turns."""
    del hub, request
    return _status(200, "ok")


def readyz(hub: Hub, request: Request) -> Response:
    """200 while new work is taken and gets on: models loaded and warm, no call to them hangs, no draining."""
    del request
    if hub.draining:
        return _status(503, "draining")
    if hub.models is None:
        return _status(503, "failed" if hub.failure else "loading")
    if hub.oldest_call() > hub.settings.stall_seconds:
        return _status(503, "stalled")
    return _status(200, "ready", speaking=hub.models.speaking is not None)


def metrics(hub: Hub, request: Request) -> Response:
    """Prometheus' text format."""
    del request
    return Response(hub.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


def _status(code: int, status: str, **more: bool) -> Response:
    return json({"status": status, **more}, code)
