"""What codes depend on, and what not: seed, voice and text; neither how the text arrived nor who else speaks."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.sampling import Sampling
from codec.talker import TalkerStep
from engines.lane import Owner
from tests.codec.talking import SHORT_TEXT, TEXT, Codes, heard, say
from tests.lanes import held, until_waiting


def test_a_seed_names_the_audio(tts_model: TtsModel, spoken: Codes) -> None:
    """The same seed gives the same codes, another seed others, where there is something to draw; without a seed one is
    drawn and told."""
    for seed in (11, 11, 12):
        say(tts_model, TEXT, SpeakOptions(seed=seed, sampling=Sampling(temperature=1.0)))
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


def test_alone_and_among_eight_the_codes_are_the_same(
    tts_model: TtsModel, spoken: Codes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight voices in one batch: each draws what it draws alone, bit for bit (q8_0)."""
    texts = [f"Voice number {i} speaks up." for i in range(8)]
    say_one = [lambda i=i: say(tts_model, texts[i], SpeakOptions(seed=i)) for i in range(8)]
    for one in say_one:
        one()
    alone = list(spoken.values())
    spoken.clear()
    engine = tts_model.engine
    lane, frame, met = engine.lane, engine.frame, threading.Barrier(8)
    before = lane.batches, lane.jobs
    first = set[Owner]()
    holding, held_back = threading.Event(), ExitStack()

    def together(step: TalkerStep, owner: Owner) -> list[int] | None:
        """The first frames of all eight are in the queue before the lane takes one; later ones as it happens."""
        if owner not in first:
            first.add(owner)
            if met.wait(60) == 0:
                held_back.enter_context(held(lane))
                holding.set()
            assert holding.wait(60)
        return frame(step, owner)

    monkeypatch.setattr(engine, "frame", together)
    with ThreadPoolExecutor(8) as pool:
        saying = [pool.submit(one) for one in say_one]
        assert holding.wait(60)
        until_waiting(lane, 8)
        held_back.close()
        for done in saying:
            done.result()
    crowd = list(spoken.values())
    assert sorted(crowd) == sorted(alone)
    assert len({str(codes) for codes in alone}) == 8
    assert (lane.jobs - before[1]) - (lane.batches - before[0]) >= 7


def test_greedy_codes_need_no_seed(tts_model: TtsModel, spoken: Codes) -> None:
    """Greedy decoding is a function of the text."""
    for seed in (1, 2):
        say(tts_model, SHORT_TEXT, SpeakOptions(seed=seed, sampling=Sampling(greedy=True)))
    first, again = spoken.values()
    assert first == again


def test_voices_sound_different(tts_model: TtsModel, spoken: Codes) -> None:
    """The speaker's row reaches the talker."""
    presets = [voice.id for voice in tts_model.voices.listed() if voice.kind == "preset"]
    assert len(presets) >= 2
    for voice in presets:
        say(tts_model, SHORT_TEXT, SpeakOptions(voice=voice, seed=1))
    assert len({str(codes) for codes in spoken.values()}) == len(presets)
