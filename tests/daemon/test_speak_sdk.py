"""The real SDKs speak, as their users write it, against the real daemon."""

import asyncio
import io
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import soundfile
from deepgram import AsyncDeepgramClient, DeepgramClient
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment
from deepgram.errors import BadRequestError
from deepgram.speak.v1.types import (
    SpeakV1Flushed,
    SpeakV1Metadata,
    SpeakV1Text,
    SpeakV1Warning,
)

from daemon.serve import Background
from tests.daemon.support import SHORT, same

Start = Callable[..., AbstractContextManager[Background]]

pytestmark = [
    # deepgram-sdk 7 still uses these; they are its own affair.
    pytest.mark.filterwarnings("ignore:websockets.*deprecated:DeprecationWarning"),
]

KEY = "key-of-the-sdk-tests"


@pytest.fixture(scope="module")
def guarded(talk: Start) -> Iterator[Background]:
    with talk(api_key=(KEY,)) as background:
        yield background


@pytest.fixture(scope="module")
def client(guarded: Background) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key=KEY, base_url=guarded.url + "/v1", max_retries=0) as opened:
        yield opened


@pytest.fixture(scope="module")
def pcm(client: openai.OpenAI) -> bytes:
    """What the SDK gets as pcm."""
    return client.audio.speech.create(
        model="tts-1", voice="alloy", input=SHORT, response_format="pcm", extra_body={"seed": 1}
    ).content


def environment(background: Background) -> DeepgramClientEnvironment:
    socket = background.url.replace("http", "ws", 1)
    return DeepgramClientEnvironment(base=background.url, production=socket, agent=socket, agent_rest=background.url)


def test_openai_streams_to_a_file(client: openai.OpenAI, tmp_path: Path) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice={"id": "slt"}, input=SHORT, response_format="wav", speed=1.0, extra_body={"seed": 1}
    ) as answer:
        answer.stream_to_file(tmp_path / "speech.wav")
    info = soundfile.info(tmp_path / "speech.wav")
    assert (info.samplerate, info.channels, info.subtype) == (24_000, 1, "PCM_16")
    assert info.frames > 1920


def test_openai_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.audio.speech.create(model="tts-1", voice="nobody", input=SHORT)
    assert error.value.param == "voice"
    with pytest.raises(openai.BadRequestError) as error:
        client.audio.speech.create(model="tts-1", voice="alloy", input="")
    assert error.value.param == "input"
    with pytest.raises(openai.NotFoundError):
        client.audio.speech.create(model="whisper-1", voice="alloy", input=SHORT)
    assert [model.id for model in client.models.list()] == ["pocket-asr-en", "pocket-tts-en"]
    file = io.BytesIO(b"RIFF")
    with pytest.raises(openai.BadRequestError) as error:
        client.audio.voices.create(name="me", audio_sample=("me.wav", file), consent="cons_1")
    assert error.value.code == "cannot_clone"


def test_deepgram_speaks(guarded: Background, pcm: bytes) -> None:
    deepgram = DeepgramClient(api_key=KEY, environment=environment(guarded))
    messages: list[Any] = []
    flushed = threading.Event()

    def take(message: Any) -> None:
        messages.append(message)
        if isinstance(message, SpeakV1Flushed):
            flushed.set()

    with deepgram.speak.v1.connect(
        model="aura-2-thalia-en", encoding="linear16", sample_rate="24000", mip_opt_out="true",
        request_options={"additional_query_parameters": {"seed": "1"}},
    ) as connection:  # fmt: skip
        connection.on(EventType.MESSAGE, take)
        listening = threading.Thread(target=connection.start_listening)
        listening.start()
        for word in SHORT.split():
            connection.send_text(SpeakV1Text(text=word + " "))
        connection.send_flush()
        assert flushed.wait(120)
        heard = b"".join(message for message in messages if isinstance(message, bytes))
        connection.send_text(SpeakV1Text(text=SHORT * 50))
        connection.send_clear()
        connection.send_close()
        listening.join(120)
        assert not listening.is_alive()
    assert same(heard, pcm)
    assert isinstance(messages[0], SpeakV1Metadata)
    assert messages[0].model_name == "pocket-tts-en"
    answers = [message for message in messages[1:] if not isinstance(message, bytes)]
    # The SDK tells Cleared from Flushed by their type alone: both become the same class.
    assert [(message.type, message.sequence_id) for message in answers] == [("Flushed", 0), ("Cleared", 0)]


def test_deepgram_async(guarded: Background) -> None:
    async def run() -> list[Any]:
        deepgram = AsyncDeepgramClient(access_token=KEY, environment=environment(guarded))
        messages: list[Any] = []
        async with deepgram.speak.v1.connect(model="aura-2", encoding="mulaw", sample_rate="8000") as connection:
            connection.on(EventType.MESSAGE, messages.append)
            listening = asyncio.create_task(connection.start_listening())
            await connection.send_text(SpeakV1Text(text="x" * 65_537))
            await connection.send_text(SpeakV1Text(text=SHORT))
            await connection.send_close()
            await asyncio.wait_for(listening, 120)
        return messages

    messages = asyncio.run(run())
    assert isinstance(messages[0], SpeakV1Metadata)
    assert isinstance(messages[1], SpeakV1Warning)
    assert messages[1].code == "TEXT_LIMIT"
    assert sum(len(message) for message in messages if isinstance(message, bytes)) > 640


@pytest.fixture
def rest(guarded: Background) -> Iterator[DeepgramClient]:
    with httpx.Client(timeout=120) as own:  # the SDK never closes one that it has made itself
        yield DeepgramClient(api_key=KEY, environment=environment(guarded), httpx_client=own)


def test_deepgram_file_errors_and_headers(rest: DeepgramClient) -> None:
    with pytest.raises(BadRequestError) as error:
        list(rest.speak.v1.audio.generate(text=""))
    assert error.value.body["err_msg"] == "text: empty"
    with rest.speak.v1.audio.with_raw_response.generate(text=SHORT, speed=2.0, tag=["a", "b"]) as answer:
        assert b"".join(answer.data)
        assert answer.headers["content-type"] == "audio/mpeg"
        assert answer.headers["dg-model-name"] == "pocket-tts-en"
        assert answer.headers["dg-char-count"] == str(len(SHORT))
        assert len(answer.headers["dg-request-id"]) == len(answer.headers["dg-model-uuid"]) == 36


def test_the_documented_examples_run(
    talker: Background, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = "".join((docs / name).read_text(encoding="utf-8") for name in ("deepgram.md", "openai.md"))
    examples = [text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "The tide" in text]
    assert len(examples) == 2
    monkeypatch.chdir(tmp_path)
    for example in examples:
        names: dict[str, Any] = {}
        exec(example.replace("127.0.0.1:8750", talker.url.removeprefix("http://")), names)
        if isinstance(names["client"], openai.OpenAI):
            names["client"].close()  # the garbage collector may come to its socket first
        else:
            names["client"]._client_wrapper.httpx_client.httpx_client.close()
    assert float(capsys.readouterr().out.split()[0]) > 0.08
    assert soundfile.info("speech.wav").frames > 1920
