"""The clients of /v1/listen against a real daemon."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from clients.events import Fault, ListenError, Metadata, Results, SpeechStarted
from clients.handshake import Lost, Refused, listen_url
from clients.options import StreamOptions
from clients.stream import AsyncStream, Stream
from clients.transcription import transcribe
from streaming.model import AsrModel
from tests.clients.conftest import Daemon, heard_at_once
from tests.clips import DATA, Clip
from tests.daemon.support import Speech, damaged

pytestmark = pytest.mark.anyio


def texts(events: list[object]) -> list[str]:
    """The texts of the finals."""
    return [event.text for event in events if isinstance(event, Results) and event.is_final and event.text]


async def test_a_stream_brings_what_the_file_gives(url: str, speech: bytes, offline: list[str]):
    """Interims come while audio goes; the finals are those of the same samples heard at once; Metadata is last."""
    events: list[object] = []
    seen = asyncio.Event()
    async with AsyncStream(url, StreamOptions(vad_events=True)) as stream, asyncio.TaskGroup() as tasks:

        async def send() -> None:
            for offset in range(0, len(speech), 6400):
                if offset >= len(speech) - 32_000:
                    # A tick that falls behind is skipped, so the last second waits until an interim has been seen.
                    await asyncio.wait_for(seen.wait(), 60)
                await stream.send(speech[offset : offset + 6400])
                await asyncio.sleep(0.02)
            await stream.close_stream()

        tasks.create_task(send())
        async for event in stream:
            events.append(event)
            if isinstance(event, Results) and not event.is_final:
                seen.set()
    assert texts(events) == offline
    assert any(isinstance(event, Results) and not event.is_final for event in events)
    assert any(isinstance(event, SpeechStarted) for event in events)
    last = events[-1]
    assert isinstance(last, Metadata) and last.duration == pytest.approx(len(speech) / 32000, abs=0.01)


def test_the_blocking_client_brings_the_same(url: str, speech: bytes, offline: list[str]):
    """One thread sends, another iterates."""
    with Stream(url, StreamOptions(interim_results=False)) as stream:

        def send() -> None:
            for offset in range(0, len(speech), 32000):
                stream.send(speech[offset : offset + 32000])
            stream.close_stream()

        sender = threading.Thread(target=send)
        sender.start()
        events: list[object] = list(stream)
        sender.join()
    assert texts(events) == offline


@pytest.mark.parametrize("most_events", [2, 1024])
def test_everything_may_be_sent_first(
    daemon: Daemon, asr_model: AsrModel, speech: bytes, monkeypatch: pytest.MonkeyPatch, most_events: int
):
    """More than the daemon lets wait unheard, and more events than may wait unread: sending keeps the pace of hearing,
    and no final is lost."""
    monkeypatch.setattr("clients.stream._MOST_EVENTS", most_events)
    audio = (speech + bytes(64_000)) * 4
    with daemon(max_unheard_seconds=15.0) as background, Stream(background.url, keep_seconds=3.0) as stream:
        stream.send(audio)
        stream.close_stream()
        events: list[object] = list(stream)
    assert texts(events) == heard_at_once(asr_model, audio)
    last = events[-1]
    assert isinstance(last, Metadata) and last.duration == pytest.approx(len(audio) / 32_000, abs=0.01)


async def test_two_iterators_share_the_events_and_both_end(url: str, speech: bytes, offline: list[str]):
    """Neither waits for what the other got."""
    found: list[object] = []
    async with AsyncStream(url, StreamOptions(interim_results=False)) as stream:

        async def take() -> None:
            async for event in stream:
                found.append(event)

        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(take())
            tasks.create_task(take())
            await stream.send(speech)
            await stream.close_stream()
    assert texts(found) == offline and len([event for event in found if isinstance(event, Metadata)]) == 1


async def test_finalize_is_answered(url: str, speech: bytes):
    """Everything sent so far becomes final, marked from_finalize, and the session goes on."""
    async with AsyncStream(url, StreamOptions(interim_results=False, endpointing=False)) as stream:
        await stream.send(speech[:64000])
        await stream.keep_alive()
        await stream.finalize()
        answer = await anext(event async for event in stream if isinstance(event, Results))
        assert answer.from_finalize and answer.is_final
        await stream.close_stream()
        assert isinstance([event async for event in stream][-1], Metadata)


async def test_nobody_there_may_be_tried_again():
    """No daemon: the error says where, and that another attempt may succeed."""
    with pytest.raises(Refused, match="no daemon answers at 127.0.0.1:9") as caught:
        await AsyncStream("http://127.0.0.1:9", timeout=2).connect()
    assert caught.value.may_retry and caught.value.status is None
    with pytest.raises(Refused, match="no daemon answers"):
        Stream("http://127.0.0.1:9", timeout=2).connect()


async def test_a_wrong_option_is_refused_in_the_daemons_words(url: str):
    """HTTP 400 before the session, naming the parameter; trying again is pointless."""
    with pytest.raises(Refused, match="language") as caught:
        await AsyncStream(url, StreamOptions(language="xx")).connect()
    assert caught.value.status == 400 and not caught.value.may_retry


async def test_the_key_travels_in_the_header(daemon: Daemon):
    """A daemon with a key takes the right one and refuses none and a wrong one, on both protocols."""
    with daemon(api_key=("correct-horse",)) as background:
        for key in (None, "wrong-horse"):
            with pytest.raises(Refused) as caught:
                await AsyncStream(background.url, key=key).connect()
            assert caught.value.status == 401 and not caught.value.may_retry
            with pytest.raises(Refused) as caught:
                await asyncio.to_thread(transcribe, background.url, DATA / "index.jsonl", key=key)
            assert caught.value.status == 401
        async with AsyncStream(background.url, key="correct-horse") as stream:
            await stream.close_stream()
            assert [type(event) for event in [event async for event in stream]] == [Metadata]


async def test_a_broken_limit_is_told_and_final(daemon: Daemon, speech: bytes):
    """Audio beyond the daemon's bound: its Fault names the limit, the close code is 1008, no retry."""
    with daemon(max_unheard_seconds=1.0) as background:
        events: list[object] = []
        with pytest.raises(Lost, match="max_unheard_seconds") as caught:
            async with AsyncStream(background.url) as stream:
                await stream.send(speech)
                async for event in stream:
                    events.append(event)
        assert caught.value.code == 1008 and not caught.value.may_retry
        assert any(isinstance(event, Fault) for event in events)


async def test_sending_after_the_end_says_that_it_is_over(url: str):
    """The session's loss reaches the sender too."""
    async with AsyncStream(url) as stream:
        await stream.close_stream()
        async for _ in stream:
            pass
        with pytest.raises(Lost, match="1000"):
            await stream.send(b"\0\0")


async def test_an_unconnected_stream_says_how_to_connect():
    """No attribute error for a forgotten `async with`."""
    with pytest.raises(ListenError, match="async with"):
        await AsyncStream("http://127.0.0.1:9").send(b"")
    with pytest.raises(ListenError, match="`with`"):
        Stream("http://127.0.0.1:9").send(b"")


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("http://h:1", "ws://h:1/v1/listen?"),
        ("https://h", "wss://h/v1/listen?"),
        ("ws://h:1/", "ws://h:1/v1/listen?"),
        ("h:1", "ws://h:1/v1/listen?"),
        ("http://h:1/v1", "ws://h:1/v1/listen?"),
        ("wss://h/speech/v1/listen", "wss://h/speech/v1/listen?"),
    ],
)
def test_an_address_in_any_usual_form(given: str, address: str):
    """Base URL, /v1 or the whole path; http or ws."""
    assert listen_url(given, StreamOptions()).startswith(address)


@pytest.mark.parametrize("given", ["ftp://h", "http://", "://", ""])
def test_what_is_no_address_is_refused(given: str):
    """One sentence with the expected form."""
    with pytest.raises(Refused, match="expected http://HOST:PORT"):
        listen_url(given, StreamOptions())


def test_options_become_deepgrams_parameters():
    """Every option under its name on the wire; what is None is left to the daemon."""
    options = StreamOptions(
        model="m", language="en", encoding="mulaw", sample_rate=8000, channels=2, interim_results=False,
        endpointing=False, utterance_end_ms=1000, vad_events=True, keyterms=("a b", "ü"),
    )  # fmt: skip
    assert options.query() == (
        "encoding=mulaw&sample_rate=8000&channels=2&interim_results=false&model=m&language=en&endpointing=false"
        "&utterance_end_ms=1000&vad_events=true&keyterm=a+b&keyterm=%C3%BC"
    )
    assert options.bytes_per_second == 16000
    assert StreamOptions(speakers=True).query().endswith("&diarize=true&speaker_merged=true")
    assert StreamOptions().query() == "encoding=linear16&sample_rate=16000&channels=1&interim_results=true"


def test_a_file_through_the_daemon(url: str, clips: list[Clip]):
    """POST /v1/audio/transcriptions: text, duration and words of a recording."""
    clip = next(clip for clip in clips if 2 < clip.seconds < 6)
    answer = transcribe(url, str(DATA / "clips" / clip.name))
    assert answer["duration"] == pytest.approx(clip.seconds, abs=0.02)
    assert " ".join(word["word"] for word in answer["words"]) == answer["text"]


def test_a_file_tells_how_far_it_is(url: str, clips: list[Clip]):
    """By way of a job, which is forgotten at the end."""
    file, seconds = DATA / "clips" / clips[0].name, list[float]()
    assert transcribe(url, file, progress=seconds.append) == transcribe(url, file)
    assert seconds == sorted(seconds) and seconds[-1] > 0
    with pytest.raises(Refused) as error:
        transcribe(url, DATA / "index.jsonl", progress=seconds.append)
    assert error.value.of_file


def test_a_file_tells_what_is_damaged(url: str, clips: list[Clip], tmp_path: Path):
    """And what the daemon means otherwise, by way of a job too; nothing of a sound file."""
    file = tmp_path / "speech.mp3"
    file.write_bytes(damaged(Speech.among(clips)))
    at_once, job = transcribe(url, file, model="whisper-1"), transcribe(url, file, model="whisper-1", progress=print)
    assert at_once == job and at_once.warnings == job.warnings
    assert at_once.warnings[0] == "model: 'whisper-1' is pocket-asr-en here" and "damaged" in at_once.warnings[1]
    assert transcribe(url, DATA / "clips" / clips[0].name).warnings == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_through_the_daemon(url: str, clips: list[Clip], tmp_path: Path):
    """What has no length beforehand is sent all the same."""
    file, pipe = DATA / "clips" / clips[0].name, tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(file.read_bytes()), daemon=True)
    writer.start()
    assert transcribe(url, pipe)["text"] == transcribe(url, file)["text"]
    writer.join()


def test_a_file_that_is_no_audio_is_refused_in_the_daemons_words(url: str):
    """The daemon's reason, not a status alone."""
    with pytest.raises(Refused, match="file: ") as caught:
        transcribe(url, DATA / "index.jsonl")
    assert caught.value.status == 400


def test_options_that_cannot_be_meant_are_refused_by_name(tmp_path: Path) -> None:
    """The letters of one text are no terms, and an encoding that there is not is told before anything is connected."""
    wrong: Any = "Cosette"
    with pytest.raises(ListenError, match="keyterms: a list of texts is wanted, not 'Cosette' alone"):
        StreamOptions(keyterms=wrong)
    with pytest.raises(ListenError, match="keyterms: a list of texts is wanted, not 'Cosette' alone"):
        transcribe("http://127.0.0.1:9", tmp_path / "speech.wav", keyterms=wrong)
    wrong = "mp3"
    with pytest.raises(ListenError, match="encoding: 'mp3' is none of linear16, "):
        StreamOptions(encoding=wrong)
