"""Refusals: one exception, written in the shape that the caller's protocol knows, for HTTP and WebSocket alike.

A WebSocket is refused before the upgrade, with the same status and body (ASGI's ``websocket.http.response`` extension);
a server without that extension sends 403.
"""

import uuid
from typing import Any, Final

import msgspec
from starlette.types import Message, Scope, Send

from daemon.paths import endpoint

_ERR_CODES: Final = {
    400: "Bad Request",
    401: "INVALID_AUTH",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    429: "TOO_MANY_REQUESTS",
}

_MOST_MESSAGE: Final = 1000
"""Characters of a message, which may repeat what a client sent."""


class Refused(Exception):
    """A request that is not served.

    Attributes:
        status: HTTP status.
        code: short machine-readable reason, also the label in the metrics.
        param: the field that is wrong, if one is.
        retry_after: seconds after which the same request may succeed.
        closes: the connection cannot be used again.
        allow: methods that the path has, of a request with another one.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
        closes: bool = False,
        allow: str | None = None,
    ) -> None:
        message = message if len(message) <= _MOST_MESSAGE else message[:_MOST_MESSAGE] + "…"
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.param, self.retry_after, self.allow = param, retry_after, allow
        self.closes = closes or status in (408, 413)  # The rest of the body is not read, so no request can follow it.

    def body(self, path: str) -> bytes:
        """The JSON body in the shape that callers of ``path`` know."""
        if endpoint(path).door == "deepgram":
            shape: dict[str, Any] = {
                "err_code": _ERR_CODES.get(self.status, self.code.upper()),
                "err_msg": self.message,
                "request_id": str(uuid.uuid4()),
            }
        else:
            kind = "server_error" if self.status >= 500 else "invalid_request_error"
            shape = {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}
        return msgspec.json.encode(shape)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the answer, but for those of its type and length."""
        found: list[tuple[bytes, bytes]] = []
        if self.retry_after is not None:
            found.append((b"retry-after", str(self.retry_after).encode()))
        if self.status == 401:
            found.append((b"www-authenticate", b"Bearer"))
        if self.allow is not None:
            found.append((b"allow", self.allow.encode()))
        if self.closes:
            found.append((b"connection", b"close"))
        return found


async def refuse(scope: Scope, send: Send, refused: Refused) -> None:
    """Answer the request of ``scope`` with ``refused``."""
    body = refused.body(scope["path"])
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *refused.headers()]
    prefix = ""
    if scope["type"] == "websocket":
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            close: Message = {"type": "websocket.close", "code": 1008, "reason": refused.message[:100]}
            await send(close)
            return
        prefix = "websocket."
    await send({"type": f"{prefix}http.response.start", "status": refused.status, "headers": headers})
    await send({"type": f"{prefix}http.response.body", "body": body, "more_body": False})
