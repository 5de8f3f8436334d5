"""Who has how much to play, and who goes first."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest

from audio import encoder
from codec.arrival import IDLE_SECONDS, Arrival
from codec.events import Finished
from codec.model import TtsModel
from codec.options import Hold, SpeakOptions
from codec.speaker import Speaker
from daemon.metrics import Metrics
from daemon.speaking import Playback, Sound, SpeechStream
from daemon.workers import SessionWorker
from engines.lane import Lane
from tests.lanes import held, until_waiting


class Clock:
    """A clock that stands until it is told otherwise."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_playback_counts_what_is_left_to_play() -> None:
    clock = Clock()
    playback = Playback(clock)
    assert playback.buffered == 0
    playback.sent(1.0)
    clock.now += 0.25
    assert playback.buffered == 0.75
    playback.sent(1.0)
    assert playback.buffered == 1.75
    clock.now += 10
    assert playback.buffered == 0, "a client that had nothing to play waits"
    playback.sent(1.0)
    assert playback.buffered == 1.0
    playback.clear()
    assert playback.buffered == 0


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.anyio
async def test_who_has_plenty_to_play_waits_for_who_has_nothing(
    tts_model: TtsModel, clear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has plenty is due when that is played, also where it came first; but a clear is due at once."""
    lane, first = Lane("hearsay-test"), list[str]()

    async def consume(name: str, speech: SpeechStream) -> None:
        async for batch in speech.batches():
            first.append(name)
            if isinstance(batch[-1], Finished):
                return

    with ThreadPoolExecutor(2) as pool, closing(lane), closing(encoder.raw("linear16", 24_000)) as wire:
        workers, consuming = list[SessionWorker[Speaker]](), list[asyncio.Task[None]]()
        with held(lane):
            for number, (name, plenty) in enumerate({"rich": 60.0, "poor": 0.0}.items(), 1):
                worker = SessionWorker(pool, tts_model.speaker(SpeakOptions(seed=1)))
                worker.session.lane = lane
                workers.append(worker)
                playback = Playback()
                playback.sent(plenty)
                monkeypatch.setattr("daemon.speaking.Playback", lambda playback=playback: playback)
                speech = SpeechStream(worker, wire, Metrics(), "/v1/speak")
                speech.say("Good morning.")
                speech.finish()
                consuming.append(asyncio.create_task(consume(name, speech)))
                await asyncio.to_thread(until_waiting, lane, number)
                if clear and name == "rich":
                    speech.clear()
        await asyncio.wait_for(asyncio.gather(*consuming), 120)
        assert first[0] == ("rich" if clear else "poor")
        for worker in workers:
            await worker.close()


@pytest.mark.parametrize(("hold", "waits"), [("auto", True), ("phrase", True), ("word", False)])
@pytest.mark.anyio
async def test_text_that_comes_slowly_is_held_by_the_phrase(
    tts_model: TtsModel, hold: Hold, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sound comes with the end of the sentence, and not with its first word; where the text stops, what is there is
    spoken soon."""
    clock = Clock()
    monkeypatch.setattr("daemon.speaking.Arrival", partial(Arrival, clock))
    with ThreadPoolExecutor(2) as pool:
        worker = SessionWorker(pool, tts_model.speaker(SpeakOptions(seed=1, hold=hold)))
        wire = encoder.raw("linear16", tts_model.sample_rate)
        speech = SpeechStream(worker, wire, Metrics(), "/v1/speak")
        spoke = asyncio.Event()

        async def consume() -> None:
            async for batch in speech.batches():
                if any(isinstance(item, Sound) and item.seconds for item in batch):
                    spoke.set()

        consuming = asyncio.create_task(consume())
        for word in "Good morning to you ".split():
            speech.say(f"{word} ")
            clock.now += 0.2
            await asyncio.sleep(0.2)
        if waits:
            assert not spoke.is_set()
        if hold == "auto":
            clock.now += IDLE_SECONDS
        if hold != "phrase":
            await asyncio.wait_for(spoke.wait(), 60)
        speech.say("all.")
        speech.finish()
        await asyncio.wait_for(consuming, 60)
        assert speech.seconds > 0.5
        await worker.close()
        wire.close()
