"""ElevenLabs' own SDKs: voices, models, text to speech at once and as a stream, text that streams in, transcripts."""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import httpx
import pytest
from elevenlabs.client import ElevenLabs
from pipeline import piped
from support import ROOT, Daemon, Speech, heard_as, took
from websockets.asyncio.client import connect

TLS = ROOT / "tests/daemon/tls"
TEXT = "The tide comes in at nine, and the harbour master will be waiting for you."


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> ElevenLabs:
    return ElevenLabs(base_url=daemon.url, api_key=daemon.key)


def test_what_an_application_looks_at_first(client: ElevenLabs) -> None:
    voices = [voice.voice_id for voice in client.voices.get_all().voices]
    assert voices and voices == [voice.voice_id for voice in client.voices.search().voices]
    assert client.voices.get(voices[0]).name
    assert any(model.can_do_text_to_speech for model in client.models.list())
    subscription = client.user.get().subscription
    assert subscription.character_limit - subscription.character_count > 0


def test_a_text_is_spoken_and_understood(client: ElevenLabs) -> None:
    began, said = time.monotonic(), b""
    for piece in client.text_to_speech.stream("JBFqnCBsd6RMkjVDRZzb", text=TEXT, model_id="eleven_flash_v2_5"):
        if not said:
            took("elevenlabs", "first audio", time.monotonic() - began)
        said += piece
    whole = b"".join(client.text_to_speech.convert("JBFqnCBsd6RMkjVDRZzb", text=TEXT))
    for mp3 in (said, whole):
        assert heard_as(TEXT, client.speech_to_text.convert(model_id="scribe_v1", file=mp3).text) > 0.8


def test_each_character_has_its_time(client: ElevenLabs) -> None:
    wanted = {"text": TEXT, "model_id": "eleven_flash_v2_5", "output_format": "pcm_24000"}
    whole = client.text_to_speech.convert_with_timestamps("JBFqnCBsd6RMkjVDRZzb", **wanted)
    assert whole.alignment is not None and "".join(whole.alignment.characters) == TEXT
    seconds = len(base64.b64decode(whole.audio_base_64)) / 48_000
    assert abs(whole.alignment.character_end_times_seconds[-1] - seconds) < 0.5
    began, told = time.monotonic(), []
    for piece in client.text_to_speech.stream_with_timestamps("JBFqnCBsd6RMkjVDRZzb", **wanted):
        if not told:
            took("elevenlabs", "first audio with times", time.monotonic() - began)
        told.append(piece)
    assert "".join(c for one in told if one.alignment for c in one.alignment.characters) == TEXT


def test_several_texts_at_a_time(daemon: Daemon) -> None:
    """The messages of the SDK's types for the socket that it has no client of."""
    from elevenlabs.types import (
        AudioOutputMulti,
        CloseContext,
        FinalOutputMulti,
        InitializeConnectionMulti,
        SendTextMulti,
    )

    async def speak() -> dict[str, bytes]:
        said: dict[str, bytes] = {"a": b"", "b": b""}
        url = f"{daemon.socket_url}/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb/multi-stream-input?output_format=pcm_24000"
        async with connect(url, additional_headers={"xi-api-key": daemon.key}) as socket:
            for name in said:
                await socket.send(InitializeConnectionMulti(context_id=name).json())
                await socket.send(SendTextMulti(text=TEXT + " ", context_id=name, flush=True).json())
                await socket.send(CloseContext(context_id=name, close_context=True).json())
            over = 0
            while over < 2:
                message = json.loads(await socket.recv())
                if message.get("isFinal"):
                    over += FinalOutputMulti(**message).is_final
                else:
                    told = AudioOutputMulti(**message)
                    said[told.context_id or ""] += base64.b64decode(told.audio)
        return said

    assert all(len(sound) > 2 * 24_000 * 2 for sound in asyncio.run(speak()).values())


def test_pipecat_speaks(daemon: Daemon) -> None:
    """ElevenLabsTTSService, which speaks over the socket of several texts and reads the times of characters."""
    from pipecat.frames.frames import ErrorFrame, TTSAudioRawFrame, TTSSpeakFrame, TTSStoppedFrame, TTSTextFrame
    from pipecat.services.elevenlabs.tts import ElevenLabsTTSService

    service = ElevenLabsTTSService(api_key=daemon.key, voice_id="JBFqnCBsd6RMkjVDRZzb", url=daemon.socket_url)
    frames = piped(
        service,
        b"",
        24_000,
        [TTSSpeakFrame(TEXT)],
        lambda fs: any(isinstance(f, TTSStoppedFrame) for f in fs),
    )
    assert not [frame for frame in frames if isinstance(frame, ErrorFrame)]
    assert sum(len(frame.audio) for frame in frames if isinstance(frame, TTSAudioRawFrame)) > 2 * 24_000 * 2
    assert heard_as(TEXT, " ".join(frame.text for frame in frames if isinstance(frame, TTSTextFrame))) > 0.9


def test_javascript(daemon: Daemon, speech: Speech, node: Callable[..., str]) -> None:
    told = json.loads(node("elevenlabs.mjs", daemon.url, daemon.key, str(speech.path), TEXT))
    assert told["voices"] and told["sound"] > 2 * 24_000 * 2
    assert told["timed"] == told["streamed"] == TEXT and told["heard"] == speech.text


def test_a_recording_is_written_down_word_by_word(client: ElevenLabs, speech: Speech) -> None:
    began = time.monotonic()
    with speech.path.open("rb") as file:
        told = client.speech_to_text.convert(model_id="scribe_v2", file=file, keyterms=["Penhaligon"])
    took("elevenlabs", "transcript of four seconds", time.monotonic() - began)
    assert told.text == speech.text and told.language_code == "en"
    assert "".join(word.text for word in told.words) == told.text


def test_text_that_streams_in(
    serve: Callable[..., AbstractContextManager[Daemon]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket is always one of TLS."""
    certificate = str(TLS / "certificate.pem")
    monkeypatch.setenv("SSL_CERT_FILE", certificate)

    def written() -> Iterator[str]:
        for word in TEXT.split():
            time.sleep(0.05)
            yield word + " "

    with serve("--tls-certificate", certificate, "--tls-key", str(TLS / "key.pem")) as safe:
        trusting = httpx.Client(verify=ssl.create_default_context(cafile=certificate), trust_env=False)
        client = ElevenLabs(base_url=safe.url, api_key=safe.key, httpx_client=trusting)
        began, said = time.monotonic(), b""
        for piece in client.text_to_speech.convert_realtime(
            "JBFqnCBsd6RMkjVDRZzb", text=written(), model_id="eleven_flash_v2_5", output_format="pcm_24000"
        ):
            if not said:
                took("elevenlabs", "first audio of text that streams in", time.monotonic() - began)
            said += piece
        assert len(said) > 2 * 24_000 * 2
