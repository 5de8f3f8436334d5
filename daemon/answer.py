"""What answers over HTTP share."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work``; cancel it when the client leaves."""

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
    """``body`` as JSON."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")
