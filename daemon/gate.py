"""Who comes in: Host, Origin, key, slot, in this order, before anything else sees the request.

Pure ASGI, for http and websocket alike, deny by default: a path that is not open in ``daemon.paths`` passes all of it,
also one that does not exist. A refusal is sent before a WebSocket is accepted.
"""

import asyncio
import hmac
import ipaddress
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.client_secrets import digest
from daemon.config import Settings
from daemon.hub import Hub
from daemon.paths import Endpoint, endpoint
from daemon.refusal import Refused, refuse

_QUERY_KEYS: Final = frozenset({"api_key", "token"})
"""In any case of letters."""
_MOST_NAME: Final = 64
"""Characters of a parameter's name in the log."""
_INSECURE_PREFIX: Final = "openai-insecure-api-key."
_PREFLIGHT_SECONDS: Final = 600
"""Seconds for which a browser keeps the answer to a preflight; Chromium keeps none for more than two hours."""
_SLASHES: Final = re.compile("//+")

log: Final = logging.getLogger("hearsay.gate")


class Gate:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, settings: Settings, hub: Hub) -> None:
        self._app, self._settings, self._hub = app, settings, hub
        self._keys = tuple(map(digest, settings.api_key))
        self._names = frozenset({"localhost", settings.host.lower(), *(n.lower() for n in settings.allowed_hosts)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it."""
        scope["path"] = (
            _SLASHES.sub("/", scope["path"]).rstrip("/") or "/"
        )  # Clients send this if their base URL ends with a slash.
        scope, keys = _unlogged(scope)  # This comes first, since refused requests are logged too.
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy may have used the other of the two headers, and so see other requests in these bytes.
            await refuse(
                scope, send, Refused(400, "two_lengths", "Content-Length beside Transfer-Encoding", closes=True)
            )
            return
        asked = endpoint(scope["path"])
        if asked.open:
            await self._app(scope, receive, send)
            return
        send = self._counted(asked, send)
        try:
            if asked.door and asked.door not in self._settings.doors:
                raise Refused(404, "not_found", f"{scope['path']}: the door {asked.door!r} is shut here (doors)")
            self._check_host(headers)
            origin = self._check_origin(headers)
            if origin is not None and scope["type"] == "http":
                if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                    # It carries no key, by the browsers' rules.
                    await _preflight(origin, headers.get("access-control-request-headers", ""), send)
                    return
                send = _with_origin(origin, send)
            if not asked.keyless:
                self._check_key(asked, scope, headers, keys if self._settings.key_in_query else ())
            if not asked.needs_slot(scope):
                await self._app(scope, receive, send)
                return
            async with self._hub.slot(asked, live=scope["type"] == "websocket"):
                if scope["type"] == "websocket":
                    await self._app(scope, receive, send)  # The application itself tells that the daemon stops.
                else:
                    await self._until_leaving(scope, receive, send)
        except Refused as refused:
            # Only from what stands here: what the protocols refuse, they answer themselves.
            self._hub.metrics.denials.labels(refused.code).inc()
            # A path may hold line ends, so it is written by %r.
            log.info("refused %r: %s", scope["path"], refused.message)
            await refuse(scope, send, refused)

    async def _until_leaving(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. At the drain deadline a request that is not here yet ends; one that is gets its answer, unless that
        hangs.

        Raises:
            Refused: 503, it ended before the answer began. An answer that has begun breaks off.
        """
        begun = False
        whole = asyncio.Event()
        """The request is here."""

        async def taken() -> Message:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                whole.set()
            return message

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            whole.set()
            await send(message)

        async def over() -> None:
            await self._hub.leave.wait()
            if whole.is_set():
                await self._hub.cut.wait()
                log.error("%r: cut, its answer is lost", scope["path"])
                self._hub.lost += 1

        async def answer() -> None:
            await self._app(scope, taken, noted)

        answering, ending = asyncio.create_task(answer()), asyncio.create_task(over())
        try:
            await asyncio.wait((answering, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            answering.cancel()  # A task that is done is not changed by this.
            outcome = (await asyncio.gather(answering, ending, return_exceptions=True))[0]
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, asyncio.CancelledError) and not begun:
            raise Refused(503, "draining", "the daemon is shutting down", retry_after=5)

    def _counted(self, asked: Endpoint, send: Send) -> Send:
        """Count the answer's status, WebSocket refusals included."""
        requests, path = self._hub.metrics.requests, asked.path

        async def counted(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                requests.labels(path, str(message["status"])).inc()
            elif message["type"] == "websocket.accept":
                requests.labels(path, "101").inc()
            await send(message)

        return counted

    def _check_host(self, headers: Headers) -> None:
        """A page that had its own name resolved to this machine (DNS rebinding) sends that name here."""
        host = headers.get("host", "")
        if "*" not in self._names and not self._is_ours(host):
            raise Refused(403, "host", f"Host {_name(host)!r} is not one of ours (allowed_hosts)", param="Host")

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header names this daemon and nothing that could have been resolved to it by others."""
        name = _name(host)
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)  # An address cannot be bound to another by DNS.
        except ValueError:
            return False
        return True

    def _check_origin(self, headers: Headers) -> str | None:
        origin = headers.get("origin")
        if origin is None or self._is_own(origin, headers.get("host", "")):
            return origin
        every = origin.partition("://")[0] + "://*"  # The settings refuse this for http and https.
        if not {origin, every}.isdisjoint(self._settings.allowed_origins):
            return origin
        raise Refused(403, "origin", f"Origin {origin!r} is not allowed (allowed_origins)", param="Origin")

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether ``origin`` is that of the daemon's own page. A ``*`` in allowed_hosts names nothing of ours.

        A proxy may end TLS in front of a daemon without it; where the daemon has it, a page of plain http is another's.
        """
        scheme, _, authority = origin.partition("://")
        schemes = ("https",) if self._settings.tls_certificate else ("http", "https")
        return scheme in schemes and authority == host.lower() and self._is_ours(host)

    def _check_key(self, asked: Endpoint, scope: Scope, headers: Headers, in_query: Sequence[str]) -> None:
        """Any of the given keys may be the right one. A client secret leaves what it grants in the scope."""
        given = [*_from_header(headers), *_from_subprotocols(scope), *in_query]
        granted = None
        if asked.secrets == scope["type"]:
            granted = scope["hearsay.grant"] = self._hub.client_secrets.find(given)
        if not self._keys or granted is not None:
            return
        # Every pair is compared: the time taken tells nothing of a key.
        digests = [digest(key) for key in given]
        right = [hmac.compare_digest(mine, theirs) for mine in self._keys for theirs in digests]
        if any(right):
            return
        raise Refused(
            401, "invalid_api_key", "the key is wrong" if given else "a key is needed: Authorization: Bearer <key>"
        )


def _name(host: str) -> str:
    """A Host header without its port."""
    return (host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]).lower()


def _unlogged(scope: Scope) -> tuple[Scope, list[str]]:
    """A scope with the query as it was asked, without keys, and those keys, allowed there or not.

    The server's own scope, which it logs, keeps the names of the parameters alone: a value may be a key, or a word that
    somebody expects to be said (``keyterm``), and no log is the place for either.
    """
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    keys = [value for name, value in pairs if name.lower() in _QUERY_KEYS]
    inner = dict(scope)
    if keys:
        rest = [(name, value) for name, value in pairs if name.lower() not in _QUERY_KEYS]
        inner["query_string"] = urlencode(rest).encode("latin-1")
    names = dict.fromkeys(name for name, _ in pairs if name.lower() not in _QUERY_KEYS)
    scope["query_string"] = "&".join(quote(name[:_MOST_NAME]) for name in names).encode("latin-1")
    return inner, keys


def _from_header(headers: Headers) -> Iterator[str]:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "token"):
        yield key.strip()
    if "xi-api-key" in headers:  # ElevenLabs' clients send this header.
        yield headers["xi-api-key"].strip()


def _from_subprotocols(scope: Scope) -> Iterator[str]:
    """For browsers: Deepgram's ``token, <key>``, OpenAI's ``realtime, openai-insecure-api-key.<key>``."""
    if scope["type"] != "websocket":
        return
    offered: list[str] = scope.get("subprotocols", [])
    public: list[str] = []
    for i, item in enumerate(offered):
        if item.startswith(_INSECURE_PREFIX):
            yield item.removeprefix(_INSECURE_PREFIX)
        elif i > 0 and offered[i - 1].lower() in ("token", "bearer"):
            yield item
        else:
            public.append(item)
    # A protocol that echoes one of these can never echo a key.
    scope["subprotocols"] = public


async def _preflight(origin: str, asked: str, send: Send) -> None:
    """Answer a preflight. The headers that the page's request will have, ``asked``, are allowed as they are, since
    libraries add some of their own."""
    headers = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", (asked or "authorization, content-type").encode("latin-1")),
        (b"access-control-max-age", str(_PREFLIGHT_SECONDS).encode()),
        (b"vary", b"Origin"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _with_origin(origin: str, send: Send) -> Send:
    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = "*"
            headers.add_vary_header("Origin")
        await send(message)

    return tell
