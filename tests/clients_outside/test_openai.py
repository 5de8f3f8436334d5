"""Clients of OpenAI's files: its SDKs, LiteLLM, pipecat, livekit, Open WebUI; only the address is ours."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest
from pipeline import piped
from support import RATE, Daemon, Speech, words

SAID = "The tide comes in at nine."


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> openai.OpenAI:
    """The SDK, told where the daemon is."""
    return openai.OpenAI(api_key=daemon.key, base_url=f"{daemon.url}/v1", max_retries=0)


@pytest.mark.parametrize("shape", ["json", "text", "srt", "vtt", "verbose_json"])
def test_a_file_in_every_shape(client: openai.OpenAI, speech: Speech, shape: Any) -> None:
    """audio.transcriptions.create."""
    with speech.path.open("rb") as file:
        answer: Any = client.audio.transcriptions.create(model="whisper-1", file=file, response_format=shape)
    text = answer if isinstance(answer, str) else answer.text
    assert set(words(speech.text)) <= set(words(text))


def test_a_file_as_a_stream(client: openai.OpenAI, speech: Speech) -> None:
    """Deltas, then the whole."""
    with speech.path.open("rb") as file:
        stream: Any = client.audio.transcriptions.create(model="gpt-4o-transcribe", file=file, stream=True)
        events = list(stream)
    assert events[-1].type == "transcript.text.done" and events[-1].text == speech.text


@pytest.mark.parametrize("shape", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_speech_in_every_shape(client: openai.OpenAI, shape: Any) -> None:
    """audio.speech.create, with instructions that the small model does not follow."""
    answer = client.audio.speech.create(
        model="gpt-4o-mini-tts", voice="alloy", input=SAID, response_format=shape, instructions="Cheerfully."
    )
    assert len(answer.content) > 2000


def test_speech_as_events_and_the_models(client: openai.OpenAI) -> None:
    """stream_format sse; models.list."""
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="coral", input=SAID, stream_format="sse", response_format="pcm"
    ) as answer:
        kinds = [json.loads(line[6:])["type"] for line in answer.iter_lines() if line.startswith("data: {")]
    assert kinds[-1] == "speech.audio.done" and kinds.count("speech.audio.delta") > 1
    assert len(client.models.list().data) == 2


def test_javascript(daemon: Daemon, speech: Speech, node: Callable[..., str]) -> None:
    """The same with OpenAI's SDK under node."""
    told = json.loads(node("openai_files.mjs", daemon.url, daemon.key, str(speech.path)))
    assert words(told["text"]) == words(told["streamed"]) == words(speech.text)
    assert told["sound"] > 2000 and told["models"] == 2


def test_litellm(daemon: Daemon, speech: Speech) -> None:
    """transcription with openai/whisper-1, speech with openai/tts-1."""
    import litellm

    at: dict[str, Any] = {"api_base": f"{daemon.url}/v1", "api_key": daemon.key}
    with speech.path.open("rb") as file:
        assert litellm.transcription(model="openai/whisper-1", file=file, **at).text == speech.text
    assert len(litellm.speech(model="openai/tts-1", voice="alloy", input=SAID, **at).content) > 2000


def test_pipecat(daemon: Daemon, speech: Speech) -> None:
    """OpenAISTTService and OpenAITTSService in pipelines."""
    from pipecat.frames import frames as kinds
    from pipecat.services.openai.stt import OpenAISTTService
    from pipecat.services.openai.tts import OpenAITTSService

    at: dict[str, Any] = {"api_key": daemon.key, "base_url": f"{daemon.url}/v1"}
    # It sends what lies between these two, as its own voice activity marks them.
    talking = [kinds.VADUserStartedSpeakingFrame()]
    heard = piped(
        OpenAISTTService(**at), speech.pcm, RATE, talking,
        lambda fs: any(isinstance(f, kinds.TranscriptionFrame) for f in fs), [kinds.VADUserStoppedSpeakingFrame()],
    )  # fmt: skip
    assert not [frame for frame in heard if isinstance(frame, kinds.ErrorFrame)]
    text = " ".join(dict.fromkeys(frame.text for frame in heard if isinstance(frame, kinds.TranscriptionFrame)))
    assert set(words(text)) & set(words(speech.text))
    spoken = piped(
        OpenAITTSService(**at), b"", 24_000, [kinds.TTSSpeakFrame(SAID)],
        lambda fs: any(isinstance(f, kinds.TTSStoppedFrame) for f in fs),
    )  # fmt: skip
    assert not [frame for frame in spoken if isinstance(frame, kinds.ErrorFrame)]
    assert sum(len(frame.audio) for frame in spoken if isinstance(frame, kinds.TTSAudioRawFrame)) > 10_000


def test_livekit(daemon: Daemon, speech: Speech) -> None:
    """STT.recognize and TTS.synthesize."""
    from livekit import rtc
    from livekit.agents.utils import http_context
    from livekit.plugins import openai as plugin

    async def run() -> tuple[str, float]:
        at: dict[str, Any] = {"api_key": daemon.key, "base_url": f"{daemon.url}/v1"}
        async with http_context.open():
            ears, voice = plugin.STT(**at, model="whisper-1"), plugin.TTS(**at)
            frame = rtc.AudioFrame(speech.pcm, RATE, 1, len(speech.pcm) // 2)
            text = (await ears.recognize(frame)).alternatives[0].text
            seconds = 0.0
            async for audio in voice.synthesize(SAID):
                seconds += audio.frame.duration
            await ears.aclose()
            await voice.aclose()
            return text, seconds

    text, seconds = asyncio.run(run())
    assert words(text) == words(speech.text) and seconds > 0.5


def test_open_webui(daemon: Daemon, speech: Speech) -> None:
    """Its requests: a recording with a language, a text with a voice, the lists it fills its menus from."""
    own = {"Authorization": f"Bearer {daemon.key}"}
    with httpx.Client(base_url=f"{daemon.url}/v1", headers=own, timeout=120, trust_env=False) as web:
        files = {"file": ("recording.wav", speech.path.read_bytes(), "audio/wav")}
        heard = web.post("/audio/transcriptions", files=files, data={"model": "whisper-1", "language": "en"})
        assert words(heard.json()["text"]) == words(speech.text)
        spoken = web.post("/audio/speech", json={"input": SAID, "model": "tts-1", "voice": "alloy"})
        assert spoken.headers["content-type"] == "audio/mpeg" and len(spoken.content) > 2000
        assert web.get("/audio/voices").json()["voices"] and web.get("/models").json()["data"]
