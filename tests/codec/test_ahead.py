"""Frames that are made ahead, while the codec decodes the group before them."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from codec.decoder import CodecState
from codec.events import Cleared, PieceMark
from codec.guards import Guard
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.talker import TalkerStep
from engines.lane import Steps, alone
from tests.codec.talking import SHORT_TEXT, TEXT, heard, say

Floats = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def tts_model(tts_directory: Path) -> Iterator[TtsModel]:
    """One with two threads, however many processors there are: in a single thread nothing is made ahead."""
    model = TtsModel(tts_directory, sessions=2, threads=2)
    yield model
    model.close()


def test_the_next_frame_is_made_while_the_codec_decodes(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec call that ends only when a frame of the next group was made does end."""
    engine, changed, made, decoded, met = tts_model.engine, threading.Condition(), 0, 0, list[bool]()
    frame, decode = engine.frame, engine.decode

    def told(step: TalkerStep) -> Steps[list[int] | None]:
        nonlocal made
        codes = yield from frame(step)
        with changed:
            made += 1
            changed.notify_all()
        return codes

    def wait() -> None:
        with changed:
            met.append(changed.wait_for(lambda: made > decoded, timeout=10))

    def waits(codes: npt.NDArray[np.int64], state: CodecState) -> Steps[tuple[Floats, CodecState]]:
        nonlocal decoded
        decoded += len(codes)
        yield from alone(wait)
        return (yield from decode(codes, state))

    monkeypatch.setattr(engine, "frame", told)
    monkeypatch.setattr(engine, "decode", waits)
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    speaker.say(TEXT)
    speaker.step()
    speaker.step()
    assert met == [True, True]
    speaker.close()


def test_a_clear_drops_what_was_made_ahead(tts_model: TtsModel) -> None:
    """It is counted, and when the clear is answered nothing of the old text goes on in the lane."""
    expected = heard(say(tts_model, SHORT_TEXT, SpeakOptions(seed=9)))
    speaker = tts_model.speaker(SpeakOptions(seed=9))
    speaker.say(TEXT)
    for _ in range(4):
        speaker.step()
    speaker.clear()
    assert speaker.step() == [Cleared(0)]
    work = speaker.work
    assert work.frames - work.frames_dropped == work.codec_frames
    assert tts_model.engine.lane.waiting == 0
    speaker.say(SHORT_TEXT)
    speaker.finish()
    np.testing.assert_array_equal(heard(list(speaker.events())), expected)
    speaker.close()


def test_no_more_than_one_group_is_made_ahead(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many frames as the group that is decoded has; in a single thread none."""
    engine, made = tts_model.engine, 0
    frame = engine.frame

    def counted(step: TalkerStep) -> Steps[list[int] | None]:
        nonlocal made
        codes = yield from frame(step)
        made += 1
        return codes

    monkeypatch.setattr(engine, "frame", counted)
    for threads, most in ((2, 2), (1, 1)):
        made = 0
        monkeypatch.setattr(type(engine.lane), "threads", property(lambda _, threads=threads: threads))
        speaker = tts_model.speaker(SpeakOptions(seed=5))
        speaker.say(TEXT)
        speaker.step(buffered=0.0)
        ahead = speaker._piece and speaker._piece._ahead  # pyright: ignore[reportPrivateUsage]
        if ahead:
            ahead.future.result(60)
        assert made == most
        speaker.close()


def test_a_closed_session_waits_for_the_frame_that_is_being_made(
    tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only then may another session have its place in the cache."""
    engine, inside, go_on = tts_model.engine, threading.Event(), threading.Event()
    frame = engine._frames  # pyright: ignore[reportPrivateUsage]
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    speaker.say(TEXT)
    speaker.step(buffered=0.0)

    def held(steps: list[TalkerStep]) -> list[list[int] | None]:
        inside.set()
        assert go_on.wait(60)
        return frame(steps)

    monkeypatch.setattr(engine, "_frames", held)
    step = threading.Thread(target=speaker.step, args=(0.0,))
    step.start()
    assert inside.wait(60)
    step.join()
    closing = threading.Thread(target=speaker.close)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive() and engine.taken == 1
    go_on.set()
    closing.join(60)
    assert not closing.is_alive() and engine.taken == 0 and engine.lane.waiting == 0


def test_a_guard_that_hears_the_end_drops_what_was_made_ahead(
    tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was decoded is given out, and the next piece begins with nothing of it in the lane."""
    monkeypatch.setattr(Guard, "audio", lambda *_: "silence")
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    speaker.say(TEXT)
    ended = [event for event in speaker.step() if isinstance(event, PieceMark)]
    work = speaker.work
    assert [mark.reason for mark in ended] == ["silence"]
    assert work.frames_dropped > 0 and work.frames - work.frames_dropped == work.codec_frames
    assert tts_model.engine.lane.waiting == 0
    speaker.close()


def test_a_frame_that_fails_ahead_fails_the_next_step_alone(
    tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group before it is given out, the error comes once, and what follows is spoken, after a clear as ever."""
    expected = heard(say(tts_model, SHORT_TEXT, SpeakOptions(seed=9)))
    engine, made = tts_model.engine, 0
    frame = engine.frame

    def fails(step: TalkerStep) -> Steps[list[int] | None]:
        nonlocal made
        made += 1
        if made == 2:
            raise RuntimeError("out of memory")
        return (yield from frame(step))

    monkeypatch.setattr(engine, "frame", fails)
    speaker = tts_model.speaker(SpeakOptions(seed=9))
    speaker.say(TEXT)
    assert len(heard(speaker.step(buffered=0.0)))
    with pytest.raises(RuntimeError, match="out of memory"):
        speaker.step()
    assert tts_model.engine.lane.waiting == 0
    assert len(heard(speaker.step(buffered=0.0)))
    speaker.clear()
    speaker.say(SHORT_TEXT)
    speaker.finish()
    np.testing.assert_array_equal(heard(list(speaker.events())), expected)
    speaker.close()
