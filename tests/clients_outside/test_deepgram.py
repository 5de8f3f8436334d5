"""Deepgram's own SDKs for Python and JavaScript, as their READMEs use them; only the address is ours."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from chat_endpoint import REPLY, chat_endpoint
from deepgram import AsyncDeepgramClient, DeepgramClient
from deepgram.agent.v1.types import AgentV1Settings
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment
from deepgram.speak.v1.types import SpeakV1Text
from deepgram.speak.v2.types import SpeakV2Interrupt, SpeakV2Speak
from support import Daemon, Speech, took, words

SETTINGS = {
    "type": "Settings",
    "audio": {
        "input": {"encoding": "linear16", "sample_rate": 16_000},
        "output": {"encoding": "linear16", "sample_rate": 24_000, "container": "none"},
    },
    "agent": {
        "language": "en",
        "listen": {"provider": {"type": "deepgram", "model": "nova-3"}},
        "think": {"provider": {"type": "open_ai", "model": "gpt-4o-mini"}, "prompt": "Be brief."},
        "speak": {"provider": {"type": "deepgram", "model": "aura-2-thalia-en"}},
    },
}
"""As in Deepgram's own first example."""


def environment(daemon: Daemon) -> DeepgramClientEnvironment:
    """Where the daemon is."""
    url, socket = daemon.url, daemon.socket_url
    return DeepgramClientEnvironment(base=url, production=socket, agent=socket, agent_rest=url)


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> DeepgramClient:
    """The SDK, told where the daemon is."""
    return DeepgramClient(api_key=daemon.key, environment=environment(daemon))


def listened(connection: Any, pieces: list[bytes]) -> list[Any]:
    """Every message of a stream of ``pieces``."""
    messages: list[Any] = []
    connection.on(EventType.MESSAGE, messages.append)
    listening = threading.Thread(target=connection.start_listening)
    listening.start()
    for piece in pieces:
        connection.send_media(piece)
    connection.send_close_stream()
    listening.join(120)
    assert not listening.is_alive()
    return messages


def finals(messages: list[Any]) -> list[str]:
    """Words of the finals."""
    texts = [m.channel.alternatives[0].transcript for m in messages if m.type == "Results" and m.is_final]
    return words(" ".join(texts))


def test_live(client: DeepgramClient, speech: Speech) -> None:
    """listen.v1.connect with raw audio: the finals are the file's text."""
    with client.listen.v1.connect(
        model="nova-3", encoding="linear16", sample_rate=16000, interim_results=True
    ) as connection:
        messages = listened(connection, speech.pieces(100))
    assert finals(messages) == words(speech.text)
    assert messages[-1].type == "Metadata"


def test_live_in_its_readmes_form(client: DeepgramClient, speech: Speech) -> None:
    """Model and interim_results alone: the bytes are a container's."""
    data = speech.path.read_bytes()
    with client.listen.v1.connect(
        model="nova-3", interim_results=True, smart_format=True, endpointing=10
    ) as connection:
        messages = listened(connection, [data[start : start + 2000] for start in range(0, len(data), 2000)])
    assert finals(messages) == words(speech.text)


def test_recordings(client: DeepgramClient, speech: Speech) -> None:
    """transcribe_file, whole and from a generator, with what its features promise."""
    answer = client.listen.v1.media.transcribe_file(
        request=speech.path.read_bytes(), model="nova-3", smart_format=True, utterances=True, paragraphs=True
    )
    alternative = answer.results.channels[0].alternatives[0]
    assert alternative.transcript == speech.text
    assert [word.word for word in alternative.words] and alternative.paragraphs.paragraphs
    assert " ".join(one.transcript for one in answer.results.utterances) == speech.text
    assert answer.metadata.duration == pytest.approx(speech.seconds, abs=0.01)

    def chunks() -> Iterator[bytes]:
        yield from speech.pieces(500)

    rate: Any = {"additional_query_parameters": {"sample_rate": 16000}}
    raw = client.listen.v1.media.transcribe_file(
        request=chunks(), model="nova-3", encoding="linear16", request_options=rate
    )
    assert raw.results.channels[0].alternatives[0].transcript == speech.text


@contextmanager
def served(data: bytes) -> Iterator[str]:
    """``data`` behind a URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/speech.flac"
        server.shutdown()
        thread.join()


def test_a_url(serve: Callable[..., AbstractContextManager[Daemon]], speech: Speech) -> None:
    """transcribe_url, where the operator allows it."""
    with serve("--fetch-urls", "any") as daemon, served(speech.path.read_bytes()) as url:
        own = DeepgramClient(api_key=daemon.key, environment=environment(daemon))
        answer = own.listen.v1.media.transcribe_url(url=url, model="nova-3")
    assert answer.results.channels[0].alternatives[0].transcript == speech.text


def test_turns(client: DeepgramClient, speech: Speech) -> None:
    """listen.v2.connect: a turn ends with the file's text."""
    with client.listen.v2.connect(
        model="flux-general-en", encoding="linear16", sample_rate="16000", eager_eot_threshold="0.4"
    ) as connection:
        messages = listened(connection, [*speech.pieces(80), bytes(64_000)])
    assert messages[0].type == "Connected"
    ends = [m for m in messages if m.type == "TurnInfo" and m.event == "EndOfTurn"]
    assert words(" ".join(end.transcript for end in ends)) == words(speech.text)


def test_models(client: DeepgramClient) -> None:
    """manage.v1.models.list finds what hears and what speaks."""
    found = client.manage.v1.models.list()
    assert found.stt and found.stt[0].streaming and found.tts and found.tts[0].name


def test_speech(daemon: Daemon, client: DeepgramClient) -> None:
    """speak.v1.audio.generate brings an MP3 in pieces, speak.v1.connect sound over a socket."""
    pieces = list(client.speak.v1.audio.generate(text="The tide comes in at nine.", model="aura-2-thalia-en"))
    assert len(b"".join(pieces)) > 5000

    async def run() -> bytes:
        own = AsyncDeepgramClient(api_key=daemon.key, environment=environment(daemon))
        async with own.speak.v1.connect(model="aura-2", encoding="linear16", sample_rate="24000") as stream:
            await stream.send_text(SpeakV1Text(text="The tide comes in at nine."))
            await stream.send_close()
            return b"".join([message async for message in stream if isinstance(message, bytes)])

    assert len(asyncio.run(run())) > 24_000
    assert len(b"".join(client.speak.v2.audio.generate(text="At nine.", model="flux-alexis-en"))) > 1000


def test_speech_in_turns(client: DeepgramClient) -> None:
    """speak.v2.connect: a turn, cut off; another, to its end."""
    messages: list[Any] = []
    text = "The tide comes in at nine, and then it goes out again. " * 20
    with client.speak.v2.connect(model="flux-alexis-en", encoding="linear16", sample_rate="24000") as connection:
        connection.send_speak(SpeakV2Speak(text=text))
        for message in connection:
            messages.append(message)
            if isinstance(message, bytes) and sum(isinstance(one, bytes) for one in messages) == 1:
                connection.send_interrupt(SpeakV2Interrupt(playback_offset={"type": "time_ms", "value": 50}))
                connection.send_speak(SpeakV2Speak(text="At nine."))
                connection.send_flush()
                connection.send_close()
    told = [message.type for message in messages if not isinstance(message, bytes)]
    assert told[:2] == ["Connected", "SpeechStarted"] and told[-2:] == ["SpeechMetadata", "SessionMetadata"]
    cut = next(message for message in messages if getattr(message, "type", "") == "SpeechInterrupted")
    assert (cut.audio_played_ms, cut.text_spoken + cut.text_remaining) == (50, text)


def test_javascript(daemon: Daemon, speech: Speech, node: Callable[..., str]) -> None:
    """@deepgram/sdk: its README's live form, transcribeFile, Flux, speech, speech in turns."""
    told = json.loads(node("deepgram_sdk.mjs", daemon.url, daemon.key, str(speech.path)))
    assert words(told["live"]) == words(told["file"]) == words(told["turn"]) == words(speech.text)
    assert told["sound"] > 5000 and told["stt"] == 1
    assert {"Connected", "SpeechStarted", "SpeechMetadata", "SessionMetadata"} <= set(told["said"])


def test_an_agent(serve: Callable[..., AbstractContextManager[Daemon]], speech: Speech) -> None:
    """agent.v1.connect: a person speaks, the agent answers."""
    messages: list[Any] = []
    over = threading.Event()

    def take(message: Any) -> None:
        messages.append(message)
        if getattr(message, "type", "") == "AgentAudioDone":
            over.set()

    with chat_endpoint() as (url, requests), serve("--llm-url", url) as partner:
        client = DeepgramClient(api_key=partner.key, environment=environment(partner))
        with client.agent.v1.connect() as connection:
            connection.on(EventType.MESSAGE, take)
            listening = threading.Thread(target=connection.start_listening)
            listening.start()
            connection.send_settings(AgentV1Settings.model_validate(SETTINGS))
            for piece in [*speech.pieces(100), bytes(32_000)]:
                connection.send_media(piece)
            ended = time.monotonic()
            assert over.wait(60)
            took("deepgram agent", "whole answer after the end of speech", time.monotonic() - ended)
        listening.join(60)
    assert {getattr(one, "role", None): one.content for one in messages if getattr(one, "role", None)} == {
        "user": requests[0]["messages"][-1]["content"],
        "assistant": REPLY,
    }
    assert requests[0]["messages"][0]["content"] == "Be brief."
    kinds = [getattr(one, "type", "audio") for one in messages]
    assert kinds[:2] == ["Welcome", "SettingsApplied"] and "Error" not in kinds and "Warning" not in kinds
    assert sum(len(one) for one in messages if isinstance(one, bytes)) > 48_000
