"""What a clear stops, how soon, and that nothing of the old text is in the new one."""

import threading
import time

import numpy as np
import numpy.typing as npt
import pytest

from codec.decoder import CodecState
from codec.events import Cleared, Finished, Flushed, PieceMark
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.talker import TalkerStep
from engines.lane import Steps
from tests.codec.talking import SHORT_TEXT, TEXT, Codes, heard, run, say

Floats = npt.NDArray[np.float32]


def test_clear_stops_within_a_frame(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear that comes while a group is made: not one more frame, none of its audio, then Cleared."""
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    frame, frames = tts_model.engine.frame, 0

    def interrupted(step: TalkerStep) -> Steps[list[int] | None]:
        nonlocal frames
        frames += 1
        codes = yield from frame(step)
        if frames == 5:
            assert speaker.clear() == 0
        return codes

    monkeypatch.setattr(tts_model.engine, "frame", interrupted)
    speaker.say(TEXT)
    assert len(heard(speaker.step(buffered=9.0))) > 0
    events = speaker.step(buffered=9.0)
    assert events == [Cleared(0)]
    assert frames == 5
    assert speaker.work.frames_dropped == 4
    assert speaker.step() == []
    assert speaker.pending == 0
    speaker.close()


def test_a_clear_in_a_group_s_last_frame_begins_no_codec_call(
    tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames of the group are not wanted any more, so they are not decoded either."""
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    frame, decode, decoded = tts_model.engine.frame, tts_model.engine.decode, 0

    def interrupted(step: TalkerStep) -> Steps[list[int] | None]:
        codes = yield from frame(step)
        speaker.clear()
        return codes

    def counted(codes: npt.NDArray[np.int64], state: CodecState) -> Steps[tuple[Floats, CodecState]]:
        nonlocal decoded
        decoded += 1
        return (yield from decode(codes, state))

    monkeypatch.setattr(tts_model.engine, "frame", interrupted)
    monkeypatch.setattr(tts_model.engine, "decode", counted)
    speaker.say(TEXT)
    assert speaker.step(buffered=0.0) == [Cleared(0)]
    assert decoded == 0
    speaker.close()


def test_after_a_clear_the_next_text_is_spoken_as_if_first(tts_model: TtsModel, spoken: Codes) -> None:
    """Nothing of the old text is in the new one: the same codes and samples as in a fresh session."""
    fresh = heard(say(tts_model, SHORT_TEXT, SpeakOptions(seed=9)))
    expected = next(iter(spoken.values()))
    spoken.clear()
    speaker = tts_model.speaker(SpeakOptions(seed=9))
    speaker.say("Something else that will never be said to its en")
    speaker.step()
    speaker.step()
    speaker.flush()
    speaker.clear()
    speaker.say(SHORT_TEXT)
    speaker.finish()
    events = run(speaker)
    assert events[0] == Cleared(0)
    assert not any(isinstance(e, Flushed) for e in events)
    assert list(spoken.values())[-1] == expected
    np.testing.assert_array_equal(heard(events), fresh)
    mark = next(e for e in events if isinstance(e, PieceMark))
    assert (mark.start_char, mark.end_char - mark.start_char) == (48, len(SHORT_TEXT))
    speaker.close()


def test_text_said_right_after_a_clear_is_not_lost(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear and new text arrive together, in the middle of a frame: the new text is spoken whole."""
    expected = heard(say(tts_model, SHORT_TEXT, SpeakOptions(seed=9)))
    speaker = tts_model.speaker(SpeakOptions(seed=9))
    frame, frames = tts_model.engine.frame, 0

    def interrupted(step: TalkerStep) -> Steps[list[int] | None]:
        nonlocal frames
        frames += 1
        if frames == 4:
            speaker.clear()
            speaker.say(SHORT_TEXT)
            speaker.finish()
        return (yield from frame(step))

    monkeypatch.setattr(tts_model.engine, "frame", interrupted)
    speaker.say(TEXT)
    events = run(speaker)
    after = events[events.index(Cleared(0)) :]
    np.testing.assert_array_equal(heard(after), expected)
    speaker.close()


def test_a_clear_after_finish_ends_the_session(tts_model: TtsModel) -> None:
    """The rest is not spoken; Cleared and Finished still come, once each."""
    speaker = tts_model.speaker(SpeakOptions(seed=9))
    speaker.say(TEXT)
    speaker.finish()
    assert heard(speaker.step()).size
    speaker.clear()
    assert run(speaker) == [Cleared(0), Finished()]
    speaker.clear()
    assert speaker.step() == [Cleared(1)]
    assert speaker.step() == []
    speaker.close()


def test_the_engine_is_free_soon_after_a_clear(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another thread, in mid-speech, over and over: at most one frame or codec call begins before Cleared."""
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    engine, calls = tts_model.engine, 0
    frame, decode = engine.frame, engine.decode

    def counted_frame(step: TalkerStep) -> Steps[list[int] | None]:
        nonlocal calls
        calls += 1
        return (yield from frame(step))

    def counted_decode(codes: npt.NDArray[np.int64], state: CodecState) -> Steps[tuple[Floats, CodecState]]:
        nonlocal calls
        calls += 1
        return (yield from decode(codes, state))

    monkeypatch.setattr(engine, "frame", counted_frame)
    monkeypatch.setattr(engine, "decode", counted_decode)
    answered = threading.Semaphore(0)
    begun: list[int] = []
    """Calls when each ``Cleared`` came."""

    def drive() -> None:
        while not speaker.finished:
            for event in speaker.step(buffered=0.5):
                if isinstance(event, Cleared):
                    begun.append(calls)
                    answered.release()
            speaker.wait(0.2)

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        for i in range(12):
            before = calls
            speaker.say(TEXT)
            while calls < before + 2 * i:
                time.sleep(0.001)
            speaker.clear()
            at_clear = calls
            assert answered.acquire(timeout=60)
            assert begun[-1] - at_clear <= 1
    finally:
        speaker.finish()
        thread.join(60)
        speaker.close()
    assert not thread.is_alive()
    assert len(begun) == 12
