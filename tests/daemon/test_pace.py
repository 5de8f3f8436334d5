"""Who has how much to play, and who goes first."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from codec.model import TtsModel
from codec.options import SpeakOptions
from daemon import encoder
from daemon.calls import Speaking
from daemon.metrics import Metrics
from daemon.narration import Narration, Sound
from daemon.pace import PLENTY_SECONDS, STARVING_SECONDS, Crowd, Pace
from tests.daemon.support import LONG


class Clock:
    """A clock that stands until it is told otherwise."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Watched(Crowd):
    """Tells when somebody was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = asyncio.Event()

    def comes_before(self, pace: Pace) -> bool:
        """As the daemon's."""
        first = super().comes_before(pace)
        if first:
            self.waits.set()
        return first


def test_pace_counts_what_is_left_to_play() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.buffered == 0
    pace.sent(1.0)
    clock.now += 0.25
    assert pace.buffered == 0.75
    pace.sent(1.0)
    assert pace.buffered == 1.75
    clock.now += 10
    assert pace.buffered == 0, "a client that had nothing to play waits"
    pace.sent(1.0)
    assert pace.buffered == 1.0
    pace.clear()
    assert pace.buffered == 0


def test_who_has_plenty_waits_for_who_has_nothing_and_for_nobody_else() -> None:
    clock = Clock()
    rich, poor, crowd = Pace(clock), Pace(clock), Crowd()
    crowd.join(rich)
    crowd.join(poor)
    rich.sent(PLENTY_SECONDS + 1)
    assert not crowd.comes_before(rich), "for the other nothing is being made"
    poor.making = rich.making = True
    assert crowd.comes_before(rich)
    assert not crowd.comes_before(poor)
    poor.sent(STARVING_SECONDS)
    assert not crowd.comes_before(rich)
    clock.now += 0.1
    assert crowd.comes_before(rich)
    rich.clear()
    assert not crowd.comes_before(rich)
    rich.sent(PLENTY_SECONDS + 1)
    del poor
    assert not crowd.comes_before(rich), "who is gone is forgotten"


@pytest.fixture
def poor() -> Callable[[Crowd], Pace]:
    """Makes somebody who starves."""

    def join(crowd: Crowd) -> Pace:
        pace = Pace()
        pace.making = True
        crowd.join(pace)
        return pace

    return join


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.anyio
async def test_a_voice_waits_while_another_starves(
    tts_model: TtsModel, poor: Callable[[Crowd], Pace], clear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops a little beyond plenty, and goes on when the other has enough, or at once to answer a clear."""
    monkeypatch.setattr("daemon.narration.Pace", partial(Pace, Clock()))  # the client plays nothing meanwhile
    crowd = Watched()
    starving = poor(crowd)
    with ThreadPoolExecutor(2) as pool:
        speaking = Speaking(pool, tts_model.speaker(SpeakOptions(seed=1)))
        wire = encoder.raw("linear16", tts_model.sample_rate)
        narration = Narration(speaking, wire, Metrics(), "/v1/speak", crowd)
        narration.say(LONG)
        narration.finish()
        given: list[Sound] = []

        async def consume() -> None:
            async for batch in narration.batches():
                given.extend(item for item in batch if isinstance(item, Sound))

        consuming = asyncio.create_task(consume())
        await asyncio.wait_for(crowd.waits.wait(), 120)
        held = narration.seconds
        await asyncio.sleep(0.2)
        assert PLENTY_SECONDS < narration.seconds == held < PLENTY_SECONDS + 2
        if clear:
            narration.clear()
        else:
            starving.making = False
        await asyncio.wait_for(consuming, 120)
        assert (narration.seconds > held + 2) != clear
        assert sum(sound.seconds for sound in given) == pytest.approx(narration.seconds)
        await speaking.close()
        wire.close()
