"""The real SDKs, as their users write them, against the real daemon."""

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
from deepgram import AsyncDeepgramClient, DeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment
from deepgram.listen.v1.types import ListenV1Metadata, ListenV1Results, ListenV1SpeechStarted
from websockets.exceptions import InvalidStatus

from daemon.serve import Background
from tests.daemon.support import RATE, Client, Speech, finals

Start = Callable[..., AbstractContextManager[Background]]

pytestmark = [
    # deepgram-sdk 7 still uses these; they are its own affair.
    pytest.mark.filterwarnings("ignore:websockets.*deprecated:DeprecationWarning"),
]

KEY = "key-of-the-sdk-tests"


@pytest.fixture(scope="module")
def guarded(start: Start) -> Any:
    with start(api_key=(KEY,)) as background:
        yield background


@pytest.fixture(scope="module")
def text(daemon: Background, speech: Speech) -> str:
    """What a plain client hears."""
    return finals(Client(daemon.url).transcribe(speech.pcm))


def environment(background: Background) -> DeepgramClientEnvironment:
    socket = background.url.replace("http", "ws", 1)
    return DeepgramClientEnvironment(base=background.url, production=socket, agent=socket, agent_rest=background.url)


def joined(messages: list[Any]) -> str:
    """The finals' text."""
    said = [m.channel.alternatives[0].transcript for m in messages if isinstance(m, ListenV1Results) and m.is_final]
    return " ".join(transcript for transcript in said if transcript)


def test_deepgram_live(guarded: Background, speech: Speech, text: str) -> None:
    deepgram = DeepgramClient(api_key=KEY, environment=environment(guarded))
    messages: list[Any] = []
    with deepgram.listen.v1.connect(
        model="nova-3",
        encoding="linear16",
        sample_rate=16000,
        interim_results="true",
        vad_events="true",
        smart_format="true",
    ) as connection:
        connection.on(EventType.MESSAGE, messages.append)
        listening = threading.Thread(target=connection.start_listening)
        listening.start()
        for start in range(0, len(speech.pcm), 3200):
            connection.send_media(speech.pcm[start : start + 3200])
        connection.send_keep_alive()
        connection.send_finalize()
        connection.send_close_stream()
        listening.join(120)
        assert not listening.is_alive()
    assert joined(messages) == text != ""
    assert any(isinstance(m, ListenV1SpeechStarted) for m in messages)
    metadata = messages[-1]
    assert isinstance(metadata, ListenV1Metadata)
    assert metadata.duration == pytest.approx(speech.seconds, abs=1e-3)
    results = [m for m in messages if isinstance(m, ListenV1Results)]
    assert any(m.from_finalize for m in results)
    word = next(m for m in results if m.is_final).channel.alternatives[0].words[0]
    assert word.end > word.start and word.punctuated_word


def test_deepgram_async_with_an_access_token(guarded: Background, speech: Speech) -> None:
    async def run() -> list[Any]:
        deepgram = AsyncDeepgramClient(access_token=KEY, environment=environment(guarded))
        messages: list[Any] = []
        async with deepgram.listen.v1.connect(
            model="nova-2", encoding="linear16", sample_rate=16000, language="en-US", keyterm=["Oslo", "Kyoto"]
        ) as connection:
            connection.on(EventType.MESSAGE, messages.append)
            listening = asyncio.create_task(connection.start_listening())
            await connection.send_media(speech.pcm)
            await connection.send_close_stream()
            await asyncio.wait_for(listening, 120)
        return messages

    messages = asyncio.run(run())
    assert joined(messages)
    assert isinstance(messages[-1], ListenV1Metadata)


def test_deepgram_without_a_key(guarded: Background) -> None:
    deepgram = DeepgramClient(api_key="wrong-key", environment=environment(guarded))
    # The SDK makes an ApiError of it only with websockets older than 14.
    with pytest.raises((ApiError, InvalidStatus), match="401"):
        with deepgram.listen.v1.connect(model="nova-3", encoding="linear16", sample_rate=16000):
            pass


@pytest.fixture(scope="module")
def client(guarded: Background) -> Any:
    with openai.OpenAI(api_key=KEY, base_url=guarded.url + "/v1", max_retries=0) as opened:
        yield opened


def test_openai_json(client: openai.OpenAI, speech: Speech) -> None:
    with speech.path.open("rb") as file:
        answer = client.audio.transcriptions.create(model="gpt-4o-transcribe", file=file)
    assert answer.text
    assert answer.usage is not None and answer.usage.type == "duration"
    with speech.path.open("rb") as file:
        forced = client.audio.transcriptions.create(
            model="whisper-1", file=file, language="en", prompt="Oslo", temperature=0.0
        )
    assert forced.text


def test_openai_verbose_json(client: openai.OpenAI, speech: Speech) -> None:
    with speech.path.open("rb") as file:
        answer = client.audio.transcriptions.create(
            model="whisper-1",
            file=file,
            response_format="verbose_json",
            timestamp_granularities=["word", "segment"],
        )
    assert answer.text and answer.language == "english"
    assert answer.duration == pytest.approx(speech.seconds, abs=0.1)
    assert answer.words and answer.words[0].end > answer.words[0].start
    assert answer.segments and " ".join(s.text for s in answer.segments) == answer.text


@pytest.mark.parametrize("response_format", ["text", "srt", "vtt"])
def test_openai_plain_texts(client: openai.OpenAI, speech: Speech, response_format: Any) -> None:
    with speech.path.open("rb") as file:
        answer: Any = client.audio.transcriptions.create(model="whisper-1", file=file, response_format=response_format)
    assert isinstance(answer, str) and answer.strip()


def test_openai_stream(client: openai.OpenAI, speech: Speech) -> None:
    with speech.path.open("rb") as file:
        whole = client.audio.transcriptions.create(model="gpt-4o-mini-transcribe", file=file)
    with speech.path.open("rb") as file:
        stream = client.audio.transcriptions.create(
            model="gpt-4o-mini-transcribe", file=file, stream=True, chunking_strategy="auto"
        )
        events = list(stream)
    deltas = "".join(event.delta for event in events if event.type == "transcript.text.delta")
    last = events[-1]
    assert last.type == "transcript.text.done"
    assert deltas == last.text == whole.text


def test_openai_errors(client: openai.OpenAI, guarded: Background) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.audio.transcriptions.create(model="whisper-1", file=b"this is no audio")
    assert (error.value.param, error.value.code) == ("file", "invalid_file")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("unheard-of")
    with openai.OpenAI(api_key="wrong-key", base_url=guarded.url + "/v1", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError):
            stranger.models.list()


def test_the_documented_examples_run(
    daemon: Background, speech: Speech, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = "".join((docs / name).read_text(encoding="utf-8") for name in ("deepgram.md", "openai.md"))
    examples = [text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "speech.flac" in text]
    assert len(examples) == 2
    soundfile.write(tmp_path / "speech.flac", np.frombuffer(speech.pcm, "<i2"), RATE)
    monkeypatch.chdir(tmp_path)
    for example in examples:
        exec(example.replace("127.0.0.1:8750", daemon.url.removeprefix("http://")), {})
        assert capsys.readouterr().out.split() == text.split()
