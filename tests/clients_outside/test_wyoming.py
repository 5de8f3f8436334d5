"""Wyoming's own client as Home Assistant drives it: a connection each, everything sent, then read."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from support import RATE, Daemon, Speech, words
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice


@pytest.fixture(scope="module")
def port(serve: Callable[..., AbstractContextManager[Daemon]]) -> object:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        free = int(one.getsockname()[1])
    with serve("--wyoming-port", str(free)):
        yield free


async def described(port: int) -> Info:
    async with AsyncTcpClient("127.0.0.1", port, connect_timeout=1, read_timeout=5) as client:
        await client.write_event(Describe().event())
        event = await client.read_event()
        assert event is not None and Info.is_type(event.type)
        return Info.from_event(event)


def test_a_config_entry_finds_both_services(port: int) -> None:
    info = asyncio.run(described(port))
    assert [program.name for program in (*info.asr, *info.tts)] == ["hearsay", "hearsay"]
    assert all(model.installed and model.languages for model in info.asr[0].models)
    assert all(voice.installed and voice.languages for voice in info.tts[0].voices)


def test_a_voice_command(port: int, speech: Speech) -> None:
    """80 ms chunks, then nothing but reading until a transcript comes; the first one counts."""

    async def transcribed() -> str:
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Transcribe(language="en").event())
            await client.write_event(AudioStart(RATE, 2, 1).event())
            for piece in speech.pieces(80):
                await client.write_event(AudioChunk(RATE, 2, 1, piece).event())
            await client.write_event(AudioStop().event())
            while (event := await client.read_event()) is not None:
                if Transcript.is_type(event.type):
                    return Transcript.from_event(event).text
        raise AssertionError("the connection was lost")

    assert words(asyncio.run(transcribed())) == words(speech.text)


async def spoken(client: AsyncTcpClient, last: str) -> bytes:
    audio = b""
    while (event := await client.read_event()) is not None and event.type != last:
        if AudioChunk.is_type(event.type):
            audio += AudioChunk.from_event(event).audio
    return audio


def test_an_answer_spoken_at_once_and_while_it_is_written(port: int) -> None:
    voice = SynthesizeVoice(name=asyncio.run(described(port)).tts[0].voices[0].name)

    async def both() -> tuple[bytes, bytes]:
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Synthesize("The lamp is on.", voice).event())
            whole = await spoken(client, "audio-stop")
        async with AsyncTcpClient("127.0.0.1", port) as client:
            events: list[Event] = [SynthesizeStart(voice).event()]
            events += [SynthesizeChunk(text).event() for text in ("The la", "mp is", " on.")]
            events += [Synthesize("The lamp is on.", voice).event(), SynthesizeStop().event()]
            for event in events:
                await client.write_event(event)
            return whole, await spoken(client, "synthesize-stopped")

    for audio in asyncio.run(both()):
        assert 0.4 < len(audio) / 48_000 < 5
