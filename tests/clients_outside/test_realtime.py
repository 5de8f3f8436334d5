"""Clients of OpenAI's Realtime protocol: OpenAI's SDKs, pipecat's and livekit's services; only the address is ours."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import openai
import pytest
from chat_endpoint import REPLY, chat_endpoint
from pipeline import piped
from support import ROOT, Daemon, Speech, words

TLS = ROOT / "tests/daemon/tls"
Requests = list[dict[str, Any]]


@pytest.fixture(scope="module")
def partner(serve: Callable[..., AbstractContextManager[Daemon]]) -> Iterator[tuple[Daemon, Requests]]:
    """A daemon that answers by way of a chat endpoint, and what that is asked."""
    with chat_endpoint() as (url, requests), serve("--llm-url", url) as one:
        yield one, requests


def alike(one: str, other: str) -> bool:
    """Whether two texts share most of their words: one was heard at another rate."""
    a, b = set(words(one)), set(words(other))
    return len(a & b) >= 0.6 * max(len(a), len(b), 1)


def test_openai_python_transcribes(daemon: Daemon, speech: Speech, pcm: bytes) -> None:
    """realtime.connect with intent transcription and server VAD."""
    with (
        openai.OpenAI(api_key=daemon.key, base_url=f"{daemon.url}/v1") as client,
        client.realtime.connect(extra_query={"intent": "transcription"}) as live,
    ):
        live.session.update(
            session={"type": "transcription", "audio": {"input": {"transcription": {"language": "en"}}}}
        )
        for start in range(0, len(pcm), 4800):
            live.input_audio_buffer.append(audio=base64.b64encode(pcm[start : start + 4800]).decode())
        text, deltas = "", ""
        for event in live:
            assert event.type != "error", event
            if event.type == "conversation.item.input_audio_transcription.delta":
                deltas += event.delta or ""
            elif event.type == "conversation.item.input_audio_transcription.completed":
                text = event.transcript
                break
    assert alike(text, speech.text) and deltas


def test_openai_python_converses(partner: tuple[Daemon, Requests], speech: Speech, pcm: bytes) -> None:
    """A client secret, then speech in and speech out with it."""
    daemon, requests = partner
    with openai.OpenAI(api_key=daemon.key, base_url=f"{daemon.url}/v1") as own:
        secret = own.realtime.client_secrets.create(session={"type": "realtime", "instructions": "Be brief."})
    with openai.OpenAI(api_key=secret.value, base_url=f"{daemon.url}/v1") as client, client.realtime.connect() as live:
        for start in range(0, len(pcm), 4800):
            live.input_audio_buffer.append(audio=base64.b64encode(pcm[start : start + 4800]).decode())
        sound, said = b"", ""
        for event in live:
            assert event.type != "error", event
            if event.type == "response.output_audio.delta":
                sound += base64.b64decode(event.delta)
            elif event.type == "response.output_audio_transcript.done":
                said = event.transcript
            elif event.type == "response.done":
                assert event.response.status == "completed"
                break
    assert said == REPLY and len(sound) > 48_000
    assert requests[-1]["messages"][0]["content"] == "Be brief."
    assert alike(requests[-1]["messages"][1]["content"], speech.text)


def test_openai_javascript(
    serve: Callable[..., AbstractContextManager[Daemon]],
    speech: Speech,
    pcm: bytes,
    node: Callable[..., str],
    tmp_path: Path,
) -> None:
    """clientSecrets.create and OpenAIRealtimeWS, which speaks nothing but TLS."""
    (tmp_path / "speech.pcm").write_bytes(pcm)
    certificate = str(TLS / "certificate.pem")
    with serve("--tls-certificate", certificate, "--tls-key", str(TLS / "key.pem")) as safe:
        arguments = (safe.url, safe.key, str(tmp_path / "speech.pcm"))
        told = json.loads(node("openai_realtime.mjs", *arguments, NODE_EXTRA_CA_CERTS=certificate))
    assert alike(told["transcript"], speech.text) and told["deltas"] and told["expires"]


def test_pipecat_hears(daemon: Daemon, speech: Speech, pcm: bytes) -> None:
    """OpenAIRealtimeSTTService with the server's voice activity."""
    from pipecat.frames.frames import TranscriptionFrame
    from pipecat.services.openai.stt import OpenAIRealtimeSTTService

    service = OpenAIRealtimeSTTService(
        api_key=daemon.key, base_url=f"{daemon.socket_url}/v1/realtime", turn_detection={"type": "server_vad"}
    )
    frames = piped(service, pcm, 24_000, [], lambda frames: any(isinstance(f, TranscriptionFrame) for f in frames))
    texts = [frame.text for frame in frames if isinstance(frame, TranscriptionFrame)]
    assert alike(" ".join(dict.fromkeys(texts)), speech.text)


def test_pipecat_converses(partner: tuple[Daemon, Requests], pcm: bytes) -> None:
    """OpenAIRealtimeLLMService: it speaks first, then answers what it hears."""
    from pipecat.frames.frames import ErrorFrame, LLMContextFrame, TTSAudioRawFrame, TTSStoppedFrame
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

    daemon, requests = partner
    asked = len(requests)
    service = OpenAIRealtimeLLMService(api_key=daemon.key, base_url=f"{daemon.socket_url}/v1/realtime")
    context = LLMContext([{"role": "user", "content": "Good evening."}])
    frames = piped(
        service,
        pcm,
        24_000,
        [LLMContextFrame(context)],
        lambda frames: (
            len({id(f) for f in frames if isinstance(f, TTSStoppedFrame)}) >= 1 and len(requests) > asked + 1
        ),
        begun=lambda: len(requests) > asked,  # who speaks before interrupts what was not asked yet
    )
    assert not [frame for frame in frames if isinstance(frame, ErrorFrame)]
    assert sum(len(frame.audio) for frame in frames if isinstance(frame, TTSAudioRawFrame)) > 10_000
    assert requests[asked]["messages"][-1]["content"] == "Good evening."


@pytest.mark.parametrize("model", ["gpt-4o-transcribe", "gpt-realtime-whisper"])
def test_livekit_hears(daemon: Daemon, speech: Speech, pcm: bytes, model: str) -> None:
    """The plugin's STT with use_realtime: server VAD, and a model whose clients commit."""
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import openai as plugin

    async def run() -> list[str]:
        import aiohttp

        async with aiohttp.ClientSession() as session:
            client = openai.AsyncOpenAI(api_key=daemon.key, base_url=f"{daemon.url}/v1")
            ears = plugin.STT(model=model, use_realtime=True, client=client)
            ears._session = session
            stream = ears.stream()
            for start in range(0, len(pcm), 4800):
                piece = pcm[start : start + 4800]
                stream.push_frame(rtc.AudioFrame(piece, 24_000, 1, len(piece) // 2))
                await asyncio.sleep(0.02)
            stream.flush()
            texts: list[str] = []
            async with asyncio.timeout(60):
                async for event in stream:
                    if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT:
                        texts.append(event.alternatives[0].text)
                        if alike(" ".join(texts), speech.text):
                            break
            await stream.aclose()
            await ears.aclose()
            await client.close()
            return texts

    assert alike(" ".join(asyncio.run(run())), speech.text)


def test_livekit_converses(partner: tuple[Daemon, Requests]) -> None:
    """The plugin's RealtimeModel: generate_reply brings text and sound."""
    from livekit.plugins import openai as plugin

    daemon, _ = partner

    async def run() -> tuple[str, float]:
        import aiohttp

        async with aiohttp.ClientSession() as http:
            model = plugin.realtime.RealtimeModel(
                api_key=daemon.key, base_url=f"{daemon.url}/v1", voice="marin", http_session=http
            )
            session = model.session()
            text, seconds = "", 0.0
            async with asyncio.timeout(60):
                reply = await session.generate_reply(instructions="Say when they came home.")
                async for message in reply.message_stream:
                    async for piece in message.text_stream:
                        text += piece
                    async for frame in message.audio_stream:
                        seconds += frame.duration
            await session.aclose()
            await model.aclose()
            return text, seconds

    text, seconds = asyncio.run(run())
    assert text == REPLY and seconds > 0.5


def test_openai_agents_converse(partner: tuple[Daemon, Requests], pcm: bytes) -> None:
    """A RealtimeAgent with a tool: heard, the tool called and answered, the rest spoken."""
    from agents import function_tool
    from agents.realtime import RealtimeAgent, RealtimeRunner

    daemon, requests = partner
    places: list[str] = []

    @function_tool
    def weather(place: str) -> str:
        """The weather at a place."""
        places.append(place)
        return "calm"

    async def run() -> bytes:
        agent = RealtimeAgent(name="Harbour", instructions="Be brief.", tools=[weather])
        sound = b""
        config: Any = {"api_key": daemon.key, "url": f"{daemon.socket_url}/v1/realtime?model=gpt-realtime"}
        async with asyncio.timeout(60), await RealtimeRunner(agent).run(model_config=config) as session:
            for start in range(0, len(pcm), 4800):
                await session.send_audio(pcm[start : start + 4800])
            async for event in session:
                assert event.type != "error", event
                if event.type == "audio":
                    sound += event.audio.data
                elif event.type == "audio_end":
                    return sound
        return sound

    assert len(asyncio.run(run())) > 24_000
    assert places == ["sea"]
    assert requests[-1]["messages"][-1] == {"role": "tool", "tool_call_id": "call_1", "content": "calm"}


def test_open_webui_connects(partner: tuple[Daemon, Requests]) -> None:
    """Its realtime call: a conversation session in the shape its server opens one."""
    from websockets.sync.client import connect

    daemon, _ = partner
    headers = {"Authorization": f"Bearer {daemon.key}", "OpenAI-Beta": "realtime=v1"}
    with connect(
        f"{daemon.socket_url}/v1/realtime?model=gpt-realtime", additional_headers=headers, proxy=None
    ) as socket:
        assert json.loads(socket.recv())["session"]["type"] == "realtime"
        session = {
            "type": "realtime", "output_modalities": ["audio"], "instructions": "Be kind.",
            "audio": {
                "input": {"transcription": {"model": "whisper-1"}, "turn_detection": {"type": "semantic_vad"}},
                "output": {"voice": "alloy"},
            },
        }  # fmt: skip
        socket.send(json.dumps({"type": "session.update", "session": session}))
        assert json.loads(socket.recv())["type"] == "session.updated"
