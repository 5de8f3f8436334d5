"""Deepgram's own SDK for Python, as its README uses it; only the address is ours."""

import threading
from typing import Any

import pytest
from deepgram import DeepgramClient
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment
from support import Daemon, Speech, words


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> DeepgramClient:
    """The SDK, told where the daemon is."""
    url, socket = daemon.url, daemon.socket_url
    here = DeepgramClientEnvironment(base=url, production=socket, agent=socket, agent_rest=url)
    return DeepgramClient(api_key=daemon.key, environment=here)


def test_live(client: DeepgramClient, speech: Speech) -> None:
    """listen.v1.connect with raw audio: the finals are the file's text."""
    messages: list[Any] = []
    with client.listen.v1.connect(
        model="nova-3", encoding="linear16", sample_rate=16000, interim_results=True
    ) as connection:
        connection.on(EventType.MESSAGE, messages.append)
        listening = threading.Thread(target=connection.start_listening)
        listening.start()
        for piece in speech.pieces(100):
            connection.send_media(piece)
        connection.send_close_stream()
        listening.join(120)
        assert not listening.is_alive()
    finals = [m.channel.alternatives[0].transcript for m in messages if m.type == "Results" and m.is_final]
    assert words(" ".join(finals)) == words(speech.text)
    assert messages[-1].type == "Metadata"


def test_speech_to_a_file(client: DeepgramClient) -> None:
    """speak.v1.audio.generate brings an MP3 in pieces."""
    pieces = list(client.speak.v1.audio.generate(text="The tide comes in at nine.", model="aura-2-thalia-en"))
    assert len(b"".join(pieces)) > 5000
