"""What the endpoints share: how they begin, how they answer, and what becomes of what goes wrong."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daemon.hub import Hub
from daemon.refusal import Refused, refuse

log: Final = logging.getLogger("hearsay.answer")


class SlowReader(Exception):
    """The client does not take its answer (send_timeout_seconds)."""


class BrokenOff(Exception):
    """An answer that has begun cannot go on; the message says why."""


class Answering:
    """An ASGI endpoint whose requests ``answer`` answers. A refusal is counted and told to the client; a client that
    has gone is told nothing."""

    def __init__(self, hub: Hub, answer: Callable[[Hub, Scope, Receive, Send], Awaitable[None]]) -> None:
        self._hub, self._answer = hub, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or a WebSocket."""
        try:
            await self._answer(self._hub, scope, receive, send)
        except ClientDisconnect:
            log.info("%r: the client left during the request", scope["path"])
        except SlowReader:  # An answer that ends early closes its connection.
            log.info("%r: the client does not read its answer (send_timeout_seconds)", scope["path"])
        except BrokenOff as broken:
            log.info("%r: an answer was broken off: %s", scope["path"], broken)
        except Refused as refused:
            self._hub.metrics.denials.labels(refused.code).inc()
            await refuse(scope, send, refused)


@asynccontextmanager
async def in_time(hub: Hub) -> AsyncGenerator[None]:
    """Run a block that sends a part of an answer, for as long as :meth:`daemon.hub.Hub.in_time` allows.

    Raises:
        SlowReader: that takes longer.
    """
    try:
        async with hub.in_time():
            yield
    except TimeoutError:
        raise SlowReader from None


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work``, and cancel it when the client leaves."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
        outcomes = await asyncio.gather(working, leaving, return_exceptions=True)
    fault = outcomes[0]
    if isinstance(fault, Exception):
        raise fault


def json(body: object, status: int = 200) -> Response:
    """An answer whose body is ``body`` as JSON."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")
