"""The chat endpoint that answers: any server that speaks OpenAI's ``/chat/completions``, streamed.

Nothing here blocks the event loop; a reply is bounded in time and size, and ends with the task that reads it.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx2
import msgspec

from daemon.config import Settings
from daemon.hub import Hub

_CONNECT_SECONDS: Final = 5.0
_TOKEN_SECONDS: Final = 120.0
"""How long the endpoint may say nothing: a large prompt on a small machine takes its time."""
_MOST_LINE_BYTES: Final = 1 << 20
MOST_REPLY_CHARACTERS: Final = 1 << 16
"""Of one reply, text and arguments together."""
_SHOWN: Final = 300
"""Characters of what the endpoint answered to an error."""


class ChatError(Exception):
    """There is no reply, or no more of it; ``code`` says in a word why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Text:
    """The reply goes on."""

    delta: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function call begins or goes on; ``name`` and ``id`` stand in its first part."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The reply is over: ``stop``, ``length``, ``tool_calls``, ``content_filter`` …"""

    reason: str


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens that the endpoint counted."""

    prompt: int
    completion: int


Part = Text | Call | Finish | Count


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Tokens(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Tokens | None = None
    error: Any = None


_chunks: Final = msgspec.json.Decoder(_Chunk)


class Chat:
    """The endpoint as one session knows it: its connection is kept from reply to reply. :meth:`close` is a must."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._client: httpx2.AsyncClient | None = None

    async def reply(self, request: dict[str, Any]) -> AsyncGenerator[Part]:
        """What the endpoint says to ``request``, as it comes.

        Raises:
            ChatError: it is not there, refuses, breaks off, says too much or nothing for too long.
        """
        settings = self._hub.settings
        body = {**request, "model": settings.llm_model or request.get("model") or "default"}
        try:
            client = await self._open()
            async with client.stream("POST", _address(settings), content=msgspec.json.encode(body)) as answer:
                if answer.status_code != 200:
                    raise ChatError("llm_refused", await _told(answer))
                async with aclosing(_parts(_lines(answer))) as parts:
                    async for part in parts:
                        yield part
        except httpx2.TimeoutException:
            limit = f"{_CONNECT_SECONDS:g} s to connect, {_TOKEN_SECONDS:g} s for a token"
            raise ChatError("llm_timeout", f"the chat endpoint (llm_url) is silent: {limit}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            told = f"{type(error).__name__}: {error}"[:_SHOWN]
            raise ChatError("llm_unreachable", f"the chat endpoint (llm_url) cannot be reached: {told}") from None

    async def close(self) -> None:
        """Let the connection go. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            headers = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
            if self._hub.settings.llm_key:
                headers["authorization"] = f"Bearer {self._hub.settings.llm_key}"
            timeout = httpx2.Timeout(_TOKEN_SECONDS, connect=_CONNECT_SECONDS)
            # In a thread: certificates are read from disk. No proxy and no password of the environment's.
            made = await self._hub.run(partial(httpx2.AsyncClient, headers=headers, timeout=timeout, trust_env=False))
            if self._client is None:
                self._client = made
        return self._client


def _address(settings: Settings) -> str:
    base = settings.llm_url.rstrip("/")
    return base if base.endswith("/chat/completions") else f"{base}/chat/completions"


async def _told(answer: httpx2.Response) -> str:
    """What the endpoint says of an error, cut short."""
    data = b""
    async for piece in answer.aiter_bytes():
        data += piece
        if len(data) > 4 * _SHOWN:
            break
    text = data.decode(errors="replace")[:_SHOWN]
    return f"the chat endpoint (llm_url) answers {answer.status_code}: {text}"


async def _lines(answer: httpx2.Response) -> AsyncIterator[bytes]:
    """The lines of an answer, bounded: a client library's own would grow without end."""
    rest = b""
    async for piece in answer.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > _MOST_LINE_BYTES:
            raise ChatError("llm_garbled", f"the chat endpoint (llm_url) sends a line of over {_MOST_LINE_BYTES} bytes")
        for line in lines:
            yield line.rstrip(b"\r")
    if rest:
        yield rest


async def _parts(lines: AsyncIterator[bytes]) -> AsyncGenerator[Part]:
    """Server-sent events to parts.

    Raises:
        ChatError: an event that is no chunk of a reply, an error among them, or too much of it.
    """
    characters, finished = 0, False
    async for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        try:
            chunk = _chunks.decode(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise ChatError("llm_garbled", f"the chat endpoint (llm_url) sends what is no reply: {error}") from None
        if chunk.error is not None:
            raise ChatError("llm_failed", f"the chat endpoint (llm_url) fails: {str(chunk.error)[:_SHOWN]}")
        for choice in chunk.choices[:1]:
            for part in _of(choice):
                if isinstance(part, Text | Call):
                    characters += len(part.delta if isinstance(part, Text) else part.arguments)
                if characters > MOST_REPLY_CHARACTERS:
                    raise ChatError("llm_endless", f"the reply is longer than {MOST_REPLY_CHARACTERS} characters")
                yield part
            finished = finished or choice.finish_reason is not None
        if chunk.usage is not None:
            yield Count(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
    if not finished:
        raise ChatError("llm_broken", "the chat endpoint (llm_url) broke its reply off")


def _of(choice: _Choice) -> list[Part]:
    parts: list[Part] = []
    delta = choice.delta
    if delta is not None and delta.content:
        parts.append(Text(delta.content))
    for call in (delta.tool_calls or []) if delta is not None else []:
        function = call.function or _Function()
        parts.append(Call(call.index, call.id or "", function.name or "", function.arguments or ""))
    if choice.finish_reason is not None:
        parts.append(Finish(choice.finish_reason))
    return parts
