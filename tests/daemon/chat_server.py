"""A small chat endpoint of OpenAI's shape on a real socket: it says what a test tells it to say."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


@dataclass(slots=True)
class Script:
    """What the next replies are. Changed by tests between requests."""

    parts: Iterable[str] = ("The boats came home ", "at nine. ", "Then it rained.")
    pause: float = 0.0
    """Seconds before each part but the first."""
    calls: Sequence[tuple[str, str, str]] = ()
    """Function calls: id, name, arguments."""
    finish: str = "stop"
    status: int = 200
    raw: bytes | Iterable[bytes] | None = None
    """Sent instead of all that, piece by piece."""
    coding: str = ""
    """How ``raw`` says that it is compressed."""


@dataclass(slots=True)
class Seen:
    """What the endpoint was asked."""

    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str | None] = field(default_factory=list[str | None])
    broken_off: int = 0
    """Replies whose reader left before their end."""


class ChatServer:
    """The endpoint, in a thread, for as long as a ``with`` block lasts."""

    def __init__(self) -> None:
        self.script, self.seen = Script(), Seen()
        app = Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._run, name="chat-server")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def forget(self) -> None:
        """Begin anew."""
        self.script, self.seen = Script(), Seen()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    async def _complete(self, request: Request) -> Response:
        try:
            self.seen.requests.append(json.loads(await request.body()))
        except ClientDisconnect:
            self.seen.broken_off += 1
            return Response()
        self.seen.keys.append(request.headers.get("authorization"))
        script = self.script
        if script.status != 200:
            return JSONResponse({"error": {"message": "out of order"}}, script.status)
        headers = {"content-encoding": script.coding} if script.coding else None
        return StreamingResponse(self._events(script), headers=headers, media_type="text/event-stream")

    async def _events(self, script: Script) -> AsyncIterator[bytes]:
        whole = False
        try:
            if script.raw is not None:
                for piece in (script.raw,) if isinstance(script.raw, bytes) else script.raw:
                    yield piece
                    await asyncio.sleep(script.pause)
                whole = True
                return
            for place, part in enumerate(script.parts):
                if place and script.pause:
                    await asyncio.sleep(script.pause)
                yield chunk({"content": part})
            for index, (identifier, name, arguments) in enumerate(script.calls):
                begin = {"index": index, "id": identifier, "type": "function"}
                yield chunk({"tool_calls": [{**begin, "function": {"name": name, "arguments": ""}}]})
                for piece in (arguments[:5], arguments[5:]):
                    yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            yield chunk({}, script.finish)
            yield _event({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}})
            yield b"data: [DONE]\n\n"
            whole = True
        finally:
            self.seen.broken_off += not whole


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """An event of a reply."""
    return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _event(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"
