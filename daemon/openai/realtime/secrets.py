"""``POST /v1/realtime/client_secrets``: a key that expires and opens ``/v1/realtime`` alone, with a session in it."""

from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from daemon import body
from daemon.answer import in_time, json
from daemon.hub import Hub
from daemon.openai.realtime.capability import check
from daemon.openai.realtime.config import Config
from daemon.openai.realtime.spec import Invalid
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
    initial = Config.initial("realtime", seconds=hub.settings.max_session_seconds)
    config = await configured(hub, initial, asked.session or {})
    value, grant = hub.client_secrets.issue(config, _seconds(asked.expires_after or _Expiry()))
    response = json({"value": value, "expires_at": int(grant.expires_at), "session": config.document})
    async with in_time(hub):
        await response(scope, receive, send)


async def configured(hub: Hub, config: Config, session: dict[str, Any]) -> Config:
    """``config`` with ``session``, an object that came in a request.

    Raises:
        Refused: 400, it cannot be honoured.
    """
    seconds, strict = hub.settings.max_session_seconds, hub.settings.strict
    try:
        config = config.updated(session, seconds=seconds, fresh=True, strict=strict)
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
