"""``POST /v1/realtime/client_secrets``: a key that expires and opens ``/v1/realtime`` alone, with a session in it."""

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daemon import body
from daemon.answer import in_time, json
from daemon.hub import Hub
from daemon.openai.realtime.capability import check
from daemon.openai.realtime.config import Config
from daemon.openai.realtime.spec import Invalid
from daemon.paths import REALTIME
from daemon.refusal import Refused

_SECONDS: Final = (10, 7200)
"""The least and the most seconds that a secret may be good for, as at OpenAI."""
_DEFAULT_SECONDS: Final = 600
"""Seconds that a secret is good for where the request does not say, as at OpenAI."""
_MOST_BYTES: Final = 1 << 18
"""Bytes of a request's body: room for a session with its instructions and tools."""


class _Expiry(msgspec.Struct):
    anchor: str = "created_at"
    seconds: int = _DEFAULT_SECONDS


class _Body(msgspec.Struct):
    expires_after: _Expiry | None = None
    session: dict[str, Any] | None = None


_decoder: Final = msgspec.json.Decoder(_Body)


async def client_secrets(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the request, and answer with a secret."""
    if scope["method"] != "POST":
        raise Refused(405, "method", "POST a JSON object, which may hold session and expires_after", allow="POST")
    data = await body.whole(scope, receive, hub.settings, _MOST_BYTES, "what a session may hold")
    asked = body.decoded(data, _decoder) if data else _Body()
    config = await _config(hub, asked.session or {})
    value, grant = hub.client_secrets.issue(config, _seconds(asked.expires_after or _Expiry()))
    response = json({"value": value, "expires_at": int(grant.expires_at), "session": config.document})
    async with in_time(hub):
        await response(scope, receive, send)


def calls(hub: Hub, request: Request) -> Response:
    """Refuse WebRTC, which is not spoken here."""
    del hub, request
    raise Refused(501, "not_implemented", f"WebRTC calls are not answered here; open a WebSocket to {REALTIME.path}")


async def _config(hub: Hub, session: dict[str, Any]) -> Config:
    kind, seconds = session.get("type", "realtime"), hub.settings.max_session_seconds
    if kind not in ("realtime", "transcription"):
        raise Refused(400, "invalid_body", "session.type: neither realtime nor transcription", param="session.type")
    try:
        config = Config.initial(kind, seconds=seconds).updated(session, seconds=seconds, strict=hub.settings.strict)
        await check(hub, config.spec)
        return config
    except Invalid as error:
        raise Refused(400, error.code, str(error), param=error.param) from None
    except RecursionError:
        raise Refused(400, "invalid_body", "session: nested too deeply", param="session") from None


def _seconds(expiry: _Expiry) -> int:
    low, high = _SECONDS
    if expiry.anchor != "created_at":
        raise Refused(400, "invalid_body", "expires_after.anchor: not created_at", param="expires_after.anchor")
    if not low <= expiry.seconds <= high:
        told = f"expires_after.seconds: {expiry.seconds} lies outside {low}…{high}"
        raise Refused(400, "invalid_body", told, param="expires_after.seconds")
    return expiry.seconds
