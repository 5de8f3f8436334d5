"""What conversations over /v1/realtime are tested with: a chat endpoint, a daemon that asks it, something said."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from daemon.serve import Background
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import at_24_khz
from tests.daemon.support import Speech

Talk = Callable[..., AbstractContextManager[Background]]


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    """The chat endpoint."""
    with ChatServer() as running:
        yield running


@pytest.fixture
def chat(server: ChatServer) -> ChatServer:
    """The chat endpoint, with nothing remembered of other tests."""
    server.forget()
    return server


@pytest.fixture(scope="module")
def partner(talk: Talk, server: ChatServer) -> Iterator[Background]:
    """A daemon that hears, answers and speaks."""
    with talk(llm_url=server.url, llm_key="chat-key") as background:
        yield background


@pytest.fixture(scope="module")
def pcm(speech: Speech) -> bytes:
    """The recording at 24 kHz, with a second of silence after it."""
    return at_24_khz(speech.pcm) + b"\0" * 48_000
