"""Who has how much to play, and who goes first."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from audio import encoder
from codec.arrival import IDLE_SECONDS, Arrival
from codec.model import TtsModel
from codec.options import Hold, SpeakOptions
from daemon.metrics import Metrics
from daemon.speaking import PLENTY_SECONDS, STARVING_SECONDS, Playback, PlaybackClock, Sound, SpeechStream
from daemon.workers import SessionWorker
from tests.daemon.support import LONG


class Clock:
    """A clock that stands until it is told otherwise."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Watched(PlaybackClock):
    """Tells when somebody was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = asyncio.Event()

    def comes_before(self, playback: Playback) -> bool:
        """As the daemon's."""
        first = super().comes_before(playback)
        if first:
            self.waits.set()
        return first


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


def test_who_has_plenty_waits_for_who_has_nothing_and_for_nobody_else() -> None:
    clock = Clock()
    rich, poor, playing = Playback(clock), Playback(clock), PlaybackClock()
    playing.join(rich)
    playing.join(poor)
    rich.sent(PLENTY_SECONDS + 1)
    assert not playing.comes_before(rich), "for the other nothing is being made"
    poor.making = rich.making = True
    assert playing.comes_before(rich)
    assert not playing.comes_before(poor)
    poor.sent(STARVING_SECONDS)
    assert not playing.comes_before(rich)
    clock.now += 0.1
    assert playing.comes_before(rich)
    rich.clear()
    assert not playing.comes_before(rich)
    rich.sent(PLENTY_SECONDS + 1)
    del poor
    assert not playing.comes_before(rich), "who is gone is forgotten"


@pytest.fixture
def poor() -> Callable[[PlaybackClock], Playback]:
    """Makes somebody who starves."""

    def join(playing: PlaybackClock) -> Playback:
        playback = Playback()
        playback.making = True
        playing.join(playback)
        return playback

    return join


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.anyio
async def test_a_voice_waits_while_another_starves(
    tts_model: TtsModel, poor: Callable[[PlaybackClock], Playback], clear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops a little beyond plenty, and goes on when the other has enough, or at once to answer a clear."""
    monkeypatch.setattr("daemon.speaking.Playback", partial(Playback, Clock()))  # the client plays nothing meanwhile
    playing = Watched()
    starving = poor(playing)
    with ThreadPoolExecutor(2) as pool:
        worker = SessionWorker(pool, tts_model.speaker(SpeakOptions(seed=1)))
        wire = encoder.raw("linear16", tts_model.sample_rate)
        speech = SpeechStream(worker, wire, Metrics(), "/v1/speak", playing)
        speech.say(LONG)
        speech.finish()
        given: list[Sound] = []

        async def consume() -> None:
            async for batch in speech.batches():
                given.extend(item for item in batch if isinstance(item, Sound))

        consuming = asyncio.create_task(consume())
        await asyncio.wait_for(playing.waits.wait(), 120)
        held = speech.seconds
        await asyncio.sleep(0.2)
        assert PLENTY_SECONDS < speech.seconds == held < PLENTY_SECONDS + 2
        if clear:
            speech.clear()
        else:
            starving.making = False
        await asyncio.wait_for(consuming, 120)
        assert (speech.seconds > held + 2) != clear
        assert sum(sound.seconds for sound in given) == pytest.approx(speech.seconds)
        await worker.close()
        wire.close()


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
        speech = SpeechStream(worker, wire, Metrics(), "/v1/speak", PlaybackClock())
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
