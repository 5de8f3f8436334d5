"""The client of /v1/speak against a real daemon with a real model."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.events import Fault, ListenError, ProtocolError
from clients.handshake import Lost, Refused
from clients.options import StreamOptions
from clients.speech import (
    AsyncSpeech,
    Audio,
    Cleared,
    Flushed,
    Piece,
    SpeechEvent,
    SpeechMetadata,
    SpeechOptions,
    SpeechWarning,
    parse,
)
from clients.stream import Stream
from clients.transcription import transcribe
from clients.voices import remove_voice, voices
from tests.clients.conftest import Daemon
from tests.clips import DATA

pytestmark = pytest.mark.anyio

TEXT = "The museum opens at ten and closes at five."
WORDS = "A cold wind blew in from the sea and the old man fed the birds in the park.".split()


def audio(events: list[SpeechEvent]) -> bytes:
    """All of it."""
    return b"".join(event.data for event in events if isinstance(event, Audio))


async def say(url: str, text: str, options: SpeechOptions) -> list[SpeechEvent]:
    """Every event of a session that says ``text`` at once."""
    async with AsyncSpeech(url, options) as speech:
        await speech.speak(text)
        await speech.close_speech()
        return [event async for event in speech]


async def test_a_text_is_spoken(talking_url: str):
    """Metadata first, whole frames of sound, each piece's mark; the same seed the same speech."""
    options = SpeechOptions(seed=5, marks=True)
    events = await say(talking_url, TEXT, options)
    assert isinstance(events[0], SpeechMetadata) and events[0].seed == 5 and not events[0].warnings
    pcm = audio(events)
    assert len(pcm) % 3840 == 0 and np.frombuffer(pcm, "<i2").any()
    (piece,) = [event for event in events if isinstance(event, Piece)]
    assert (piece.start, piece.start_char, piece.end_char) == (0, 0, len(TEXT))
    assert [TEXT[word.start_char : word.end_char] for word in piece.words] == TEXT.split()
    assert piece.end == pytest.approx(len(pcm) / options.bytes_per_second, abs=1e-3)
    again = audio(await say(talking_url, TEXT, options))
    difference = np.frombuffer(pcm, "<i2").astype(int) - np.frombuffer(again, "<i2")
    assert np.abs(difference).max() <= 1  # the codec's calls may be cut differently


async def test_words_are_spoken_while_they_are_written(talking_url: str):
    """The fourth word is written once the first three are heard; flush is answered after the last."""
    written, heard = 0, asyncio.Event()
    async with AsyncSpeech(talking_url) as speech, asyncio.TaskGroup() as tasks:

        async def write() -> None:
            nonlocal written
            for word in WORDS:
                if written == 3:
                    await asyncio.wait_for(heard.wait(), 60)
                await speech.speak(f"{word} ")
                written += 1
            await speech.flush()

        tasks.create_task(write())
        async for event in speech:
            if isinstance(event, Audio):
                heard.set()
            if isinstance(event, Flushed):
                assert event.sequence == 0 and written == len(WORDS)
                await speech.close_speech()
    assert heard.is_set()


async def test_a_clear_then_more(talking_url: str):
    """What is said after a clear is spoken to its end."""
    async with AsyncSpeech(talking_url, SpeechOptions(marks=True)) as speech:
        await speech.speak(f"{TEXT} " * 100)
        stream = speech.events()
        await _until(stream, Audio)
        await speech.clear()
        await _until(stream, Cleared)
        await speech.speak(TEXT)
        await speech.close_speech()
        rest = [event async for event in stream]
    assert len([event for event in rest if isinstance(event, Piece)]) == 1 and audio(rest)


async def _until(stream: AsyncIterator[SpeechEvent], kind: type[SpeechEvent]) -> None:
    """Iterate up to the first event of a kind."""
    async for event in stream:
        if isinstance(event, kind):
            return
    raise AssertionError(f"the session ended without {kind}")


async def test_the_shape_of_the_audio_is_the_one_asked_for(talking_url: str):
    """The same speech is as long in another encoding and at another rate."""
    plain, shaped = SpeechOptions(seed=5), SpeechOptions(seed=5, encoding="mulaw", sample_rate=16_000)
    expected = len(audio(await say(talking_url, TEXT, plain))) / plain.bytes_per_second
    assert len(audio(await say(talking_url, TEXT, shaped))) / shaped.bytes_per_second == pytest.approx(
        expected, abs=0.02
    )


async def test_options_reach_the_model(talking_url: str):
    """Speed shortens; what the model cannot do is refused before the session, in its own words."""
    plain = len(audio(await say(talking_url, TEXT, SpeechOptions(seed=5))))
    fast = len(audio(await say(talking_url, TEXT, SpeechOptions(seed=5, speed=2.0))))
    assert fast == pytest.approx(plain / 2, rel=0.1)
    for options, message in (
        (SpeechOptions(voice="nobody"), "voice: .*nobody"),
        (SpeechOptions(speed=9.0), "speed"),
        (SpeechOptions(seed=-1), "seed"),
        (SpeechOptions(model="no-such-model"), "no-such-model"),
        (SpeechOptions(sample_rate=96000), "sample_rate"),
    ):
        with pytest.raises(Refused, match=message) as caught:
            await AsyncSpeech(talking_url, options).connect()
        assert caught.value.status == 400 and not caught.value.may_retry


async def test_text_without_words_is_warned_of(talking_url: str):
    """Nothing to speak: a warning, no audio, a normal end."""
    events = await say(talking_url, "…!?", SpeechOptions())
    assert not audio(events)
    assert [event.code for event in events if isinstance(event, SpeechWarning)] == ["NOTHING_TO_SPEAK"]


async def test_leaving_does_not_wait_for_audio_that_nobody_takes(talking_url: str):
    """However much of it lies before the daemon's answer."""
    async with AsyncSpeech(talking_url, SpeechOptions(sample_rate=48_000)) as speech:
        await speech.speak(f"{TEXT} " * 40)
        await speech.flush()
        await asyncio.sleep(5)
        began = time.monotonic()
    assert time.monotonic() - began < 3


async def test_half_a_character_is_refused_by_the_name_of_its_argument(talking_url: str):
    """A session goes on without it; whatever else takes a text names it too."""
    async with AsyncSpeech(talking_url) as speech:
        with pytest.raises(ListenError, match=r"^text: '\\ud83d' at 6 is no character$"):
            await speech.speak("Hello \ud83d")
        await speech.speak(TEXT)
        await speech.close_speech()
        assert audio([event async for event in speech])
    for named, call in (
        ("voice", lambda: AsyncSpeech(talking_url, SpeechOptions(voice="\udce9"))),
        ("keyterm", lambda: Stream(talking_url, StreamOptions(keyterms=("a", "\udce9")))),
        ("language", lambda: transcribe(talking_url, DATA / "index.jsonl", language="\udce9")),
        ("voice", lambda: remove_voice(talking_url, "\udce9")),
    ):
        with pytest.raises(ListenError, match=rf"^{named}: '\\udce9' at 0 is no character$"):
            call()


async def test_a_key_that_no_header_carries_is_named(talking_url: str):
    """It is not shown."""
    with pytest.raises(Refused, match="^key: it holds"):
        await AsyncSpeech(talking_url, key="ключ").connect()
    with pytest.raises(Refused, match="^key: it holds"):
        voices(talking_url, key="ключ")


async def test_a_daemon_that_ends_is_a_loss(talking: Daemon):
    """Drained in the middle: the error says so, and that another session may succeed."""
    with talking(drain_seconds=0) as background:
        async with AsyncSpeech(background.url) as speech:
            await speech.speak(f"{TEXT} " * 3)
            stream = speech.events()
            await _until(stream, Audio)
            ending = asyncio.create_task(asyncio.to_thread(background.__exit__, None, None, None))
            with pytest.raises(Lost) as caught:
                async for _ in stream:
                    pass
            await ending
            assert caught.value.may_retry
            with pytest.raises(Lost):
                await speech.speak("more")


async def test_leaving_early_frees_the_place(talking: Daemon):
    """One place: whoever closes in the middle of a long text makes room at once."""
    with talking(speakers=1) as background:
        for _ in range(3):
            async with AsyncSpeech(background.url) as speech:
                await speech.speak(f"{TEXT} " * 200)
                await _until(speech.events(), Audio)
            await _free(background.url)


async def _free(url: str) -> None:
    for _ in range(1200):
        try:
            async with AsyncSpeech(url):
                return
        except Refused as refused:
            assert refused.status == 429
            await asyncio.sleep(0.05)
    raise AssertionError("the place did not become free")


def test_messages_become_events():
    """Each of the daemon's, a Warning in Deepgram's older spelling, an unknown one."""
    assert parse(b"\x01\x02") == Audio(b"\x01\x02")
    assert parse('{"type":"Flushed","sequence_id":3}') == Flushed(3)
    assert parse('{"type":"Cleared","sequence_id":0}') == Cleared(0)
    assert parse('{"type":"Warning","warn_code":"X","warn_msg":"slow"}') == SpeechWarning("X", "slow")
    assert parse('{"type":"Error","description":"broken"}') == Fault("broken")
    assert parse('{"type":"Metadata","request_id":"r"}') == SpeechMetadata("r", "", None, None, ())
    assert parse('{"type":"SomethingNew"}') is None


@pytest.mark.parametrize("message", ['{"type":"Flushed","sequence_id":Infinity}', '{"type":' + "[" * 100_000])
def test_numbers_and_depths_that_python_cannot_take_are_protocol_errors(message: str):
    """JSON that json.loads reads, or does not get to the end of."""
    with pytest.raises(ProtocolError, match="unreadable"):
        parse(message)


FIELDS = st.none() | st.integers() | st.text() | st.lists(st.none(), max_size=2) | st.just({})
KINDS = st.sampled_from(["Metadata", "Flushed", "Cleared", "Piece", "Warning", "Error", "New"])
NAMES = ("request_id", "seed", "warnings", "sequence_id", "text", "start", "end", "start_char", "description", "code")
MESSAGES = st.fixed_dictionaries({"type": KINDS}, optional=dict.fromkeys(NAMES, FIELDS)).map(json.dumps)


@settings(deadline=None)
@given(MESSAGES | FIELDS.map(json.dumps) | st.text())
def test_whatever_comes_is_an_event_or_a_protocol_error(message: str):
    """Never another exception, and never half an event."""
    try:
        event = parse(message)
    except ProtocolError as error:
        assert "unreadable" in str(error)
    else:
        assert event is None or isinstance(event, SpeechEvent)
