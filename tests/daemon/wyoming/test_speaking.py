"""Speaking over Wyoming, with the package's own client."""

from collections.abc import Callable
from typing import Any

import pytest
from wyoming.audio import AudioChunk
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice

from codec.model import TtsModel
from daemon.serve import Background
from tests.daemon.support import LONGEST, SHORT, eventually
from tests.daemon.wyoming.conftest import settled

pytestmark = pytest.mark.anyio


def audio(events: list[Event]) -> bytes:
    """What was spoken: 16 bit, mono, 24 kHz, one chunk after the other."""
    chunks = [AudioChunk.from_event(event) for event in events if event.type == "audio-chunk"]
    assert {(chunk.rate, chunk.width, chunk.channels) for chunk in chunks} <= {(24_000, 2, 1)}
    at = 0.0
    for chunk in chunks:
        assert abs((chunk.timestamp or 0) - 1000 * at) <= 1
        at += chunk.seconds
    return b"".join(chunk.audio for chunk in chunks)


async def test_the_voices_are_described(connect: Callable[[], Any], tts_model: TtsModel) -> None:
    async with connect() as client:
        await client.say(Describe())
        (program,) = Info.from_event(await client.read_event()).tts
        assert program.supports_synthesize_streaming
        voices = [voice.id for voice in tts_model.voices.listed()]
        assert [voice.name for voice in program.voices] == voices
        assert [[one.name for one in voice.speakers or []] for voice in program.voices] == [[name] for name in voices]
        assert all(voice.languages == list(tts_model.manifest.languages) for voice in program.voices)


async def test_a_text_and_each_voice(connect: Callable[[], Any], tts_model: TtsModel) -> None:
    """Start, chunks, stop; by name, by speaker, by language, or none."""
    first = tts_model.voices.listed()[0].id
    language = tts_model.manifest.languages[0]
    voices = [
        None,
        SynthesizeVoice(name=first),
        SynthesizeVoice(name=tts_model.name, speaker=first),
        SynthesizeVoice(language=language),
    ]
    async with connect() as client:
        for voice in voices:
            await client.say(Synthesize(SHORT, voice))
            events = await client.until("audio-stop")
            kinds = [event.type for event in events]
            assert kinds[0] == "audio-start" and kinds[-1] == "audio-stop" and set(kinds[1:-1]) == {"audio-chunk"}
            assert len(audio(events)) > 24_000 // 2
            assert events[-1].data["timestamp"] == round(len(audio(events)) / 48)


async def test_text_that_streams_in(connect: Callable[[], Any]) -> None:
    """Audio comes before the text is complete; the text's repetition for other servers is not spoken again."""
    async with connect() as client:
        await client.say(SynthesizeStart(), SynthesizeChunk(f"{SHORT} {SHORT} And then"))
        early = await client.until("audio-chunk")
        assert [event.type for event in early] == ["audio-start", "audio-chunk"]
        await client.say(SynthesizeChunk(" they went out again."), Synthesize(LONGEST), SynthesizeStop())
        events = early + await client.until("synthesize-stopped")
        assert [event.type for event in events[-2:]] == ["audio-stop", "synthesize-stopped"]
        assert 1 < len(audio(events)) / 48_000 < 60
        await client.say(Synthesize(SHORT))  # afterwards one is one again
        assert audio(await client.until("audio-stop"))


@pytest.mark.parametrize("text", ["", "   ", "…!?"])
async def test_nothing_to_say_is_said_in_good_order(connect: Callable[[], Any], text: str) -> None:
    async with connect() as client:
        await client.say(Synthesize(text))
        assert [event.type for event in await client.until("audio-stop")] == ["audio-start", "audio-stop"]
        await client.say(SynthesizeStart(), SynthesizeChunk(text), SynthesizeStop())
        kinds = [event.type for event in await client.until("synthesize-stopped")]
        assert kinds == ["audio-start", "audio-stop", "synthesize-stopped"]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Synthesize(SHORT, SynthesizeVoice(name="nobody")), "nobody"),
        (Synthesize(SHORT, SynthesizeVoice(language="xx")), "language"),
        (Synthesize("<speak>x</speak>", text_format="ssml"), "text_format: 'ssml' is not text"),
        (Synthesize("x" * 5000), "5000 characters, the limit is 4096 (max_text_characters)"),
    ],
    ids=["voice", "language", "ssml", "long"],
)
async def test_what_cannot_be_spoken_is_told_and_ends(
    wyoming: Background, connect: Callable[[], Any], event: Synthesize, text: str
) -> None:
    async with connect() as client:
        await client.say(event)
        told = [event for event in await client.rest() if event.type == "error"]
        assert len(told) == 1 and text in Error.from_event(told[0]).text
    await settled(wyoming)


async def test_who_hangs_up_ends_the_work(wyoming: Background, connect: Callable[[], Any], tts_model: TtsModel) -> None:
    """Within a frame or two, not when the text is spoken."""
    async with connect() as client:
        await client.say(SynthesizeStart(), SynthesizeChunk(LONGEST))
        await client.until("audio-chunk")
    await settled(wyoming)
    made = tts_model.work.frames
    assert eventually(lambda: tts_model.live == 0)
    assert tts_model.work.frames <= made + 12
