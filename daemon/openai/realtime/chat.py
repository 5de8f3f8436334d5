"""The chat endpoint that answers: any server that speaks OpenAI's ``/chat/completions``, streamed.

The endpoint is as little trusted as a client. Nothing here blocks the event loop; a reply is bounded in time, in size
and in what comes without bringing it on, and ends with the task that reads it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpcore2
import msgspec

from daemon import http_client
from daemon.config import Settings
from daemon.hub import Hub

_CONNECT_SECONDS: Final = 5.0
"""Seconds for a connection to the endpoint, which mostly runs on this machine or next to it."""
_TOKEN_SECONDS: Final = 120.0
"""Seconds in which the endpoint must bring a token, whatever else it sends. A small machine takes long over a large
prompt."""
_COUNT_SECONDS: Final = 5.0
"""Seconds for the count of tokens to come, once a reply is over."""
_TURN_SECONDS: Final = 0.002
"""Seconds for which parts are taken before other tasks have their turn."""
MOST_IDLE_BYTES: Final = 1 << 20
"""Bytes that may come between two tokens, and so in one line: a megabyte holds thirty thousand comments that keep a
connection alive, and the arguments of any function call in one piece."""
_LEAST_PIECE_BYTES: Final = 64
"""A piece counts as so many bytes at least, because to take one byte costs as much as to take a line."""
MOST_REPLY_CHARACTERS: Final = 1 << 16
"""Characters of one reply: text, thoughts and function calls together. It is some forty pages."""
MOST_CALLS: Final = 128
"""Function calls of one reply: as many as a session may have tools."""
_SHOWN: Final = 300
"""Characters of the endpoint's answer that are told where it is an error."""

T = TypeVar("T")


class ChatError(Exception):
    """There is no reply, or no more of it. ``code`` says in a word why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Text:
    """A part of the reply's text."""

    delta: str


@dataclass(frozen=True, slots=True)
class Call:
    """A part of a function call. ``name`` and ``id`` stand in the first part."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The reply is over, for one of the reasons ``stop``, ``length``, ``tool_calls``, ``content_filter`` …"""

    reason: str


@dataclass(frozen=True, slots=True)
class Count:
    """The tokens that the endpoint counted."""

    prompt: int
    completion: int


@dataclass(frozen=True, slots=True)
class Thought:
    """The model thinks. What it thinks is not told."""


Token = Text | Call | Thought
"""The parts that bring a reply on."""
Part = Token | Finish | Count


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    # Servers have two names for what a model thinks before it answers. It is a sign of life, and no part of the reply.
    reasoning_content: str | None = None
    reasoning: Any = None
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
    """The chat endpoint of one session, whose connection is kept from reply to reply. :meth:`close` must be called."""

    def __init__(self, hub: Hub) -> None:
        self._settings = hub.settings
        self._pool: httpcore2.AsyncConnectionPool | None = None

    async def reply(self, request: dict[str, Any]) -> AsyncGenerator[Part]:
        """The endpoint's reply to ``request``, part by part as it comes.

        Raises:
            ChatError: it is not there, refuses, breaks off, says too much or nothing for too long.
        """
        settings = self._settings
        body = {**request, "model": settings.llm_model or request.get("model") or "default"}
        clock = _Patience()
        try:
            async with AsyncExitStack() as held:
                asked = await self._asked(msgspec.json.encode(body))
                answer = await clock.wait(held.enter_async_context(asked))
                if answer.status != 200:
                    raise ChatError("llm_refused", await _told(answer))
                if coding := _coding(answer):
                    told = f"the chat endpoint (llm_url) answers in {coding}, which it was asked not to do"
                    raise ChatError("llm_garbled", told)
                pieces = await held.enter_async_context(aclosing(answer.aiter_stream()))
                parts = await held.enter_async_context(aclosing(_parts(pieces, clock)))
                async for part in parts:
                    yield part
        except httpcore2.TimeoutException:
            raise ChatError("llm_timeout", _SILENT) from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ValueError, OSError) as error:
            told = f"{type(error).__name__}: {error}"[:_SHOWN]
            raise ChatError("llm_unreachable", f"the chat endpoint (llm_url) cannot be reached: {told}") from None

    async def close(self) -> None:
        """Release the connection. May be called again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    async def _asked(self, body: bytes) -> AbstractAsyncContextManager[httpcore2.Response]:
        url = http_client.url(_address(self._settings))
        headers = [
            ("host", url.netloc),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("accept", "text/event-stream"),
            ("accept-encoding", "identity"),
        ]
        if self._settings.llm_key:
            headers.append(("authorization", f"Bearer {self._settings.llm_key}"))
        if self._pool is None:
            made = await http_client.pool()
            self._pool = self._pool or made
        # This module watches how long an answer takes: the pool's own clock begins anew with every byte.
        extensions = {"timeout": {"connect": _CONNECT_SECONDS, "pool": _CONNECT_SECONDS}}
        return self._pool.stream("POST", http_client.target(url), headers=headers, content=body, extensions=extensions)


async def told(text: str) -> AsyncGenerator[Part]:
    """A reply of ``text``, for which nobody is asked."""
    yield Text(text)
    yield Finish("stop")


class _Patience:
    """How much longer the endpoint is waited for. Only the time of waiting counts, not the time that the daemon needs
    for what came."""

    def __init__(self) -> None:
        self._limit, self._waited = _TOKEN_SECONDS, 0.0

    def renew(self, seconds: float) -> None:
        """Wait so many seconds from now on."""
        self._limit, self._waited = seconds, 0.0

    async def wait(self, work: Awaitable[T]) -> T:
        """Await ``work``.

        Raises:
            httpcore2.TimeoutException: patience is at its end.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, self._limit - self._waited)):
                return await work
        except TimeoutError:
            raise httpcore2.ReadTimeout from None
        finally:
            self._waited += time.monotonic() - began


class _Turn:
    """A turn of the event loop, from which an endpoint that sends fast would never let others."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def end(self) -> None:
        """Let other tasks go on, if this turn has been long."""
        if time.monotonic() - self._began > _TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = time.monotonic()


def _address(settings: Settings) -> str:
    base = settings.llm_url.rstrip("/")
    return base if base.endswith("/chat/completions") else f"{base}/chat/completions"


def _coding(answer: httpcore2.Response) -> str:
    """The way in which the body is compressed, in words for people; empty where it is not."""
    found = [value for name, value in answer.headers if name.lower() == b"content-encoding"]
    named = b", ".join(found).decode("latin-1").strip().lower()
    return "" if named == "identity" else named[:_SHOWN]


async def _told(answer: httpcore2.Response) -> str:
    """The endpoint's own words about an error, as far as they come at once."""
    data = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(_COUNT_SECONDS):
            async for piece in answer.aiter_stream():
                data += piece
                if len(data) > 4 * _SHOWN:
                    break
    text = _coding(answer) or data.decode(errors="replace")[:_SHOWN]
    return f"the chat endpoint (llm_url) answers {answer.status}: {text}"


async def _parts(pieces: AsyncIterator[bytes], clock: _Patience) -> AsyncGenerator[Part]:
    """The parts of a reply, as they come.

    Raises:
        ChatError: as :meth:`Reply.take`, or the reply breaks off.
        httpcore2.TimeoutException: no token comes.
    """
    reply, turn = Reply(), _Turn()
    while not reply.done:
        try:
            piece = await clock.wait(anext(pieces, b""))
        except httpcore2.TimeoutException:
            if reply.finished:
                return
            raise
        if not piece:
            break
        for part in reply.take(piece):
            if isinstance(part, Finish):
                clock.renew(_COUNT_SECONDS)
            elif isinstance(part, Token) and not reply.finished:
                clock.renew(_TOKEN_SECONDS)
            yield part
            await turn.end()
        await turn.end()
    if not reply.finished:
        raise ChatError("llm_broken", "the chat endpoint (llm_url) broke its reply off")


class Reply:
    """Makes the parts of a reply of server-sent events. The parts are the same wherever the bytes were cut."""

    def __init__(self) -> None:
        self.finished = False
        """Whether the reply is whole. The count of its tokens may still come."""
        self.done = False
        """Whether nothing follows."""
        self._line = bytearray()
        self._characters = self._idle = 0
        self._calls: set[int] = set()

    def take(self, data: bytes) -> Generator[Part]:
        """The parts that ``data`` completes.

        Raises:
            ChatError: an event that is no chunk of a reply, an error among them, too much of a reply, or too much
                that brings it no further.
        """
        self._idle += max(len(data), _LEAST_PIECE_BYTES)
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._line) + lines[0]
            self._line.clear()
        self._line += rest
        for line in lines:
            if line.startswith(b"data:") and not self.done:
                for part in self._read(line[5:].strip()):
                    if isinstance(part, Token):
                        self._idle = 0
                    yield part
        if self._idle > MOST_IDLE_BYTES and self.finished:
            self.done = True
        elif self._idle > MOST_IDLE_BYTES:
            told = f"the chat endpoint (llm_url) sends over {MOST_IDLE_BYTES} bytes without a token"
            raise ChatError("llm_garbled", told)

    def _read(self, data: bytes) -> Generator[Part]:
        if data == b"[DONE]":
            self.done = True
            return
        try:
            chunk = _chunks.decode(data)
            failed = None if chunk.error is None else str(chunk.error)[:_SHOWN]
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            told = f"{error}"[:_SHOWN]
            raise ChatError("llm_garbled", f"the chat endpoint (llm_url) sends what is no reply: {told}") from None
        if failed is not None:
            raise ChatError("llm_failed", f"the chat endpoint (llm_url) fails: {failed}")
        for choice in chunk.choices[:1]:
            yield from self._of(choice)
        if chunk.usage is not None:
            yield Count(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)

    def _of(self, choice: _Choice) -> Generator[Part]:
        delta = choice.delta or _Delta()
        thought = delta.reasoning_content or delta.reasoning
        if thought and isinstance(thought, str):
            self._count(len(thought))
            yield Thought()
        if delta.content:
            self._count(len(delta.content))
            yield Text(delta.content)
        calls = delta.tool_calls or []
        if len(self._calls | {call.index for call in calls}) > MOST_CALLS:
            raise ChatError("llm_endless", f"the reply has more than {MOST_CALLS} function calls")
        for call in calls:
            function = call.function or _Function()
            part = Call(call.index, call.id or "", function.name or "", function.arguments or "")
            if part.arguments or part.index not in self._calls:
                new = 0 if part.index in self._calls else len(part.id) + len(part.name)
                self._count(new + len(part.arguments))
                self._calls.add(part.index)
                yield part
        if choice.finish_reason is not None and not self.finished:
            self.finished = True
            yield Finish(choice.finish_reason)

    def _count(self, characters: int) -> None:
        self._characters += characters
        if self._characters > MOST_REPLY_CHARACTERS:
            raise ChatError("llm_endless", f"the reply is longer than {MOST_REPLY_CHARACTERS} characters")


_SILENT: Final = (
    f"the chat endpoint (llm_url) is silent: {_CONNECT_SECONDS:g} s to connect, {_TOKEN_SECONDS:g} s for a token"
)
