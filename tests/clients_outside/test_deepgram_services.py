"""Deepgram's services in LiteLLM, pipecat and livekit-agents; only the address is ours."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pipeline import piped
from support import RATE, Daemon, Speech, words


def alike(one: str, other: str) -> bool:
    """Whether two texts share most of their words: one may be cut elsewhere."""
    a, b = set(words(one)), set(words(other))
    return len(a & b) >= 0.6 * max(len(a), len(b), 1)


def test_litellm(daemon: Daemon, speech: Speech) -> None:
    """transcription with deepgram/nova-3."""
    import litellm

    answer = litellm.transcription(
        model="deepgram/nova-3", file=Path(speech.path).open("rb"), api_base=f"{daemon.url}/v1", api_key=daemon.key
    )
    assert answer.text == speech.text


def test_pipecat_hears(daemon: Daemon, speech: Speech) -> None:
    """DeepgramSTTService in a pipeline."""
    from pipecat.frames.frames import ErrorFrame, TranscriptionFrame
    from pipecat.services.deepgram.stt import DeepgramSTTService

    service = DeepgramSTTService(api_key=daemon.key, base_url=daemon.url)
    frames = piped(
        service, speech.pcm + bytes(64_000), RATE, [], lambda fs: any(isinstance(f, TranscriptionFrame) for f in fs)
    )
    assert not [frame for frame in frames if isinstance(frame, ErrorFrame)]
    texts = dict.fromkeys(frame.text for frame in frames if isinstance(frame, TranscriptionFrame))
    assert alike(" ".join(texts), speech.text)


def test_pipecat_hears_turns(daemon: Daemon, speech: Speech) -> None:
    """DeepgramFluxSTTService in a pipeline."""
    from pipecat.frames.frames import ErrorFrame, TranscriptionFrame
    from pipecat.services.deepgram.flux.stt import DeepgramFluxSTTService

    service = DeepgramFluxSTTService(api_key=daemon.key, url=f"{daemon.socket_url}/v2/listen")
    frames = piped(
        service, speech.pcm + bytes(64_000), RATE, [], lambda fs: any(isinstance(f, TranscriptionFrame) for f in fs)
    )
    assert not [frame for frame in frames if isinstance(frame, ErrorFrame)]
    texts = dict.fromkeys(frame.text for frame in frames if isinstance(frame, TranscriptionFrame))
    assert alike(" ".join(texts), speech.text)


@pytest.mark.parametrize("turns", [False, True])
def test_pipecat_speaks(daemon: Daemon, turns: bool) -> None:
    """DeepgramTTSService and DeepgramFluxTTSService in a pipeline."""
    from pipecat.frames.frames import ErrorFrame, TTSAudioRawFrame, TTSSpeakFrame, TTSStoppedFrame
    from pipecat.services.deepgram.flux.tts import DeepgramFluxTTSService
    from pipecat.services.deepgram.tts import DeepgramTTSService

    if turns:
        service: Any = DeepgramFluxTTSService(api_key=daemon.key, url=f"{daemon.socket_url}/v2/speak")
    else:
        service = DeepgramTTSService(api_key=daemon.key, base_url=daemon.socket_url)
    frames = piped(
        service,
        b"",
        24_000,
        [TTSSpeakFrame("The tide comes in at nine.")],
        lambda fs: any(isinstance(f, TTSStoppedFrame) for f in fs),
    )
    assert not [frame for frame in frames if isinstance(frame, ErrorFrame)]
    assert sum(len(frame.audio) for frame in frames if isinstance(frame, TTSAudioRawFrame)) > 10_000


@pytest.mark.parametrize("turns", [False, True])
def test_livekit_hears(daemon: Daemon, speech: Speech, turns: bool) -> None:
    """The plugin's STT stream with its own endpointing of 25 ms, and STTv2."""
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import deepgram

    async def run() -> list[str]:
        import aiohttp

        async with aiohttp.ClientSession() as session:
            if turns:
                url = f"{daemon.socket_url}/v2/listen"
                ears: Any = deepgram.STTv2(api_key=daemon.key, base_url=url, http_session=session)
            else:
                ears = deepgram.STT(api_key=daemon.key, base_url=f"{daemon.url}/v1/listen", http_session=session)
            stream = ears.stream()

            async def talk() -> None:
                for piece in [*speech.pieces(50), *[bytes(1600)] * 40]:
                    stream.push_frame(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))
                    await asyncio.sleep(0.02)
                stream.end_input()

            talking = asyncio.create_task(talk())
            texts: list[str] = []
            async with asyncio.timeout(60):
                async for event in stream:
                    if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT:
                        texts.append(event.alternatives[0].text)
            await talking
            await stream.aclose()
            await ears.aclose()
            return texts

    assert alike(" ".join(asyncio.run(run())), speech.text)


@pytest.mark.parametrize("turns", [False, True])
def test_livekit_recognizes_and_speaks(daemon: Daemon, speech: Speech, turns: bool) -> None:
    """STT.recognize of a recording; TTS and TTSv2, whole and streamed."""
    from livekit import rtc
    from livekit.plugins import deepgram

    async def run() -> tuple[str, float]:
        import aiohttp

        async with aiohttp.ClientSession() as session:
            ears = deepgram.STT(api_key=daemon.key, base_url=f"{daemon.url}/v1/listen", http_session=session)
            frame = rtc.AudioFrame(speech.pcm, RATE, 1, len(speech.pcm) // 2)
            heard = (await ears.recognize(frame)).alternatives[0].text
            kind, path = (deepgram.TTSv2, "v2") if turns else (deepgram.TTS, "v1")
            voice = kind(api_key=daemon.key, base_url=f"{daemon.url}/{path}/speak", http_session=session)
            seconds = 0.0
            async with asyncio.timeout(60):
                async for audio in voice.synthesize("The tide comes in at nine."):
                    seconds += audio.frame.duration
                stream = voice.stream()
                stream.push_text("And goes out at three.")
                stream.end_input()
                async for audio in stream:
                    seconds += audio.frame.duration
            await stream.aclose()
            await ears.aclose()
            await voice.aclose()
            return heard, seconds

    heard, seconds = asyncio.run(run())
    assert heard == speech.text and seconds > 1.5
