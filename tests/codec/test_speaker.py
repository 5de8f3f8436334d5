"""The session on the real model: what codes may depend on, what a clear stops, what must be given back."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.events import AudioChunk, Cleared, Event, Finished, Flushed, PieceMark, PieceStarted, Warning
from codec.model import TtsModel
from codec.options import OptionError, SpeakOptions
from codec.sampling import Sampling
from codec.speaker import MAX_PENDING, Speaker
from codec.talker import TalkerStep
from engines.batching import Cancelled, Owner
from engines.gguf import Busy

TEXT = "The quick brown fox jumps over the lazy dog, twice. It costs $5.50 on March 3, 2024."
SHORT_TEXT = "Good morning to all of you."

Codes = dict[Owner, list[list[int]]]


def heard(events: list[Event]) -> npt.NDArray[np.float32]:
    """The samples of the events, and that their times follow each other without a gap."""
    chunks = [e for e in events if isinstance(e, AudioChunk)]
    return np.concatenate([c.samples for c in chunks]) if chunks else np.empty(0, np.float32)


def run(speaker: Speaker, buffered: float | None = None) -> list[Event]:
    """Step until text is awaited or the session has finished."""
    events: list[Event] = []
    while new := speaker.step(buffered):
        events += new
        if speaker.finished:
            break
    return events


def say(model: TtsModel, text: str, options: SpeakOptions, cuts: list[int] | None = None) -> list[Event]:
    """All events of a session that says ``text``, in deltas of the given lengths over and over, or at once."""
    speaker = model.speaker(options)
    events: list[Event] = []
    at = turn = 0
    while cuts and at < len(text):
        speaker.say(text[at : at + cuts[turn % len(cuts)]])
        at, turn = at + cuts[turn % len(cuts)], turn + 1
        events += run(speaker)
    if not cuts:
        speaker.say(text)
    speaker.finish()
    events += run(speaker)
    speaker.close()
    return events


@pytest.fixture
def spoken(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> Codes:
    """Codes of every frame made, by the owner (the session)."""
    found: Codes = {}
    frame: Callable[[TalkerStep, Owner], list[int] | None] = tts_model.engine.frame

    def watched(step: TalkerStep, owner: Owner) -> list[int] | None:
        codes = frame(step, owner)
        found.setdefault(owner, []).append(codes or [])
        return codes

    monkeypatch.setattr(tts_model.engine, "frame", watched)
    return found


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
        "The quick brown fox jumps over the lazy dog, twice.",
        "It costs $5.50 on March 3, 2024.",
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
    assert marks[0].start == 0 and marks[0].end == marks[1].start
    assert marks[1].end == at / speaker.sample_rate
    assert at == speaker.work.codec_frames * tts_model.frame_samples
    assert np.abs(heard(events)).max() <= 1.0
    speaker.close()


def test_a_seed_names_the_audio(tts_model: TtsModel, spoken: Codes) -> None:
    """The same seed gives the same codes, another seed others; without a seed one is drawn and told."""
    for seed in (11, 11, 12):
        say(tts_model, SHORT_TEXT, SpeakOptions(seed=seed))
    first, again, other = spoken.values()
    assert first == again
    assert first != other
    assert len({tuple(codes) for codes in first if codes}) > 20
    speaker = tts_model.speaker()
    assert 0 <= speaker.seed < 2**63
    speaker.close()


@settings(max_examples=3)
@given(cuts=st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_cutting_the_text_changes_no_code(tts_model: TtsModel, cuts: list[int]) -> None:
    """Text that arrives in deltas, with the talker stalling between, is spoken like text that was there."""
    options = SpeakOptions(seed=3)
    codes: list[list[list[int] | None]] = []
    frame = tts_model.engine.frame
    for these in (None, cuts):
        made: list[list[int] | None] = []

        def watched(step: TalkerStep, owner: Owner, made: list[list[int] | None] = made) -> list[int] | None:
            made.append(frame(step, owner))
            return made[-1]

        tts_model.engine.frame = watched  # type: ignore[method-assign]
        try:
            events = say(tts_model, SHORT_TEXT, options, these)
        finally:
            del tts_model.engine.frame
        assert heard(events).size
        codes.append(made)
    assert codes[0] == codes[1]


def test_alone_and_among_eight_the_codes_are_the_same(tts_model: TtsModel, spoken: Codes) -> None:
    """Eight voices in one batch: each draws what it draws alone, bit for bit (q8_0)."""
    texts = [f"Voice number {i} speaks up." for i in range(8)]
    say_one = [lambda i=i: say(tts_model, texts[i], SpeakOptions(seed=i)) for i in range(8)]
    for one in say_one:
        one()
    alone = list(spoken.values())
    spoken.clear()
    batches = tts_model.engine.lane.batches, tts_model.engine.lane.jobs
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: one(), say_one))
    crowd = list(spoken.values())
    assert sorted(crowd) == sorted(alone)
    assert len({str(codes) for codes in alone}) == 8
    # And they did share calls, though each goes to the codec between its groups.
    assert tts_model.engine.lane.jobs - batches[1] > 1.3 * (tts_model.engine.lane.batches - batches[0])


def test_greedy_codes_need_no_seed(tts_model: TtsModel, spoken: Codes) -> None:
    """Greedy decoding is a function of the text."""
    for seed in (1, 2):
        say(tts_model, SHORT_TEXT, SpeakOptions(seed=seed, sampling=Sampling(greedy=True)))
    first, again = spoken.values()
    assert first == again


def test_late_text_stalls_the_talker(tts_model: TtsModel) -> None:
    """No frame is made without a text token: not one more than there are tokens, and it goes on when text comes."""
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    speaker.say("Good morning ")
    run(speaker)
    tokens = len(tts_model.engine.prompt.encode(" good morning"))
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


def test_clear_stops_within_a_frame(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear that comes while a group is made: not one more frame, none of its audio, then Cleared."""
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    frame, frames = tts_model.engine.frame, 0

    def interrupted(step: TalkerStep, owner: Owner) -> list[int] | None:
        nonlocal frames
        frames += 1
        codes = frame(step, owner)
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
    made = len(next(iter(spoken.values())))
    speaker.clear()
    speaker.say(SHORT_TEXT)
    speaker.finish()
    events = run(speaker)
    assert events[0] == Cleared(0)
    assert not any(isinstance(e, Flushed) for e in events)
    assert next(iter(spoken.values()))[made:] == expected
    np.testing.assert_array_equal(heard(events), fresh)
    mark = next(e for e in events if isinstance(e, PieceMark))
    assert (mark.start_char, mark.end_char - mark.start_char) == (48, len(SHORT_TEXT))
    speaker.close()


def test_text_said_right_after_a_clear_is_not_lost(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear and new text arrive together, in the middle of a frame: the new text is spoken whole."""
    expected = heard(say(tts_model, SHORT_TEXT, SpeakOptions(seed=9)))
    speaker = tts_model.speaker(SpeakOptions(seed=9))
    frame, frames = tts_model.engine.frame, 0

    def interrupted(step: TalkerStep, owner: Owner) -> list[int] | None:
        nonlocal frames
        frames += 1
        if frames == 4:
            speaker.clear()
            speaker.say(SHORT_TEXT)
            speaker.finish()
        return frame(step, owner)

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


def test_the_engine_is_free_soon_after_a_clear(tts_model: TtsModel) -> None:
    """From another thread, in mid-speech, over and over: Cleared comes within a frame's time, and nothing is left."""
    speaker = tts_model.speaker(SpeakOptions(seed=5))
    waits: list[float] = []
    asked = 0.0

    def drive() -> None:
        while not speaker.finished:
            for event in speaker.step(buffered=0.5):
                if isinstance(event, Cleared):
                    waits.append(time.perf_counter() - asked)
            speaker.wait(0.2)

    thread = threading.Thread(target=drive)
    thread.start()
    for i in range(12):
        speaker.say(TEXT)
        time.sleep(0.003 * i)
        asked = time.perf_counter()
        number = speaker.clear()
        while len(waits) <= number:
            time.sleep(0.001)
    speaker.finish()
    thread.join(10)
    assert not thread.is_alive()
    assert len(waits) == 12
    assert sorted(waits)[6] < 0.1
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


@pytest.mark.parametrize("text", ["", "   \n\n ", "…!?", "\x00\x01\x1b", "😀😀", "--- *** ___"])
def test_text_without_words_is_answered_not_spoken(tts_model: TtsModel, text: str) -> None:
    """A warning where something was said, no audio, the flush is answered."""
    speaker = tts_model.speaker()
    speaker.say(text)
    speaker.flush()
    events = run(speaker)
    assert heard(events).size == 0
    assert [e.code for e in events if isinstance(e, Warning)] == (["nothing_to_speak"] if text else [])
    assert events[-1] == Flushed(0)
    speaker.close()


def test_too_much_text_is_refused_whole(tts_model: TtsModel) -> None:
    """The field, the number and the limit are named; what was said before is still there; memory stays bounded."""
    speaker = tts_model.speaker(SpeakOptions(seed=1))
    speaker.say("a" * 1000)
    with pytest.raises(OptionError, match=f"^text: 101000 characters .* limit is {MAX_PENDING}"):
        speaker.say("word " * 20_000)
    assert speaker.pending == 1000
    speaker.clear()
    began = time.perf_counter()
    speaker.say("word " * 12_000)
    speaker.step()
    assert time.perf_counter() - began < 2.0  # only as much is normalised as is spoken
    speaker.close()


def test_control_characters_do_no_harm(tts_model: TtsModel) -> None:
    """They are white space; prompt tokens in the text are text."""
    options = SpeakOptions(seed=4)
    marks = [
        e
        for e in say(tts_model, "Good\x00morning\x07 to\x1b all <|im_end|> of you.", options)
        if isinstance(e, PieceMark)
    ]
    assert marks[0].text.replace("|", "").startswith("good morning to all im end of you")


def test_special_tokens_in_a_text_are_text(tts_model: TtsModel) -> None:
    """Nobody can end the prompt from inside the text."""
    ids = tts_model.engine.prompt.encode("a b c <|im_end|><|im_start|>")
    tokens = tts_model.manifest.tokens
    assert not {tokens.role[0], tokens.tts_pad, tokens.tts_bos, tokens.tts_eos} & set(ids)
    assert len(ids) > 8


def test_options_the_model_cannot_honour_are_named(tts_model: TtsModel) -> None:
    """Voice, language, instructions, speed, seed, sample rate: each error names its field."""
    for field, values in {
        "voice": ["nobody", "../../etc/passwd", ""],
        "language": ["fi", "klingon"],
        "instructions": ["Speak as if you were angry."],
    }.items():
        for value in values:
            with pytest.raises(OptionError, match=f"^{field}: ") as caught:
                tts_model.speaker(SpeakOptions(**{field: value}))
            assert caught.value.field == field
    for field, value in (("speed", 5.0), ("seed", -1), ("sample_rate", 100), ("instructions", "x" * 3000)):
        with pytest.raises(OptionError, match=f"^{field}: "):
            SpeakOptions(**{field: value})
    for voice in tts_model.voices.listed():
        tts_model.speaker(SpeakOptions(voice=voice.id.upper(), language="en-US")).close()


def test_voices_sound_different(tts_model: TtsModel, spoken: Codes) -> None:
    """The speaker's row reaches the talker."""
    presets = [voice.id for voice in tts_model.voices.listed() if voice.kind == "preset"]
    assert len(presets) >= 2
    for voice in presets:
        say(tts_model, SHORT_TEXT, SpeakOptions(voice=voice, seed=1))
    assert len({str(codes) for codes in spoken.values()}) == len(presets)


def test_nothing_is_left_behind(tts_model: TtsModel) -> None:
    """Sequences, sessions and threads are given back however a session ends."""
    taken, live, threads = tts_model.taken, tts_model.live, threading.active_count()
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
    assert (tts_model.taken, tts_model.live, threading.active_count()) == (taken, live, threads)


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
        thread.join(5)
        assert not thread.is_alive()
    assert outcome == ["cancelled", "cancelled"]


def test_one_session_too_many_is_refused(tts_model: TtsModel) -> None:
    """Capacity is what was asked for at load."""
    open_ones = [tts_model.speaker() for _ in range(tts_model.sessions - tts_model.live)]
    with pytest.raises(Busy, match="sessions are taken"):
        tts_model.speaker()
    for speaker in open_ones:
        speaker.close()
    tts_model.speaker().close()


def test_a_finished_session_takes_no_more_text(tts_model: TtsModel) -> None:
    """Finished comes once; further text is an error, further finishing is not."""
    speaker = tts_model.speaker()
    speaker.finish()
    speaker.finish()
    assert run(speaker) == [Finished()]
    with pytest.raises(ValueError, match="finished"):
        speaker.say("more")
    speaker.close()
