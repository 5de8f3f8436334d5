"""Hearing over Wyoming, with the package's own client."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soxr
from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

from daemon.serve import Background
from daemon.wyoming.transcription import TranscribeRequest, Transcription
from streaming.events import Transcript as Heard
from streaming.events import Word
from tests.daemon.support import RATE, Client, Speech, finals
from tests.daemon.wyoming.conftest import Client as WyomingClient
from tests.daemon.wyoming.conftest import connected, settled

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def expected(wyoming: Background, speech: Speech) -> str:
    """What Deepgram's door hears."""
    return finals(Client(wyoming.url).transcribe(speech.pcm))


async def hear(
    client: WyomingClient, pcm: bytes, rate: int = RATE, width: int = 2, channels: int = 1, piece: int = 3000
) -> list[Event]:
    """Send a recording as Home Assistant does, then read."""
    await client.say(AudioStart(rate, width, channels))
    for start in range(0, len(pcm), piece):
        await client.say(AudioChunk(rate, width, channels, pcm[start : start + piece]))
    await client.say(AudioStop())
    return await client.until("transcript-stop")


async def test_what_home_assistant_asks_and_gets(connect: Callable[[], Any], speech: Speech, expected: str) -> None:
    """describe, then on a connection of its own: transcribe, audio, and only then the first transcript."""
    async with connect() as client:
        await client.say(Describe())
        info = Info.from_event(await client.read_event())
        (program,) = info.asr
        assert program.installed and program.supports_transcript_streaming
        assert [(model.name, model.languages) for model in program.models] == [("pocket-asr-en", ["en"])]
        assert program.attribution.name and program.version
    async with connect() as client:
        await client.say(Transcribe(name="pocket-asr-en", language="en"))
        events = await hear(client, speech.pcm)
        first = next(event for event in events if event.type == "transcript")
        assert Transcript.from_event(first) == Transcript(expected, language="en")


async def test_words_come_while_audio_does(wyoming: Background, connect: Callable[[], Any], speech: Speech) -> None:
    """Chunks are appended; together they are the transcript."""
    first, second = speech.pcm + bytes(2 * RATE), speech.pcm
    expected = finals(Client(wyoming.url).transcribe(first + second))
    async with connect() as client:
        await client.say(Transcribe(), AudioStart(RATE, 2, 1))
        await client.say(AudioChunk(RATE, 2, 1, first))
        early = await client.until("transcript-chunk")
        assert [event.type for event in early] == ["transcript-start", "transcript-chunk"]
        await client.say(AudioChunk(RATE, 2, 1, second), AudioStop())
        events = early + await client.until("transcript-stop")
    kinds = [event.type for event in events]
    assert kinds[-2:] == ["transcript", "transcript-stop"] and set(kinds[1:-2]) == {"transcript-chunk"}
    chunks = [TranscriptChunk.from_event(event).text for event in events if event.type == "transcript-chunk"]
    assert "".join(chunks) == expected == events[-2].data["text"]


async def test_one_connection_many_utterances(connect: Callable[[], Any], speech: Speech, expected: str) -> None:
    async with connect() as client:
        for _ in range(3):
            assert (await hear(client, speech.pcm))[-2].data["text"] == expected
        assert [event.type for event in await hear(client, b"")] == [
            "transcript-start",
            "transcript",
            "transcript-stop",
        ]
        await client.say(Ping("still there"))
        assert Pong.from_event(await client.read_event()).text == "still there"


def widened(pcm: bytes, width: int) -> bytes:
    """16-bit samples in another width, as WAV files have it."""
    samples = np.frombuffer(pcm, "<i2").astype(np.int64)
    match width:
        case 1:
            return ((samples >> 8) + 128).astype(np.uint8).tobytes()
        case 3:
            return (samples << 8).astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
        case 4:
            return (samples << 16).astype("<i4").tobytes()
        case _:
            return pcm


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
async def test_every_width_is_the_same_sound(
    connect: Callable[[], Any], speech: Speech, expected: str, width: int, channels: int
) -> None:
    """Cut anywhere, within a sample too."""
    wide: npt.NDArray[np.uint8] = np.frombuffer(widened(speech.pcm, width), np.uint8).reshape(-1, 1, width)
    data = np.repeat(wide, channels, axis=1).tobytes()
    async with connect() as client:
        events = await hear(client, data, width=width, channels=channels, piece=4999)
        assert events[-2].data["text"] == expected


async def test_eight_bits_and_other_rates(connect: Callable[[], Any], speech: Speech, expected: str) -> None:
    """They lose a little; words are heard."""
    samples = np.frombuffer(speech.pcm, "<i2").astype(np.float32)
    loud = (samples * (30000 / np.abs(samples).max())).astype("<i2")
    async with connect() as client:
        eight = (await hear(client, widened(loud.tobytes(), 1), width=1))[-2].data["text"]
        assert len(set(eight.split()) & set(expected.split())) >= len(expected.split()) // 2
        for rate in (8_000, 22_050, 48_000):
            other = np.clip(soxr.resample(samples, RATE, rate), -32768, 32767).astype("<i2").tobytes()
            text = (await hear(client, other, rate=rate, piece=9001))[-2].data["text"]
            assert len(set(text.split()) & set(expected.split())) >= len(expected.split()) // 2, rate


async def test_a_chunk_without_a_start_is_one(connect: Callable[[], Any], speech: Speech, expected: str) -> None:
    async with connect() as client:
        await client.say(AudioChunk(RATE, 2, 1, speech.pcm), AudioStop())
        assert (await client.until("transcript-stop"))[-2].data["text"] == expected


async def test_a_container_is_told_apart_from_audio(connect: Callable[[], Any]) -> None:
    """As on the other doors; a WAV header that says the same as the event is skipped."""
    async with connect() as client:
        await client.say(AudioStart(RATE, 2, 1), AudioChunk(RATE, 2, 1, b"OggS" + bytes(5000)), AudioStop())
        events = await client.rest()
        assert [event.type for event in events[-2:]] == ["transcript-stop", "error"]
        assert "Ogg" in events[-1].data["text"]


@pytest.mark.parametrize(
    ("events", "code", "text"),
    [
        ([AudioStart(7_999, 2, 1)], "invalid_format", "rate: 7999 Hz lies outside 8000…48000 Hz"),
        ([AudioStart(10**12, 2, 1)], "invalid_format", "rate: 1000000000000 Hz lies outside"),
        ([AudioStart(RATE, 5, 1)], "invalid_format", "width: 5 bytes is none of 1, 2, 3, 4"),
        ([AudioStart(RATE, 2, 0)], "invalid_format", "channels: 0 lies outside 1…8"),
        ([AudioStart(RATE, 2, 1), AudioChunk(8000, 2, 1, b"")], "format", "audio-chunk: its rate"),
        ([AudioStart(RATE, 2, 1), AudioStart(RATE, 2, 1)], "order", "no audio-stop yet"),
        ([Transcribe(name="other"), AudioStart(RATE, 2, 1)], "model_not_found", "'other' is not loaded"),
        ([Transcribe(language="xx"), AudioStart(RATE, 2, 1)], "invalid_option", "language"),
        ([Transcribe(transcript_terms=["a b"] * 101), AudioStart(RATE, 2, 1)], "invalid_format", "202 words"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_cannot_be_heard_is_told_and_ends(
    wyoming: Background, connect: Callable[[], Any], events: list[Any], code: str, text: str
) -> None:
    """Home Assistant waits for a transcript until the connection ends."""
    async with connect() as client:
        await client.say(*events)
        (error,) = [Error.from_event(event) for event in await client.rest()]
        assert error.code == code and text in error.text
    await settled(wyoming)


async def test_who_reads_after_all_is_written_is_told_as_well(
    wyoming: Background, connect: Callable[[], Any], speech: Speech
) -> None:
    """The audio that comes after a refusal is read for nothing."""
    async with connect() as client:
        await client.say(Transcribe(language="xx"), AudioStart(RATE, 2, 1))
        for start in range(0, 20 * 3200, 3200):
            await client.say(AudioChunk(RATE, 2, 1, speech.pcm[start : start + 3200]))
            await asyncio.sleep(0.02)
        await client.say(AudioStop())
        (error,) = await client.rest()
        assert error.data["code"] == "invalid_option"
    await settled(wyoming)


async def test_a_full_daemon_says_so(
    door: Callable[..., AbstractContextManager[Background]], speech: Speech, expected: str
) -> None:
    with door(sessions=1) as background:
        async with connected(background) as first, connected(background) as second:
            await first.say(AudioStart(RATE, 2, 1), Ping())
            await first.read_event()
            await second.say(AudioStart(RATE, 2, 1))
            (error,) = await second.rest()
            assert (error.type, error.data["code"]) == ("error", "sessions")
            await first.say(AudioChunk(RATE, 2, 1, speech.pcm), AudioStop())
            assert (await first.until("transcript-stop"))[-2].data["text"] == expected


async def test_audio_faster_than_it_is_heard_waits_at_the_client(
    door: Callable[..., AbstractContextManager[Background]], clips: list[Any]
) -> None:
    """A second may wait, more comes at once: nothing is refused, nothing is lost."""
    pcm = b"".join((clip.samples * 32767).astype("<i2").tobytes() for clip in clips[:4])
    with door(max_unheard_seconds=1.0) as background:
        patient = finals(Client(background.url).transcribe(b""))
        assert patient == ""
        async with connected(background) as client:
            text = (await hear(client, pcm, piece=1 << 19))[-2].data["text"]
    with door() as background:
        assert finals(Client(background.url).transcribe(pcm)) == text


def test_a_final_that_takes_words_back_goes_on_after_as_many() -> None:
    """What was sent stays sent; languages without spaces are cut by their characters."""

    def said(*events: Heard) -> list[str]:
        told: list[Any] = []
        one = Transcription(None, TranscribeRequest(), told.append)  # type: ignore[arg-type]
        for event in events:
            one._take(event)  # type: ignore[reportPrivateUsage]
        return [event.text for event in told if isinstance(event, TranscriptChunk)]

    def heard(text: str, words: str, stable: int = 0, *, final: bool = False) -> Heard:
        return Heard(0, 1, text, tuple(Word(w, 0, 1, 1) for w in words.split()), stable, "en", is_final=final)

    assert said(heard("the tide", "the tide", 1), heard("the tide", "the tide", final=True)) == ["the", " tide"]
    assert said(heard("the tide came", "the tide came", 2), heard("a tide came in", "a tide came in", final=True)) == [
        "the tide", " came in",
    ]  # fmt: skip
    assert said(heard("one", "one", final=True), heard("two three", "two three", 1)) == ["one", " two"]
    assert said(heard("今天天气", "今天 天气", 1), heard("今天天气好", "今天 天气 好", final=True)) == [
        "今天",
        "天气好",
    ]
