"""Home Assistant's own Wyoming integration: what its assistant calls to hear a command and to say an answer.

It runs in an environment of its own, because Home Assistant pins the versions of all that it uses.
"""

import asyncio
import io
import socket
import wave
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest
from support import Daemon, Speech, heard_as

pytest.importorskip("homeassistant")
from homeassistant.components import stt
from homeassistant.components.wyoming.data import WyomingService
from homeassistant.components.wyoming.stt import WyomingSttProvider
from homeassistant.components.wyoming.tts import WyomingTtsProvider

ENTRY: Any = SimpleNamespace(entry_id="hearsay")
COMMAND = stt.SpeechMetadata(
    language="en",
    format=stt.AudioFormats.WAV,
    codec=stt.AudioCodecs.PCM,
    bit_rate=stt.AudioBitRates.BITRATE_16,
    sample_rate=stt.AudioSampleRates.SAMPLERATE_16000,
    channel=stt.AudioChannels.CHANNEL_MONO,
)


@pytest.fixture(scope="module")
def port(serve: Callable[..., AbstractContextManager[Daemon]]) -> Iterator[int]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        free = int(one.getsockname()[1])
    with serve("--wyoming-port", str(free)):
        yield free


async def found(port: int) -> WyomingService:
    service = await WyomingService.create("127.0.0.1", port)
    assert service is not None and service.has_services() and service.get_name() == "hearsay"
    assert set(service.platforms) == {"stt", "tts"}
    return service


def test_a_command_is_heard(port: int, speech: Speech) -> None:
    async def heard() -> stt.SpeechResult:
        ear = WyomingSttProvider(ENTRY, await found(port))
        assert ear.check_metadata(COMMAND)

        async def microphone() -> AsyncIterator[bytes]:
            for piece in speech.pieces(64):
                yield piece

        return await ear.async_process_audio_stream(COMMAND, microphone())

    result = asyncio.run(heard())
    assert result.result is stt.SpeechResultState.SUCCESS
    assert heard_as(speech.text, result.text or "") > 0.9


def test_an_answer_is_said_by_the_voice_that_was_chosen(port: int, daemon: Daemon) -> None:
    async def said() -> tuple[str | None, bytes | None]:
        voice = WyomingTtsProvider(ENTRY, await found(port))
        voices = voice.async_get_supported_voices(voice.default_language)
        assert voices
        return await voice.async_get_tts_audio("The lamp is on.", "en", {"voice": voices[-1].voice_id})

    form, sound = asyncio.run(said())
    assert form == "wav" and sound is not None
    with wave.open(io.BytesIO(sound)) as file:
        assert file.getnframes() > 0.5 * file.getframerate()
