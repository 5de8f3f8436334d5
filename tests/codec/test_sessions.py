"""Sessions side by side: capacity, closing from another thread, and that everything is given back."""

import threading
import time
from contextlib import closing

import pytest

from codec.events import Finished
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.speaker import Speaker
from engines.lane import Cancelled
from engines.sessions import Busy
from tests.codec.talking import TEXT
from tests.codec.test_loading import GOLDEN


def test_nothing_is_left_behind(tts_model: TtsModel) -> None:
    """Sequences, sessions and threads are given back however a session ends."""
    taken, live, threads = tts_model.engine.taken, tts_model.live, set(threading.enumerate())
    for i in range(12):
        speaker = tts_model.speaker(SpeakOptions(seed=i))
        speaker.say(TEXT)
        for _ in range(i % 3):
            speaker.step()
        if i % 4 == 0:
            speaker.clear()
        speaker.close()
        speaker.close()
        with pytest.raises(Cancelled):
            speaker.step()
        with pytest.raises(Cancelled):
            speaker.say("more")
    assert (tts_model.engine.taken, tts_model.live) == (taken, live)
    assert set(threading.enumerate()) <= threads


def test_closing_from_another_thread_stops_a_running_step(tts_model: TtsModel) -> None:
    """A disconnect cancels the work of that session only, and wakes who waits."""
    outcome: list[str] = []

    def drive(speaker: Speaker) -> None:
        try:
            while True:
                speaker.step(buffered=9.0)
                speaker.wait()
        except Cancelled:
            outcome.append("cancelled")

    for text in (TEXT * 20, ""):
        speaker = tts_model.speaker()
        speaker.say(text)
        thread = threading.Thread(target=drive, args=(speaker,))
        thread.start()
        time.sleep(0.05)
        speaker.close()
        thread.join(60)
        assert not thread.is_alive()
    assert outcome == ["cancelled", "cancelled"]


def test_a_step_that_begins_while_the_session_is_closed_lets_it_close(
    tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the session takes no more when the step looks, and closing goes on when the step has ended."""
    speaker = tts_model.speaker()
    speaker.say(TEXT)
    speaker.step()
    speaker._inbox.close()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(Cancelled):
        next(speaker.steps())
    monkeypatch.setattr(speaker._inbox, "_closed", False)  # pyright: ignore[reportPrivateUsage]
    closing = threading.Thread(target=speaker.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()


def test_a_session_that_comes_while_the_model_is_warmed_finds_room() -> None:
    """Even where there is room for one alone; warming takes a sequence."""
    with closing(TtsModel(GOLDEN, sessions=1, threads=1)) as model:
        model.engine.lane.run(model.engine.acquire())
        with closing(model.speaker()) as speaker:
            speaker.say("one two three.")
            speaker.finish()
            assert isinstance([*speaker.events()][-1], Finished)


def test_one_session_too_many_is_refused(tts_model: TtsModel) -> None:
    """Capacity is what was asked for at load."""
    open_ones = [tts_model.speaker() for _ in range(tts_model.sessions - tts_model.live)]
    with pytest.raises(Busy, match="sessions are taken"):
        tts_model.speaker()
    for speaker in open_ones:
        speaker.close()
    tts_model.speaker().close()
