"""A text through a session: pieces, marks, audio in order; text that is late; how a session ends."""

import numpy as np
import pytest

from codec.events import AudioChunk, Finished, Flushed, PieceMark, PieceStarted
from codec.model import TtsModel
from codec.options import SpeakOptions
from tests.codec.talking import SHORT_TEXT, TEXT, Codes, heard, run, say


def test_a_text_is_spoken_from_start_to_finish(tts_model: TtsModel) -> None:
    """Pieces in order, marked with text and places; audio without a gap; Flushed after its audio; Finished last."""
    speaker = tts_model.speaker(SpeakOptions(seed=1))
    speaker.say(TEXT)
    assert speaker.flush() == 0
    speaker.finish()
    events = run(speaker)
    marks = [e for e in events if isinstance(e, PieceMark)]
    assert [m.index for m in marks] == list(range(len(marks)))
    assert [TEXT[m.start_char : m.end_char] for m in marks] == [
        "The quick brown fox jumps over the lazy dog,",  # a clause of more than 40 characters
        "twice. It costs $5.50 on March 3, 2024.",
    ]
    assert "five dollars and fifty cents" in marks[1].text
    assert isinstance(events[-1], Finished)
    assert isinstance(events[-2], Flushed) and events[-2].sequence == 0
    at = 0
    for event in events:
        if isinstance(event, AudioChunk):
            assert event.samples.dtype == np.float32
            assert event.at == at / speaker.sample_rate
            at += len(event.samples)
    assert marks[0].start == 0 and marks[0].end <= marks[1].start
    assert marks[1].end == at / speaker.sample_rate
    pause = round((marks[1].start - marks[0].end) * speaker.sample_rate)
    assert at == speaker.work.codec_frames * tts_model.frame_samples + pause
    assert np.abs(heard(events)).max() <= 1.0
    speaker.close()


def test_late_text_stalls_the_talker(tts_model: TtsModel) -> None:
    """No frame is made without a text token: not one more than there are tokens, and it goes on when text comes."""
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    speaker.say("Good morning ")
    run(speaker)
    speller = tts_model._speller(None)  # pyright: ignore[reportPrivateUsage]
    assert speller is not None
    tokens = len(tts_model.engine.prompt.encode(speller.spell(" Good morning", marked=False)))
    assert speaker.work.frames == speaker.work.text_tokens == tokens
    assert speaker.work.stalls > 0
    assert speaker.step() == []
    assert not speaker.wait(0.01)
    speaker.say("to all of y")
    assert speaker.wait(0)
    run(speaker)
    assert speaker.work.frames == speaker.work.text_tokens > tokens
    assert speaker.work.pieces == 1
    speaker.close()


def test_audio_begins_before_the_sentence_ends(tts_model: TtsModel) -> None:
    """The first complete word is enough."""
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    assert speaker.step() == []
    speaker.say("Hel")
    assert speaker.step() == []
    speaker.say("lo ")
    events = speaker.step()
    assert isinstance(events[0], PieceStarted)
    assert len(heard(events)) == tts_model.frame_samples  # the codec starts with one frame
    speaker.close()


@pytest.mark.parametrize(("speed", "rate"), [(2.0, 24_000), (0.5, 24_000), (1.0, 8_000), (1.5, 48_000)])
def test_speed_and_sample_rate_change_the_audio_not_the_codes(
    tts_model: TtsModel, spoken: Codes, speed: float, rate: int
) -> None:
    """Length follows both; so do the times of the marks."""
    plain = heard(say(tts_model, SHORT_TEXT, SpeakOptions(seed=2)))
    events = say(tts_model, SHORT_TEXT, SpeakOptions(seed=2, speed=speed, sample_rate=rate))
    first, second = spoken.values()
    assert first == second
    assert len(heard(events)) == pytest.approx(len(plain) / speed * rate / 24_000, abs=4)
    mark = next(e for e in events if isinstance(e, PieceMark))
    assert mark.end == pytest.approx(len(plain) / 24_000 / speed, abs=0.002)


@pytest.mark.parametrize(("speed", "rate"), [(2.0, 8_000), (2.0, 22_050), (4.0, 48_000)])
def test_a_frame_that_brings_no_sample_yet_is_not_the_last(tts_model: TtsModel, speed: float, rate: int) -> None:
    """Who has nothing to play gets frame by frame; of some the resampler gives nothing yet, and the next is due."""
    options = SpeakOptions(seed=2, speed=speed, sample_rate=rate)
    speaker = tts_model.speaker(options)
    speaker.say(SHORT_TEXT)
    speaker.finish()
    events = run(speaker, buffered=0.0)
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, AudioChunk) for event in events) < speaker.work.frames
    assert len(heard(events)) == len(heard(say(tts_model, SHORT_TEXT, options)))
    speaker.close()


def test_a_finished_session_takes_no_more_text(tts_model: TtsModel) -> None:
    """Finished comes once; further text is an error, further finishing is not."""
    speaker = tts_model.speaker()
    speaker.finish()
    speaker.finish()
    assert run(speaker) == [Finished()]
    speaker.finish()
    assert speaker.step() == []
    with pytest.raises(ValueError, match="finished"):
        speaker.say("more")
    speaker.close()
